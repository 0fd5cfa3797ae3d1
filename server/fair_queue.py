"""Who is answered now, who waits, who is refused: one bounded set of places, shared fairly between keys.

Fairness is that of virtual token counters: each key has a counter of the estimated tokens that it was given, and the
next place goes to the waiting key with the lowest one. A key that comes back starts no lower than those that are
there, so nobody saves up. Decides only: knows neither clock nor loop, and nothing of HTTP.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal, NamedTuple

CHARS_PER_TOKEN: Final = 4


def estimated_tokens(chars: int, answer_tokens: int) -> int:
    """What one answer may hold: its prompt at four characters a token, and all that it may write."""
    return math.ceil(chars / CHARS_PER_TOKEN) + answer_tokens


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
        # Among equals, the one whose last turn is longest ago.
        self._last: dict[str, int] = {}
        self._turns = count(1)
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
            key = min(able, key=lambda name: (self._given[name], self._last.get(name, 0)))
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
            self._last.pop(ticket.key, None)
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
        self._last[ticket.key] = next(self._turns)

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
