"""Decide which requests run, which wait and which are set back, by the columns of KV memory they need.

A request holds columns for the tokens it has, not for those it may still generate, so memory can run out while all
run. Requests stand in one order, by priority and then by arrival, and only later ones are ever set back for an earlier
one: the first of all always goes on, which is why nothing can wait for itself. Knows nothing of torch.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar


class Claim:
    """Hold what the scheduler knows of one request.

    ``columns`` are those it holds while it runs, and those it needs to run while it waits. ``waited`` counts the steps
    for which it was too large for the free memory. ``num_to_prefill`` tokens, of which ``num_computed`` are done, are
    computed before it writes.
    """

    def __init__(self) -> None:
        self.order = (0, 0)
        self.columns = 0
        self.waited = 0
        self.num_to_prefill = 0
        self.num_computed = 0


ClaimT = TypeVar("ClaimT", bound=Claim)


@dataclass(frozen=True, slots=True)
class Plan(Generic[ClaimT]):
    """Hold who is set back and then who is let in, before a step."""

    preempted: list[ClaimT]
    admitted: list[ClaimT]


class Scheduler(Generic[ClaimT]):
    """Keep the order of all requests, at most ``max_running`` of which run.

    A request that is too large for the free memory lets smaller ones behind it pass. After ``patience`` steps those are
    set back for it as soon as that makes enough room.
    """

    def __init__(self, *, max_running: int, patience: int) -> None:
        self._max_running = max_running
        self._patience = patience
        self._arrivals = count()
        self.running: list[ClaimT] = []
        self.waiting: list[ClaimT] = []

    def add(self, claim: ClaimT, *, priority: int, columns: int) -> None:
        claim.order = (-priority, next(self._arrivals))
        claim.columns = columns
        insort(self.waiting, claim, key=_order)

    def remove(self, claim: ClaimT) -> None:
        """Forget a request that has ended, wherever it stands."""
        (self.running if claim in self.running else self.waiting).remove(claim)

    def clear(self) -> list[ClaimT]:
        """Forget all requests and return them."""
        claims = [*self.running, *self.waiting]
        self.running, self.waiting = [], []
        return claims

    def admit(self, claim: ClaimT) -> None:
        self.waiting.remove(claim)
        self.running.append(claim)
        claim.waited = 0

    def set_back(self, claim: ClaimT, *, columns: int) -> None:
        """Put a running request back to its place among the waiting; ``columns`` are what it needs to go on."""
        self.running.remove(claim)
        claim.columns = columns
        insort(self.waiting, claim, key=_order)

    def plan(self, free: int) -> Plan[ClaimT]:
        """Choose who starts with ``free`` columns; ``admit`` and ``set_back`` carry it out.

        Called once a step, since it counts the steps that requests have waited for memory.
        """
        plan: Plan[ClaimT] = Plan([], [])
        rows = self._max_running - len(self.running)
        for claim in self.waiting:
            victims: list[ClaimT] | None = None
            if rows > 0 and claim.columns <= free:
                victims = []
            elif claim.waited >= self._patience:
                staying = [one for one in self.running if one not in plan.preempted]
                victims = self._youngest(staying, claim, claim.columns - free, int(rows < 1))
            if victims is None:
                # Waiting for a row is no reason to set anyone back; waiting for memory is, even if the rows are taken
                # meanwhile.
                claim.waited += rows > 0 or claim.waited > 0
                continue
            free += sum(one.columns for one in victims) - claim.columns
            rows += len(victims) - 1
            plan.preempted.extend(victims)
            plan.admitted.append(claim)
        return plan

    def make_room(self, claim: ClaimT, missing: int) -> list[ClaimT]:
        """Return whom to set back so that a running request gets ``missing`` more columns; it may be itself."""
        victims = self._youngest(self.running, claim, missing, 0)
        return [claim] if victims is None else victims

    def _youngest(self, running: Sequence[ClaimT], claim: ClaimT, columns: int, rows: int) -> list[ClaimT] | None:
        """Return the last requests behind ``claim`` that hold this much, or None if all of them hold less."""
        victims: list[ClaimT] = []
        for one in sorted(running, key=_order, reverse=True):
            if columns <= 0 and len(victims) >= rows:
                break
            if one.order <= claim.order:
                return None
            victims.append(one)
            columns -= one.columns
        return victims if columns <= 0 and len(victims) >= rows else None


def prefill_order(prefilling: Sequence[ClaimT], tokens: int) -> list[tuple[ClaimT, int]]:
    """Return who computes a step's ``tokens`` of prompts, in this order, and how many of them each may take at most.

    The first takes what it needs. If that is more than a step has, it takes half where some behind it need less than a
    step, and those take the rest, the shortest first: a long prompt takes at most twice as long, and short ones do not
    wait for its end. Other long ones do wait, since they may find its prefix in the cache then.
    """
    short = sorted((claim for claim in prefilling[1:] if _remaining(claim) <= tokens), key=_remaining)
    if not short or _remaining(prefilling[0]) <= tokens:
        return [(claim, tokens) for claim in prefilling]
    return [(prefilling[0], tokens // 2), *((claim, tokens) for claim in short)]


def _remaining(claim: Claim) -> int:
    return claim.num_to_prefill - claim.num_computed


def _order(claim: Claim) -> tuple[int, int]:
    return claim.order
