"""Who is answered now, who waits, who is refused: one bounded set of places, shared fairly between keys.

``FairQueue`` decides and knows neither clock nor loop. ``Admission`` lets requests wait for its decisions. Fairness is
that of virtual token counters: each key has a counter of the estimated tokens that it was given, and the next place
goes to the waiting key with the lowest one. A key that comes back starts no lower than those that are there, so nobody
saves up. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from server.errors import MAX_RETRY_AFTER_S, KeyOverloaded, RequestError, ServerOverloaded, ServerStopping
from server.leash import Leash

MIN_RETRY_S: Final = 1
_CHARS_PER_TOKEN: Final = 4
# The share of the newest in the mean time of service.
_NEWEST: Final = 0.1
_GUESS_S: Final = 2.0


def estimated_tokens(chars: int, answer_tokens: int) -> int:
    """What one answer may hold: its prompt at four characters a token, and all that it may write."""
    return math.ceil(chars / _CHARS_PER_TOKEN) + answer_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """``running`` at once, of one key at most ``running_per_key``; ``waiting`` behind them, each at most ``max_wait_s``
    seconds. ``tokens`` bounds the estimates of all of them together; one request alone is always taken."""

    running: int
    waiting: int = 0
    running_per_key: int | None = None
    tokens: int | None = None
    max_wait_s: float = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One request. ``key`` is the id of the API key, "" without keys; ``tokens`` is an estimate, at least 1."""

    key: str
    tokens: int = 1


class Verdict(NamedTuple):
    """``pushed_out``: those that waited and give way, because their key holds more than its share."""

    state: Literal["runs", "waits", "full", "key_full"]
    pushed_out: Sequence[Ticket] = ()


class FairQueue:
    """The decisions. Not safe from many threads."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._held: set[Ticket] = set()
        self._running: set[Ticket] = set()
        self._waiting: dict[str, deque[Ticket]] = {}
        self._given: dict[str, int] = {}
        # By key, of its running and waiting tickets together; their sum is ``tokens``.
        self._load: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self.num_waiting = 0
        self.tokens = 0

    @property
    def num_running(self) -> int:
        return len(self._running)

    def running_of(self, key: str) -> int:
        return self._places.get(key, 0)

    def enter(self, ticket: Ticket) -> Verdict:
        """A refused ticket leaves no trace; a waiting one begins by ``begin_next``."""
        runs = self.num_running < self._limits.running and not self._key_is_full(ticket.key)
        victims = self._victims(ticket, must_wait=not runs)
        if victims is None:
            return Verdict("key_full" if self._key_is_full(ticket.key) else "full")
        for victim in victims:
            self.leave(victim)
        self._add(ticket)
        if runs:
            self._begin(ticket)
            return Verdict("runs", victims)
        self._waiting.setdefault(ticket.key, deque()).append(ticket)
        self.num_waiting += 1
        return Verdict("waits", victims)

    def begin_next(self) -> list[Ticket]:
        """Those that waited and have a place from now on."""
        begun: list[Ticket] = []
        while self.num_running < self._limits.running:
            able = [key for key in self._waiting if not self._key_is_full(key)]
            if not able:
                break
            key = min(able, key=lambda name: self._given.get(name, 0))
            ticket = self._waiting[key][0]
            self._unqueue(ticket)
            self._begin(ticket)
            begun.append(ticket)
        return begun

    def leave(self, ticket: Ticket) -> None:
        """It has ended, or waits no longer. Nothing where it is not there any more."""
        if ticket not in self._held:
            return
        self._held.remove(ticket)
        if ticket in self._running:
            self._running.remove(ticket)
            self._places[ticket.key] -= 1
        else:
            self._unqueue(ticket)
        self.tokens -= ticket.tokens
        self._load[ticket.key] -= ticket.tokens
        if not self._load[ticket.key]:
            del self._load[ticket.key]
            self._places.pop(ticket.key, None)
            self._forget_even()

    def _key_is_full(self, key: str) -> bool:
        most = self._limits.running_per_key
        return most is not None and self.running_of(key) >= most

    def _add(self, ticket: Ticket) -> None:
        if ticket.key not in self._load:
            self._given[ticket.key] = max(self._given.get(ticket.key, 0), self._floor())
        self._held.add(ticket)
        self._load[ticket.key] = self._load.get(ticket.key, 0) + ticket.tokens
        self.tokens += ticket.tokens

    def _begin(self, ticket: Ticket) -> None:
        self._running.add(ticket)
        self._places[ticket.key] = self.running_of(ticket.key) + 1
        self._given[ticket.key] += ticket.tokens

    def _unqueue(self, ticket: Ticket) -> None:
        queue = self._waiting[ticket.key]
        queue.remove(ticket)
        self.num_waiting -= 1
        if not queue:
            del self._waiting[ticket.key]

    def _floor(self) -> int:
        return min((self._given[key] for key in self._load), default=0)

    def _forget_even(self) -> None:
        """Absent keys whose counter tells nothing any more."""
        floor = self._floor() if self._load else math.inf
        self._given = {key: given for key, given in self._given.items() if key in self._load or given > floor}

    def _victims(self, ticket: Ticket, *, must_wait: bool) -> list[Ticket] | None:
        """Who gives way to it: nobody where there is room. None where there is none to be had."""
        queues = {key: list(queue) for key, queue in self._waiting.items()}
        load = dict(self._load)
        out: list[Ticket] = []
        while not self._fits(ticket, out, must_wait=must_wait):
            mine = load.get(ticket.key, 0) + ticket.tokens
            able = [key for key, queue in queues.items() if queue and load[key] - queue[-1].tokens >= mine]
            if not able:
                return None
            # The newest of the heaviest key: what it had in the queue before keeps its turn.
            key = max(able, key=lambda name: load[name])
            out.append(queues[key].pop())
            load[key] -= out[-1].tokens
        return out

    def _fits(self, ticket: Ticket, out: Sequence[Ticket], *, must_wait: bool) -> bool:
        if must_wait and self.num_waiting - len(out) >= self._limits.waiting:
            return False
        held = self.tokens - sum(victim.tokens for victim in out)
        return self._limits.tokens is None or not held or held + ticket.tokens <= self._limits.tokens


@dataclass(slots=True)
class AdmissionCounts:
    """Since the start. ``left``: their clients went away while they waited."""

    admitted: int = 0
    refused: int = 0
    pushed_out: int = 0
    waited_too_long: int = 0
    left: int = 0


class Admission:
    """One per process. ``counts`` and the numbers are for whoever watches."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.counts = AdmissionCounts()
        self.draining = False
        self._queue = FairQueue(limits)
        self._turns: dict[Ticket, asyncio.Future[None]] = {}
        self._leashes: set[Leash] = set()
        self._mean_s = _GUESS_S

    @property
    def in_flight(self) -> int:
        return self._queue.num_running

    @property
    def waiting(self) -> int:
        return self._queue.num_waiting

    @property
    def tokens(self) -> int:
        return self._queue.tokens

    def check(self) -> None:
        """Raises ServerStopping where nothing is begun any more."""
        if self.draining:
            raise ServerStopping("the server is about to stop")

    @asynccontextmanager
    async def place(self, ticket: Ticket, deadline: float | None = None) -> AsyncIterator[Leash]:
        """A place, waited for where there is none; ``deadline`` is of the loop's clock and counts from here on.

        Raises:
            ServerOverloaded, KeyOverloaded: no place, and none to wait in; or the wait was too long.
            AnswerTimeout: the deadline came first. ServerStopping.
        """
        self.check()
        leash = Leash(deadline)
        self._leashes.add(leash)
        try:
            await self._enter(ticket, leash)
            self.counts.admitted += 1
            began = asyncio.get_running_loop().time()
            try:
                yield leash
            finally:
                self._mean_s += _NEWEST * (asyncio.get_running_loop().time() - began - self._mean_s)
                self._leave(ticket)
        finally:
            self._leashes.discard(leash)

    def end_all(self) -> None:
        """Ends what runs and what waits, with ServerStopping."""
        for leash in list(self._leashes):
            leash.end(ServerStopping("the server stopped before the answer was complete"))

    def retry_after_s(self, places: int) -> int:
        """Until one of so many places may be free, for one that comes behind all that wait."""
        turns = (self.waiting + 1) / max(1, places)
        return max(MIN_RETRY_S, min(MAX_RETRY_AFTER_S, math.ceil(self._mean_s * turns)))

    async def _enter(self, ticket: Ticket, leash: Leash) -> None:
        verdict = self._queue.enter(ticket)
        for victim in verdict.pushed_out:
            self.counts.pushed_out += 1
            turn = self._turns[victim]
            if not turn.done():
                turn.set_exception(self._refusal(key_is_full=True))
        if verdict.state in ("full", "key_full"):
            self.counts.refused += 1
            raise self._refusal(key_is_full=verdict.state == "key_full")
        if verdict.state == "waits":
            await self._wait(ticket, leash)

    async def _wait(self, ticket: Ticket, leash: Leash) -> None:
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with leash.bound(), asyncio.timeout(self.limits.max_wait_s) as patience:
                await turn
        except TimeoutError:
            self._leave(ticket)
            if not patience.expired():
                raise
            self.counts.waited_too_long += 1
            raise self._refusal(key_is_full=False, waited=True) from None
        except BaseException as error:
            self.counts.left += isinstance(error, asyncio.CancelledError)
            self._leave(ticket)  # also where its place came in the same moment
            raise
        finally:
            del self._turns[ticket]

    def _leave(self, ticket: Ticket) -> None:
        self._queue.leave(ticket)
        for begun in self._queue.begin_next():
            turn = self._turns[begun]
            if not turn.done():
                turn.set_result(None)

    def _refusal(self, *, key_is_full: bool, waited: bool = False) -> RequestError:
        limits = self.limits
        if key_is_full:
            places = min(limits.running, limits.running_per_key or limits.running)
            retry = self.retry_after_s(places)
            return KeyOverloaded("this key has more requests here than its share", retry_after_s=retry)
        retry = self.retry_after_s(limits.running)
        if waited:
            return ServerOverloaded(f"no place became free within {limits.max_wait_s:g} s", retry_after_s=retry)
        text = f"{self.in_flight} requests are being answered and {self.waiting} wait: there is no room for more"
        return ServerOverloaded(text, retry_after_s=retry)
