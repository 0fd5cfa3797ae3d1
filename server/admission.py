"""Queue requests until a place is free, and hold the place while they run.

``FairQueue`` decides, without I/O, who gets a place; ``Admission`` waits for it; ``CancelScope`` ends what runs in it.
Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Literal, NamedTuple, TypeVar

from models.errors import ArrowheadError
from server.errors import ANSWER_TIMEOUT, KEY_FULL, MAX_RETRY_AFTER_S, SERVER_FULL, SERVER_STOPPING, RequestError

CHARS_PER_TOKEN: Final = 4


def estimated_tokens(chars: int, answer_tokens: int) -> int:
    """Estimate the tokens of one answer: its prompt at four characters a token, and its output limit."""
    return math.ceil(chars / CHARS_PER_TOKEN) + answer_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Bound the requests that run and wait.

    ``running`` at once, of one key at most ``running_per_key``; ``waiting`` behind them, each at most ``max_wait_s``
    seconds. ``tokens`` bounds the estimates of all of them together; a single request is always accepted.
    """

    running: int
    waiting: int = 0
    running_per_key: int | None = None
    tokens: int | None = 2_000_000
    max_wait_s: float = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """Represent one request in the queue.

    ``key`` is the id of the API key, "" without keys; ``tokens`` is an estimate, at least 1.
    """

    key: str
    tokens: int = 1


class Verdict(NamedTuple):
    """Report the decision on one ticket.

    ``pushed_out`` lists the waiting tickets that are evicted, because their key holds more than its share.
    """

    state: Literal["runs", "waits", "full", "key_full"]
    pushed_out: Sequence[Ticket] = ()


class FairQueue:
    """Hold the places of the queue, shared fairly between keys; not thread-safe."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._tickets: set[Ticket] = set()
        self._running: set[Ticket] = set()
        self._waiting: dict[str, deque[Ticket]] = {}
        self._served_tokens: dict[str, int] = {}
        # Breaks ties: the key whose last turn is longest ago goes first.
        self._last_turns: dict[str, int] = {}
        self._turns = count(1)
        # Tokens by key, of its running and waiting tickets together; their sum is ``tokens``.
        self._load: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self.num_waiting = 0
        self.tokens = 0

    @property
    def num_running(self) -> int:
        return len(self._running)

    def resize(self, limits: AdmissionLimits) -> None:
        """Take new limits; what runs and waits stays, and what may now run starts by ``begin_next``."""
        self._limits = limits

    def running_of(self, key: str) -> int:
        return self._places.get(key, 0)

    def enter(self, ticket: Ticket) -> Verdict:
        """Start, queue or refuse a ticket.

        A refused ticket changes nothing; a waiting one starts by ``begin_next``.
        """
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
        """Start the waiting tickets for which places are free, and return them."""
        started: list[Ticket] = []
        while self.num_running < self._limits.running:
            eligible = [key for key in self._waiting if not self._key_is_full(key)]
            if not eligible:
                break
            key = min(eligible, key=lambda name: (self._served_tokens[name], self._last_turns.get(name, 0)))
            ticket = self._waiting[key][0]
            self._unqueue(ticket)
            self._begin(ticket)
            started.append(ticket)
        return started

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket that ended or no longer waits; an unknown one is ignored."""
        if ticket not in self._tickets:
            return
        self._tickets.remove(ticket)
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
            self._last_turns.pop(ticket.key, None)
            self._drop_even_counters()

    def _key_is_full(self, key: str) -> bool:
        limit = self._limits.running_per_key
        return limit is not None and self.running_of(key) >= limit

    def _add(self, ticket: Ticket) -> None:
        if ticket.key not in self._load:
            self._served_tokens[ticket.key] = max(self._served_tokens.get(ticket.key, 0), self._floor())
        self._tickets.add(ticket)
        self._load[ticket.key] = self._load.get(ticket.key, 0) + ticket.tokens
        self.tokens += ticket.tokens

    def _begin(self, ticket: Ticket) -> None:
        self._running.add(ticket)
        self._places[ticket.key] = self.running_of(ticket.key) + 1
        self._served_tokens[ticket.key] += ticket.tokens
        self._last_turns[ticket.key] = next(self._turns)

    def _unqueue(self, ticket: Ticket) -> None:
        queue = self._waiting[ticket.key]
        queue.remove(ticket)
        self.num_waiting -= 1
        if not queue:
            del self._waiting[ticket.key]

    def _floor(self) -> int:
        return min((self._served_tokens[key] for key in self._load), default=0)

    def _drop_even_counters(self) -> None:
        """Delete the counters of absent keys that no longer affect the order."""
        floor = self._floor() if self._load else math.inf
        self._served_tokens = {
            key: tokens for key, tokens in self._served_tokens.items() if key in self._load or tokens > floor
        }

    def _victims(self, ticket: Ticket, *, must_wait: bool) -> list[Ticket] | None:
        """Return the waiting tickets to evict for ``ticket``, or None where eviction cannot make room.

        The list is empty where there is room already.
        """
        queues = {key: list(queue) for key, queue in self._waiting.items()}
        load = dict(self._load)
        victims: list[Ticket] = []
        while not self._fits(ticket, victims, must_wait=must_wait):
            own_load = load.get(ticket.key, 0) + ticket.tokens
            candidates = [key for key, queue in queues.items() if queue and load[key] - queue[-1].tokens >= own_load]
            if not candidates:
                return None
            # Evict the newest of the heaviest key, so that its earlier tickets keep their turn.
            key = max(candidates, key=lambda name: load[name])
            victims.append(queues[key].pop())
            load[key] -= victims[-1].tokens
        return victims

    def _fits(self, ticket: Ticket, victims: Sequence[Ticket], *, must_wait: bool) -> bool:
        if must_wait and self.num_waiting - len(victims) >= self._limits.waiting:
            return False
        reserved = self.tokens - sum(victim.tokens for victim in victims)
        return self._limits.tokens is None or not reserved or reserved + ticket.tokens <= self._limits.tokens


_Item = TypeVar("_Item")


class CancelScope:
    """Cancel the work of one answer at a deadline or on demand.

    A cancellation scope for one task at a time: ``with cancel_scope`` encloses work that it can cancel. One timer
    serves all blocks, as an answer has thousands of steps; ``close`` stops it. ``deadline`` is a time of the event
    loop's clock, None for no deadline.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self._error: ArrowheadError | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancels = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        self.end(RequestError("the answer was not complete at its deadline", ANSWER_TIMEOUT))

    def end(self, error: ArrowheadError) -> None:
        """Raise ``error`` in the enclosed work at its current ``await``, or else when the next block starts.

        Only the first error counts.
        """
        self._error = self._error or error
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def __enter__(self) -> None:
        """Start a block that the deadline and ``end`` cancel.

        Raises:
            ANSWER_TIMEOUT: the deadline has passed.
            ArrowheadError: the one that ``end`` was called with.
        """
        if self._error is not None:
            raise self._error
        self._task = asyncio.current_task()
        self._cancels = 0 if self._task is None else self._task.cancelling()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: object) -> None:
        error = self._release()
        if kind is asyncio.CancelledError and error is not None:
            raise error from None

    async def iterate(self, items: AsyncGenerator[_Item, None]) -> AsyncGenerator[_Item, None]:
        """Yield the items, each awaited inside the scope.

        Nothing is raised in the consumer: an error that comes while it processes an item is raised at the next item.
        """
        async with aclosing(items):
            while True:
                with self:
                    item = await anext(items, None)
                if item is None:
                    return
                yield item

    def _release(self) -> ArrowheadError | None:
        """Return the error if this scope alone has cancelled the task, else None."""
        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return None
        self._cancelled = False
        return self._error if task.uncancel() <= self._cancels else None


MIN_RETRY_S: Final = 1
# Weight of the newest sample in the moving average of the service time.
_NEWEST: Final = 0.1
_GUESS_S: Final = 2.0


@dataclass(slots=True)
class AdmissionCounts:
    """Count the outcomes of admission since the start.

    ``left`` counts the clients that disconnected while they waited.
    """

    admitted: int = 0
    refused: int = 0
    pushed_out: int = 0
    waited_too_long: int = 0
    left: int = 0


class Admission:
    """Admit requests to a bounded number of places; one instance per process.

    ``counts`` and the properties serve monitoring.
    """

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.counts = AdmissionCounts()
        self.draining = False
        self._queue = FairQueue(limits)
        self._turns: dict[Ticket, asyncio.Future[None]] = {}
        self._scopes: set[CancelScope] = set()
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

    def resize(self, running: int) -> None:
        """Change how many requests run at once, and start waiting ones where places are added."""
        self.limits = replace(self.limits, running=running)
        self._queue.resize(self.limits)
        self._begin_next()

    def check(self) -> None:
        """Check that new requests are accepted.

        Raises:
            RequestError: the server is draining.
        """
        if self.draining:
            raise RequestError("the server is about to stop", SERVER_STOPPING)

    @asynccontextmanager
    async def place(self, ticket: Ticket, deadline: float | None = None) -> AsyncIterator[CancelScope]:
        """Hold a place for the block, after a wait where none is free.

        ``deadline`` is on the event loop's clock and applies from here on, the wait included.

        Raises:
            QUEUE_FULL: no place is free and the queue is full, or the wait took too long.
            ANSWER_TIMEOUT: the deadline passed first.
            RequestError: the server is draining or ended the request.
        """
        self.check()
        cancel_scope = self._in_scope(deadline)
        try:
            await self._enter(ticket, cancel_scope)
            self.counts.admitted += 1
            began = asyncio.get_running_loop().time()
            try:
                yield cancel_scope
            finally:
                self._mean_s += _NEWEST * (asyncio.get_running_loop().time() - began - self._mean_s)
                self._leave(ticket)
        finally:
            self._unregister(cancel_scope)

    @asynccontextmanager
    async def held(self, deadline: float | None = None) -> AsyncIterator[CancelScope]:
        """Apply the deadline and the server's end to a block that only waits and so needs no place."""
        cancel_scope = self._in_scope(deadline)
        try:
            yield cancel_scope
        finally:
            self._unregister(cancel_scope)

    def end_all(self) -> None:
        """End all running and waiting requests: the server stops."""
        for cancel_scope in list(self._scopes):
            cancel_scope.end(RequestError("the server stopped before the answer was complete", SERVER_STOPPING))

    def retry_after_s(self, places: int) -> int:
        """Estimate the seconds until one of ``places`` is free for a request behind all that wait now."""
        turns = (self.waiting + 1) / max(1, places)
        return max(MIN_RETRY_S, min(MAX_RETRY_AFTER_S, math.ceil(self._mean_s * turns)))

    def _in_scope(self, deadline: float | None) -> CancelScope:
        cancel_scope = CancelScope(deadline)
        self._scopes.add(cancel_scope)
        return cancel_scope

    def _unregister(self, cancel_scope: CancelScope) -> None:
        self._scopes.discard(cancel_scope)
        cancel_scope.close()

    async def _enter(self, ticket: Ticket, cancel_scope: CancelScope) -> None:
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
            await self._wait(ticket, cancel_scope)

    async def _wait(self, ticket: Ticket, cancel_scope: CancelScope) -> None:
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        try:
            with cancel_scope:
                async with asyncio.timeout(self.limits.max_wait_s) as timeout:
                    await turn
        except TimeoutError:
            self._leave(ticket)
            if not timeout.expired():
                raise
            self.counts.waited_too_long += 1
            raise self._refusal(key_is_full=False, waited=True) from None
        except BaseException as error:
            self.counts.left += isinstance(error, asyncio.CancelledError)
            self._leave(ticket)  # also where a place was assigned at the same moment
            raise
        finally:
            del self._turns[ticket]

    def _leave(self, ticket: Ticket) -> None:
        self._queue.leave(ticket)
        self._begin_next()

    def _begin_next(self) -> None:
        for started in self._queue.begin_next():
            turn = self._turns[started]
            if not turn.done():
                turn.set_result(None)

    def _refusal(self, *, key_is_full: bool, waited: bool = False) -> RequestError:
        limits = self.limits
        if key_is_full:
            places = min(limits.running, limits.running_per_key or limits.running)
            retry = self.retry_after_s(places)
            return RequestError("this key has more requests here than its share", KEY_FULL, retry_after_s=retry)
        retry = self.retry_after_s(limits.running)
        if waited:
            return RequestError(
                f"no place became free within {limits.max_wait_s:g} s", SERVER_FULL, retry_after_s=retry
            )
        text = f"{self.in_flight} requests are being answered and {self.waiting} wait: there is no room for more"
        return RequestError(text, SERVER_FULL, retry_after_s=retry)
