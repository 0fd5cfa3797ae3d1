"""Decide what may leave the machine, by mode, class of value, recognition and budget, and summarize what left.

Sends nothing and writes no log. The modes are those of server, key and request. A lower mode always wins: a key can be
below its server, a request below its key, never above. Where free text may leave, classes decide about a call; else it
leaves only if the whole call is recognized and its identifiers are those of the question or of replies to the same
answer. What single calls may carry then is little, but not nothing; the budget bounds the bits and characters that may
leave for one answer, and the characters for one key in an hour and a day.
Its counts, and the request ids that NCBI gave out, are in memory, and start from nothing with the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NamedTuple

from retrieval.ncbi.calls.parameter_classes import CLASSES, ParamClass
from retrieval.types import NcbiCall, RawReply
from server.egress.provenance import CALL_BITS, Origin, name_bits, weigh
from server.egress.recognition.recognizer import MAX_REQUEST_IDS, Allowed, Recognizer
from server.egress.recognition.terms import REASONS, Reason, Refused
from server.egress.recognition.vocabulary import EmptyVocabulary, Vocabulary
from server.errors import EgressRaised
from server.settings.egress import EgressSettings
from server.types import EGRESS_MODES, EgressMode, EgressProfile

BudgetName = Literal["answer_budget", "answer_bits", "hour_budget", "day_budget"]
# What can describe a patient (free text, coordinates, sequences) stays; names of public vocabularies may leave.
PROFILES: Final[Mapping[EgressProfile, frozenset[ParamClass]]] = {
    "hospital": frozenset({"id", "symbol", "term"}),
    "open": frozenset(CLASSES),
}
NOTHING_LEFT: Final = "no data left this machine"
# NCBI keeps results for about 36 hours; the client uses a request id for 24.
LIFETIME_S: Final = 24 * 3600.0
_BUDGETS: Final[Mapping[BudgetName, tuple[str, str]]] = {
    "answer_budget": ("the characters that may leave for one answer are spent", "ask in a new request"),
    "answer_bits": ("the bits that may leave for one answer are spent", "ask in a new request"),
    "hour_budget": ("the characters that may leave for this key in an hour are spent", "ask again in an hour"),
    "day_budget": ("the characters that may leave for this key in a day are spent", "ask again tomorrow"),
}


def _as_the_server(_: str) -> EgressMode | None:
    return None


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Hold the modes and the classes of values that may leave.

    ``profile`` is a profile's name, or "listed" where the operator named the classes one by one. ``mode_of_key``
    returns the mode to which a key's own scopes lower the server's, None for no limit; ``key_modes`` are those of the
    settings. ``budget`` applies where the policy is strict. ``knows_questions`` is false where calls come without what
    was asked, as at the egress service, which cannot tell where their identifiers are from.
    """

    mode: EgressMode
    profile: str
    allow: frozenset[ParamClass]
    key_modes: Mapping[str, EgressMode]
    budget: BudgetLimits
    mode_of_key: Callable[[str], EgressMode | None] = _as_the_server
    knows_questions: bool = True

    @classmethod
    def of(cls, settings: EgressSettings) -> EgressPolicy:
        budget = BudgetLimits(
            per_answer=settings.max_chars_per_answer,
            per_hour=settings.max_chars_per_hour,
            per_day=settings.max_chars_per_day,
            bits_per_answer=settings.max_bits_per_answer,
        )
        if settings.allow is not None:
            return cls(settings.mode, "listed", frozenset(settings.allow), settings.key_modes, budget)
        # An operator who sets the mode to ncbi has permitted calls; local-first is for limiting what may leave.
        profile = settings.profile or ("open" if settings.mode == "ncbi" else "hospital")
        return cls(settings.mode, profile, PROFILES[profile], settings.key_modes, budget)

    def ceiling(self, key_id: str) -> EgressMode:
        """Return the highest mode of a key's requests; ``key_id`` is "" on a server without keys."""
        modes = (self.mode, self.key_modes.get(key_id), self.mode_of_key(key_id))
        return min((mode for mode in modes if mode), key=EGRESS_MODES.index)

    def effective(self, key_id: str, requested: EgressMode | None) -> EgressMode:
        """Return the mode of one request.

        Raises:
            EgressRaised: the request asks for a mode above its key's.
        """
        ceiling = self.ceiling(key_id)
        if requested is None or EGRESS_MODES.index(requested) <= EGRESS_MODES.index(ceiling):
            return requested or ceiling
        raise EgressRaised(
            f"arrowhead.egress: {requested} is above {ceiling}, the mode of this key; a request can only lower it",
            param="arrowhead.egress",
        )

    def blocked(self, classes: Collection[ParamClass]) -> tuple[ParamClass, ...]:
        """Return those of the classes that may not leave."""
        return tuple(name for name in CLASSES if name in classes and name not in self.allow)

    @property
    def is_strict(self) -> bool:
        """Return whether only recognized calls leave: always, unless free text may."""
        return "free_text" not in self.allow

    @property
    def allowed(self) -> tuple[ParamClass, ...]:
        return tuple(name for name in CLASSES if name in self.allow)


class Departures:
    """Record what left, by host, and what was withheld in spite of a miss."""

    def __init__(self) -> None:
        self._hosts: dict[str, set[str]] = {}
        self._withheld: set[str] = set()

    def add(self, host: str, classes: Iterable[str]) -> None:
        self._hosts.setdefault(host, set()).update(classes)

    def withhold(self, classes: Iterable[str]) -> None:
        self._withheld.update(classes)

    @property
    def text(self) -> str:
        """Return a readable summary."""
        transfers = [f"{_joined(classes)} to {host}" for host, classes in sorted(self._hosts.items())]
        summary = f"left this machine: {'; '.join(transfers)}" if transfers else NOTHING_LEFT
        return f"{summary}; withheld: {_joined(self._withheld)}" if self._withheld else summary


def _joined(classes: Collection[str]) -> str:
    return ", ".join(name for name in CLASSES if name in classes) or "a call without values"


@dataclass(frozen=True, slots=True)
class EgressContext:
    """Identify the request behind a call, with the egress mode in force.

    ``key_id`` is "" on a server without keys.
    """

    request_id: str
    key_id: str
    mode: EgressMode


_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_MAX_ANSWERS: Final = 65_536
_MAX_KEYS: Final = 65_536
# Above the number of concurrent answers: what an older one has met is forgotten, and its ids stay here.
_MAX_ORIGINS: Final = 4096
_LONG_REPLY_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """Hold the characters that may leave, and the bits that the calls of one answer may say together."""

    per_answer: int
    per_hour: int
    per_day: int
    bits_per_answer: int = 256


class Cost(NamedTuple):
    """State what a call costs of the budgets."""

    characters: int = 0
    bits: float = 0.0


NO_COST: Final = Cost()


@dataclass(slots=True)
class _Spent:
    """Hold the characters of one key by the minute in which they left, the oldest first."""

    minutes: deque[tuple[float, int]] = field(default_factory=deque)

    def within(self, since: float) -> int:
        return sum(number for at, number in self.minutes if at > since)

    def add(self, now: float, characters: int) -> None:
        at = now - now % _MINUTE
        if self.minutes and self.minutes[-1][0] == at:
            characters += self.minutes.pop()[1]
        self.minutes.append((at, characters))

    def drop(self, until: float) -> None:
        while self.minutes and self.minutes[0][0] <= until:
            self.minutes.popleft()


class Budget:
    """Count what leaves; used on the event loop alone."""

    def __init__(self, limits: BudgetLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._answers: OrderedDict[str, Cost] = OrderedDict()
        self._keys: OrderedDict[str, _Spent] = OrderedDict()

    def spend(self, request_id: str, key_id: str, cost: Cost) -> BudgetName | None:
        """Count a call that is about to leave, or return the budget that it exceeds.

        What exceeds a budget is not counted.
        """
        now = self._clock()
        before, characters = self._answers.get(request_id, NO_COST), cost.characters
        spent = self._spent_by(key_id, now)
        if spent is None:
            return "day_budget"
        if before.characters + characters > self.limits.per_answer:
            return "answer_budget"
        if before.bits + cost.bits > self.limits.bits_per_answer:
            return "answer_bits"
        # A minute counts until it has passed as a whole.
        if spent.within(now - _HOUR - _MINUTE) + characters > self.limits.per_hour:
            return "hour_budget"
        if spent.within(now - _DAY - _MINUTE) + characters > self.limits.per_day:
            return "day_budget"
        spent.add(now, characters)
        self._answers[request_id] = Cost(before.characters + characters, before.bits + cost.bits)
        while len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
        return None

    def charge(self, request_id: str, bits: float) -> None:
        """Count the bits of a call that the cache answered; nothing leaves, so that no budget holds it back."""
        before = self._answers.get(request_id, NO_COST)
        self._answers[request_id] = Cost(before.characters, before.bits + bits)

    def forget(self, request_id: str) -> None:
        """Discard the count of an answer that has ended; its key's stands."""
        self._answers.pop(request_id, None)

    def _spent_by(self, key_id: str, now: float) -> _Spent | None:
        """Return the count of a key; None if there are too many keys, as forgetting one would renew its budget."""
        spent = self._keys.setdefault(key_id, _Spent())
        self._keys.move_to_end(key_id)
        spent.drop(now - _DAY - _MINUTE)
        while len(self._keys) > _MAX_KEYS:
            oldest = next(iter(self._keys))
            self._keys[oldest].drop(now - _DAY - _MINUTE)
            if self._keys[oldest].minutes:
                del self._keys[key_id]
                return None
            del self._keys[oldest]
        return spent


class ReceivedRequestIds:
    """Hold at most 2,000 request ids for 24 hours each, the newest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def add(self, key_id: str, rid: str) -> None:
        self._until[key_id, rid] = self._clock() + LIFETIME_S
        self._until.move_to_end((key_id, rid))
        while len(self._until) > MAX_REQUEST_IDS:
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
    """Hold a call as it may leave, and what it costs of the budgets, nothing where there are none.

    ``form`` is the call without its values, () where these are not known.
    """

    call: NcbiCall
    classes: tuple[ParamClass, ...]
    cost: Cost = NO_COST
    form: tuple[str, ...] = ()


@dataclass(slots=True)
class Gate:
    """Judge calls that are about to leave; one instance per process."""

    policy: EgressPolicy
    vocabulary: Vocabulary = field(default_factory=EmptyVocabulary)
    received: ReceivedRequestIds = field(default_factory=ReceivedRequestIds)
    origins: OrderedDict[str, Origin] = field(default_factory=OrderedDict)
    budget: Budget = field(init=False)
    refused: Counter[Reason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.budget = Budget(self.policy.budget)
        self.refused.update(dict.fromkeys(REASONS, 0))

    def origin_of(self, request_id: str) -> Origin:
        """Return what an answer may name, by its question and the replies so far."""
        origin = self.origins.setdefault(request_id, Origin())
        self.origins.move_to_end(request_id)
        while len(self.origins) > _MAX_ORIGINS:
            self.origins.popitem(last=False)
        return origin

    def forget(self, request_id: str) -> None:
        """Discard what is kept of an answer that has ended."""
        self.budget.forget(request_id)
        self.origins.pop(request_id, None)

    async def judge(
        self, call: NcbiCall, classes: tuple[ParamClass, ...], egress_context: EgressContext
    ) -> Passed | Kept:
        """Return the call as it may leave, or why it stays; ``classes`` are those of its values by their shape."""
        if not self.policy.is_strict:
            if blocked := self.policy.blocked(classes):
                self.refused["class"] += 1
                return Kept(blocked, "call", "class", self._by_class(blocked))
            return Passed(call, classes)
        recognizer, key_id = Recognizer(self.vocabulary, self.policy.allow), egress_context.key_id
        # On a thread: the vocabulary may be on a slow disk, and the loop serves everyone's streams.
        verdict = await asyncio.to_thread(recognizer.judge, call, lambda rid: self.received.has(key_id, rid))
        passed = self._weighed(verdict, egress_context) if isinstance(verdict, Allowed) else verdict
        if isinstance(passed, Passed):
            return passed
        self.refused[passed.reason] += 1
        # What is not recognized is free text, whatever its shape.
        blocked = self.policy.blocked(classes) or (classes if passed.reason == "origin" else ("free_text",))
        text = f"{passed.param} may not leave this machine ({self.policy.profile}): {passed.text}"
        return Kept(blocked, passed.param, passed.reason, text)

    def _weighed(self, allowed: Allowed, egress_context: EgressContext) -> Passed | Refused:
        if not self.policy.knows_questions:
            return Passed(allowed.call, allowed.classes, Cost(allowed.characters))
        weighed = weigh(allowed, self.origin_of(egress_context.request_id))
        if isinstance(weighed, Refused):
            return weighed
        cost = Cost(allowed.characters, weighed.bits)
        return Passed(weighed.allowed.call, allowed.classes, cost, weighed.form)

    def spend(
        self, context: EgressContext, classes: tuple[ParamClass, ...], cost: Cost, form: tuple[str, ...] = ()
    ) -> Kept | None:
        """Count what is about to leave; return why it stays if a budget is spent."""
        if not self.policy.is_strict:
            return None
        over = self.budget.spend(context.request_id, context.key_id, cost)
        if over is None:
            if form:
                self.origin_of(context.request_id).forms.setdefault(form)
            return None
        self.refused[over] += 1
        what, remedy = _BUDGETS[over]
        return Kept(classes, "call", over, f"the call may not leave this machine: {what}; {remedy}")

    def spend_other(
        self, context: EgressContext, classes: tuple[ParamClass, ...], params: Mapping[str, str]
    ) -> Kept | None:
        """Count a request that is no call of NCBI and has these names and ids of the site's own data."""
        name, origin = params.get("name", ""), self.origin_of(context.request_id)
        bits = CALL_BITS + (name_bits(name, origin) if name else 0.0)
        return self.spend(context, classes, Cost(sum(map(len, params.values())), bits))

    def hear(self, request_id: str, texts: Iterable[str]) -> None:
        """Note what the person wrote to whom an answer goes."""
        if self._is_origin_kept:
            origin = self.origin_of(request_id)
            for text in texts:
                origin.hear(text)

    async def learn(self, context: EgressContext, call: NcbiCall, reply: RawReply, passed: Passed | None) -> None:
        """Note the identifiers of a reply, which may leave for the same answer.

        ``passed``: the judgement of a call that may leave, None for one that was answered here. The cache's reply to
        a call that may leave costs what the call says, since which calls are asked decides what may leave after them.
        """
        if not self._is_origin_kept:
            return
        origin = self.origin_of(context.request_id)
        learn = partial(origin.learn, call, reply.body, is_paid=passed is not None)
        if passed is not None and reply.from_cache:
            self.budget.charge(context.request_id, passed.cost.bits)
        if reply.num_bytes > _LONG_REPLY_BYTES:
            await asyncio.to_thread(learn)
        else:
            learn()

    @property
    def _is_origin_kept(self) -> bool:
        return self.policy.mode != "off" and self.policy.is_strict and self.policy.knows_questions

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
