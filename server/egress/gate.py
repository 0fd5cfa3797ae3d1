"""Decide whether a call may leave: by classes where free text may, else only if the whole call is recognized.

Keeps what the decision needs from earlier calls: request ids that NCBI gave out, and what was spent of the budgets.
Sends nothing and writes no log.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from retrieval.ncbi.calls.parameter_classes import ParamClass
from retrieval.types import NcbiCall, RawReply
from server.egress.policy import Budget, BudgetName, EgressContext, EgressPolicy
from server.egress.recognition.recognizer import Recognizer
from server.egress.recognition.verdict import REASONS, Allowed, Reason
from server.egress.recognition.vocabulary import EmptyVocabulary, Vocabulary

# NCBI keeps results for about 36 hours; the client uses a request id for 24.
LIFETIME_S: Final = 24 * 3600.0
_MAX_REMEMBERED: Final = 2000
_BUDGETS: Final[Mapping[BudgetName, tuple[str, str]]] = {
    "answer_budget": ("the characters that may leave for one answer are spent", "ask in a new request"),
    "hour_budget": ("the characters that may leave for this key in an hour are spent", "ask again in an hour"),
    "day_budget": ("the characters that may leave for this key in a day are spent", "ask again tomorrow"),
}


class ReceivedRequestIds:
    """Hold at most 2,000 request ids for 24 hours each, the newest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def add(self, key_id: str, rid: str) -> None:
        self._until[key_id, rid] = self._clock() + LIFETIME_S
        self._until.move_to_end((key_id, rid))
        while len(self._until) > _MAX_REMEMBERED:
            self._until.popitem(last=False)

    def has(self, key_id: str, rid: str) -> bool:
        return self._clock() < self._until.get((key_id, rid), float("-inf"))


@dataclass(frozen=True, slots=True)
class Kept:
    """Say why a call stays: the classes that may not leave, and what of the call is to blame.

    ``text`` is for the model and the record; it has no part of the call's values.
    """

    classes: tuple[ParamClass, ...]
    param: str
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Passed:
    """Hold a call as it may leave; ``characters`` are what it costs of the budgets, 0 where there are none."""

    call: NcbiCall
    classes: tuple[ParamClass, ...]
    characters: int = 0


@dataclass(slots=True)
class Gate:
    """Judge calls that are about to leave; one instance per process."""

    policy: EgressPolicy
    vocabulary: Vocabulary = field(default_factory=EmptyVocabulary)
    received: ReceivedRequestIds = field(default_factory=ReceivedRequestIds)
    budget: Budget = field(init=False)
    refused: Counter[Reason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.budget = Budget(self.policy.budget)
        self.refused.update(dict.fromkeys(REASONS, 0))

    async def judge(self, call: NcbiCall, classes: tuple[ParamClass, ...], key_id: str) -> Passed | Kept:
        """Return the call as it may leave, or why it stays; ``classes`` are those of its values by their shape."""
        if not self.policy.is_strict:
            if blocked := self.policy.blocked(classes):
                self.refused["class"] += 1
                return Kept(blocked, "call", "class", self._by_class(blocked))
            return Passed(call, classes)
        recognizer = Recognizer(self.vocabulary, self.policy.allow)
        # On a thread: the vocabulary may be on a slow disk, and the loop serves everyone's streams.
        verdict = await asyncio.to_thread(recognizer.judge, call, lambda rid: self.received.has(key_id, rid))
        if isinstance(verdict, Allowed):
            return Passed(verdict.call, verdict.classes, verdict.characters)
        self.refused[verdict.reason] += 1
        # What is not recognized is free text, whatever its shape.
        blocked = self.policy.blocked(classes) or ("free_text",)
        text = f"{verdict.param} may not leave this machine ({self.policy.profile}): {verdict.text}"
        return Kept(blocked, verdict.param, verdict.reason, text)

    def spend(self, context: EgressContext, classes: tuple[ParamClass, ...], characters: int) -> Kept | None:
        """Count what is about to leave; return why it stays if a budget is spent."""
        if not self.policy.is_strict:
            return None
        over = self.budget.spend(context.request_id, context.key_id, characters)
        if over is None:
            return None
        self.refused[over] += 1
        what, remedy = _BUDGETS[over]
        return Kept(classes, "call", over, f"the call may not leave this machine: {what}; {remedy}")

    def note_reply(self, context: EgressContext, call: NcbiCall, reply: RawReply) -> None:
        """Remember the request id of a search that another machine accepted."""
        if call.endpoint == "blast_put" and reply.rid:
            self.received.add(context.key_id, reply.rid)

    def _by_class(self, blocked: tuple[ParamClass, ...]) -> str:
        return (
            f"{', '.join(blocked)} may not leave this machine ({self.policy.profile} allows "
            f"{', '.join(self.policy.allowed) or 'nothing'}); search by a symbol or an id, "
            "or have the operator extend egress.allow"
        )
