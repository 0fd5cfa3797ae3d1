"""Decide which requests run, wait or are refused: one bounded set of places, shared fairly between keys.

Fairness is that of virtual token counters: each key has a counter of the estimated tokens that it received, and the
next place goes to the waiting key with the lowest one. A key that returns starts no lower than the present keys, so no
key accumulates credit. Decides only: knows neither clock nor event loop, and nothing of HTTP.
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
    tokens: int | None = None
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
    """Hold the places of the queue, shared fairly between keys.

    Not thread-safe.
    """

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._held: set[Ticket] = set()
        self._running: set[Ticket] = set()
        self._waiting: dict[str, deque[Ticket]] = {}
        self._given: dict[str, int] = {}
        # Breaks ties: the key whose last turn is longest ago goes first.
        self._last: dict[str, int] = {}
        self._turns = count(1)
        # Tokens by key, of its running and waiting tickets together; their sum is ``tokens``.
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
        """Remove a ticket that ended or no longer waits; an unknown one is ignored."""
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
        """Delete the counters of absent keys that no longer affect the order."""
        floor = self._floor() if self._load else math.inf
        self._given = {key: given for key, given in self._given.items() if key in self._load or given > floor}

    def _victims(self, ticket: Ticket, *, must_wait: bool) -> list[Ticket] | None:
        """Return the waiting tickets to evict for ``ticket``, or None where eviction cannot make room.

        The list is empty where there is room already.
        """
        queues = {key: list(queue) for key, queue in self._waiting.items()}
        load = dict(self._load)
        out: list[Ticket] = []
        while not self._fits(ticket, out, must_wait=must_wait):
            mine = load.get(ticket.key, 0) + ticket.tokens
            able = [key for key, queue in queues.items() if queue and load[key] - queue[-1].tokens >= mine]
            if not able:
                return None
            # Evict the newest of the heaviest key, so that its earlier tickets keep their turn.
            key = max(able, key=lambda name: load[name])
            out.append(queues[key].pop())
            load[key] -= out[-1].tokens
        return out

    def _fits(self, ticket: Ticket, out: Sequence[Ticket], *, must_wait: bool) -> bool:
        if must_wait and self.num_waiting - len(out) >= self._limits.waiting:
            return False
        held = self.tokens - sum(victim.tokens for victim in out)
        return self._limits.tokens is None or not held or held + ticket.tokens <= self._limits.tokens
