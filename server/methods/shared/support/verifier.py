"""Tell whether what a sentence cites states it: by the served model where it is able to, else by the trained verifier.

The served model writes one token of yes or no for each sentence, all at once. A measured check says whether it is able:
it asks about short texts of our own, each with a sentence that it states and one that differs in a name, a number, a
negation or a direction.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from models.decoding.types import LoopUsage
from models.errors import ArrowheadError
from models.verifiers.base import Judgement, Pair
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.shared.generation import Generations, PromptFormatter, finished, prompt_text
from server.methods.shared.reading.evidence import EvidenceSentence, EvidenceText, nearest, sentences_of
from server.methods.shared.reading.gate import Judge
from server.methods.shared.support.sources import stems_of
from server.methods.shared.verdicts import probabilities_of

log = logging.getLogger(__name__)
_AT_ONCE: Final = 16
_ANSWER: Final = "Answer:"
_YES_OR_NO: Final = (" yes", " no")
# In seconds, for the check and for the sentences of one answer: a slower model keeps readers waiting.
_TIMEOUT: Final = 20.0
# Of the sentences that are stated, the check's bar lets so many fall below it.
_MISSED: Final = 0.05
_MOST_BAR: Final = 0.5
# Sentences of the evidence that a claim is held against by the trained verifier.
_NEAREST: Final = 8
# Numbers and names of a claim that all stand in its evidence, up to which the contrary is believed.
_FEW: Final = 2
_MIN_SHARED: Final = 0.5
# The least share of sentences that are not stated which fall below the bar.
_ABLE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold a sentence without marks, and the text that it cites.

    ``texts`` are the same text by its sources, with their titles. ``num_checked``: so many numbers and identifiers of
    the sentence stand in them.
    """

    sentence: str
    evidence: str
    texts: tuple[EvidenceText, ...] = ()
    num_checked: int = 0


@dataclass(frozen=True, slots=True)
class ClaimVerification:
    """Hold the probability that each claim is stated by its evidence, None where it was not judged, and the usage.

    From ``bar`` on a claim counts as stated, and below ``floor``, by default the same, as not stated. ``contradicted``
    are the places of those whose evidence says the contrary.
    """

    probabilities: tuple[float | None, ...] = ()
    bar: float = _MOST_BAR
    contradicted: frozenset[int] = frozenset()
    floor: float | None = None
    usage: LoopUsage = field(default_factory=LoopUsage)


class ClaimVerifier(Protocol):
    """Tell how probable it is that evidence states a sentence."""

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification: ...


@dataclass(frozen=True, slots=True)
class Ability:
    """Hold how a model does in the check: the ``bar`` of its probabilities, and what share it tells apart there."""

    bar: float
    share: float

    @property
    def is_enough(self) -> bool:
        return self.share >= _ABLE


def ability_of(stated: Sequence[float], not_stated: Sequence[float]) -> Ability:
    """Return the bar that all but a few of the stated sentences reach, and the share of the others that are below."""
    ranked = sorted(stated)
    bar = min(_MOST_BAR, ranked[int(_MISSED * len(ranked))])
    return Ability(bar, sum(one < bar for one in not_stated) / len(not_stated))


class TrainedVerifier:
    """Judge each claim by the nearest sentences of its evidence; ``able`` judges in its place wherever it can."""

    def __init__(self, judge: Judge, able: ClaimVerifier | None = None) -> None:
        self._judge = judge
        self._able = able

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification:
        """Return the verification; without probabilities where the verifier fails, which its service logs."""
        if self._able is not None:
            found = await self._able.verify(ask, claims)
            if any(one is not None for one in found.probabilities):
                return found
        near = await asyncio.to_thread(lambda: [*map(_near, claims)])
        pairs = [Pair(one.sentence, each.in_context) for one, own in zip(claims, near, strict=True) for each in own]
        if not pairs:
            return ClaimVerification((None,) * len(claims))
        try:
            judged = iter(await self._judge.judge(pairs))
        except ArrowheadError:
            return ClaimVerification((None,) * len(claims))
        points = self._judge.points
        supports, contradicted = list[float | None](), set[int]()
        for place, own in enumerate(near):
            judgements = [next(judged) for _ in own]
            supports.append(max((one.supports for one in judgements), default=None))
            if _contradicts(claims[place], list(zip(own, judgements, strict=True)), points.verdict):
                contradicted.add(place)
        return ClaimVerification(tuple(supports), points.verdict, frozenset(contradicted), points.label)


def _contradicts(claim: Claim, judged: Sequence[tuple[EvidenceSentence, Judgement]], bar: float) -> bool:
    """Return whether a sentence of the evidence surely says the contrary of a claim.

    Either none of the others may support the claim, or the sentence has the claim's own words. With many numbers that
    all stand there, it is more likely that the verifier reads them wrongly.
    """
    contrary = [one for one, judgement in judged if judgement.contradicts >= bar]
    if not contrary or claim.num_checked > _FEW:
        return False
    if max(judgement.supports for _, judgement in judged) < 1 - bar:
        return True
    words = stems_of(claim.sentence)
    return claim.num_checked < _FEW and any(
        len(words & stems_of(one.line)) >= _MIN_SHARED * len(words) for one in contrary
    )


def _near(claim: Claim) -> list[EvidenceSentence]:
    return nearest(claim.sentence, sentences_of(claim.texts or [EvidenceText("", claim.evidence)]), _NEAREST)


class ModelVerifier:
    """Ask the served model, once it has passed the check, which the first answer starts beside itself."""

    def __init__(self, lifecycle: EngineLifecycle) -> None:
        self._lifecycle = lifecycle
        self._system = prompt_text("shared", "supported_system.txt")
        self._asked = prompt_text("shared", "supported.txt")
        self._probe = [json.loads(line) for line in prompt_text("shared", "support_probe.jsonl").splitlines()]
        self._check: asyncio.Task[Ability | None] | None = None

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification:
        if self._check is None:
            self._check = asyncio.create_task(self._checked())
        ability = self._check.result() if self._check.done() else None
        if ability is None or not ability.is_enough:
            return ClaimVerification((None,) * len(claims))
        generations = Generations(self._lifecycle.get(), f"{ask.request_id}.support")
        shares = await self._shares(generations, claims, ask.cache_salt)
        return ClaimVerification(tuple(shares), ability.bar, usage=generations.usage)

    async def close(self) -> None:
        """Stop the check."""
        if self._check is not None:
            self._check.cancel()
            await asyncio.gather(self._check, return_exceptions=True)

    async def _checked(self) -> Ability | None:
        """Return what the model can, None where it failed or was too slow."""
        try:
            generations = Generations(self._lifecycle.get(), "support-check")
            claims = [Claim(row[kind], row["evidence"]) for kind in ("stated", "not_stated") for row in self._probe]
            shares = [share for share in await self._shares(generations, claims, None) if share is not None]
        except ArrowheadError as error:
            log.warning("the check of the model as a verifier failed: %s", error.message)
            return None
        if len(shares) < len(claims):
            log.info("the model is not used as a verifier: it judged %d of %d sentences", len(shares), len(claims))
            return None
        ability = ability_of(shares[: len(self._probe)], shares[len(self._probe) :])
        used = "used" if ability.is_enough else "not used"
        log.info("the model is %s as a verifier: it tells %.0f %% apart", used, 100 * ability.share)
        return ability

    async def _shares(
        self, generations: Generations, claims: Sequence[Claim], cache_salt: str | None
    ) -> list[float | None]:
        """Return the probability of yes for each claim; None for those that fail or are not judged in time."""
        layout = PromptFormatter(generations.engine, self._lifecycle.card)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def share(claim: Claim) -> float | None:
            user = f"{self._asked}\n\nText:\n{claim.evidence}\n\nSentence: {claim.sentence}"
            prompt = await layout.prompt(self._system, user, _ANSWER)
            if len(prompt) >= generations.engine.max_model_len:
                return None
            async with slots:
                try:
                    shares = await probabilities_of(generations, prompt, _YES_OR_NO, cache_salt)
                except ArrowheadError:
                    return None
            return shares[0] if shares is not None else None

        return await finished([share(claim) for claim in claims], _TIMEOUT)
