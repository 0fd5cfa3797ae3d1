"""Judge by a verifier which sentences answer a question, what they say to it, and which choice they support.

One gate for every method: a question counts as answered from the verifier's bar ``answer`` on, where several sources
are searched at once from ``answer_of_several`` on, and where no sentence reaches it, those from ``quote`` on are quoted
as unsure; yes or no is said from ``verdict`` on and a choice from ``choice`` on. There is no other bar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Protocol

from models.verifiers.base import Judgement, OperatingPoints, Pair
from server.methods.shared.reading.evidence import EvidenceSentence, EvidenceText, nearest, sentences_of, widened

DOUBTFUL: Final = "It is not sure that these sentences answer the question."
# Of a reading without sentences.
_NEVER: Final = OperatingPoints(1.0, 1.0, 1.0, 1.0, 1.0)
# Quotes of an answer.
MAX_SENTENCES: Final = 8
DEFAULT_SENTENCES: Final = 3
# So many of the best sentences, and those of so many texts, are judged with the sentence before them.
_WIDENED: Final = 6
_FIRST_TEXTS: Final = 2
# Sentences by which each choice is judged.
_OF_A_CHOICE: Final = 6

# What was judged for one answer already, by whichever method: the texts that Auto compares are those that it reads.
_judged: ContextVar[dict[Pair, Judgement] | None] = ContextVar("judged", default=None)
_quotes_unsure: ContextVar[bool] = ContextVar("quotes_unsure", default=True)


@contextmanager
def several_sources() -> Iterator[None]:
    """Let the gates of this task judge each pair once, at the bars of several sources that are searched at once."""
    _judged.set({})
    _quotes_unsure.set(True)
    try:
        yield
    finally:
        _judged.set(None)


def quote_answers_alone() -> None:
    """Let the gates of this task quote nothing that only may answer, as long as several sources are searched."""
    _quotes_unsure.set(False)


class Judge(Protocol):
    """Judge pairs off the event loop; ``VerifierService`` implements it."""

    @property
    def points(self) -> OperatingPoints: ...

    async def judge(self, pairs: Sequence[Pair]) -> Sequence[Judgement]:
        """Return a judgement for each pair, in order.

        Raises:
            ModelError: the verifier failed, or has no room for them.
        """
        ...


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """Hold a sentence with what it is to the question."""

    evidence: EvidenceSentence
    judgement: Judgement

    @property
    def relevance(self) -> float:
        return self.judgement.relevance

    @property
    def certainty(self) -> float:
        return max(self.judgement.supports, self.judgement.contradicts)


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold the judged sentences, the most relevant first, of ``num_sentences`` in all."""

    ranked: tuple[JudgedSentence, ...]
    num_sentences: int
    points: OperatingPoints

    @property
    def best(self) -> float:
        return self.ranked[0].relevance if self.ranked else 0.0

    @property
    def is_answered(self) -> bool:
        return self.best >= self.points.answer

    def quotes(self, most: int) -> list[JudgedSentence]:
        """Return at most ``most`` sentences, without those that repeat a better one.

        They are above the bar of answers where one is, else above that of quotes.
        """
        bar = self.points.answer if self.is_answered else self.points.quote
        chosen: list[JudgedSentence] = []
        for one in self.ranked:
            if one.relevance < bar or len(chosen) == most:
                break
            if not any(one.evidence.says_the_same(other.evidence) for other in chosen):
                chosen.append(one)
        return chosen

    @property
    def surest(self) -> JudgedSentence | None:
        """Return the sentence above the bar of quotes that says yes or no with most certainty, None where none is."""
        judged = [one for one in self.ranked if one.relevance >= self.points.quote]
        return max(judged, key=lambda one: (one.certainty, one.judgement.supports), default=None)

    @property
    def verdict(self) -> str:
        """Return "Yes" or "No" as the surest sentence says it, "" where it is not sure."""
        one = self.surest
        if one is None or one.certainty < self.points.verdict:
            return ""
        return "Yes" if one.judgement.supports >= one.judgement.contradicts else "No"


@dataclass(frozen=True, slots=True)
class ChoiceSupport:
    """Hold the choice at ``place``, the sentence that says it, as it is to this choice, and a probability of each."""

    place: int
    sentence: JudgedSentence
    shares: tuple[float, ...]

    @property
    def probability(self) -> float:
        return self.shares[self.place]


class Gate:
    """Read texts for questions by one verifier."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def points(self) -> OperatingPoints:
        """Return the bars of the task at hand."""
        points = self._judge.points
        if _judged.get() is None:
            return points
        bar = max(points.answer, points.answer_of_several)
        return replace(points, answer=bar, quote=points.quote if _quotes_unsure.get() else bar)

    async def read(self, question: str, texts: Sequence[EvidenceText]) -> Reading:
        """Return the sentences of the texts by their relevance to the question.

        Where none answers alone, the best ones and those of the first texts are judged with the one before them too.

        Raises:
            ModelError: the verifier failed.
        """
        sentences = await asyncio.to_thread(sentences_of, texts)
        near = await asyncio.to_thread(nearest, question, sentences)
        if not near:
            return Reading((), 0, _NEVER)
        ranked = await self._ranked(question, near)
        if ranked[0].relevance < self._judge.points.answer:
            best = [one.evidence for one in ranked[:_WIDENED]]
            best += [one for one in near if one.source < _FIRST_TEXTS and one not in best]
            ranked += await self._ranked(question, widened(sentences, best, texts))
            ranked.sort(key=lambda one: one.relevance, reverse=True)
        return Reading(tuple(ranked), len(sentences), self.points)

    async def _ranked(self, question: str, sentences: Sequence[EvidenceSentence]) -> list[JudgedSentence]:
        found = await self._found([Pair(question, one.in_context) for one in sentences])
        judged = [JudgedSentence(one, judgement) for one, judgement in zip(sentences, found, strict=True)]
        return sorted(judged, key=lambda one: one.relevance, reverse=True)

    async def _found(self, pairs: Sequence[Pair]) -> Sequence[Judgement]:
        known = _judged.get()
        if known is None:
            return await self._judge.judge(pairs)
        if new := list(dict.fromkeys(pair for pair in pairs if pair not in known)):
            known.update(zip(new, await self._judge.judge(new), strict=True))
        return [known[pair] for pair in pairs]

    async def choose(self, stem: str, choices: Sequence[str], reading: Reading) -> ChoiceSupport | None:
        """Return the choice that the best sentences support most, None where nothing was read.

        The probabilities are those of the choices against one another.

        Raises:
            ModelError: the verifier failed.
        """
        if not reading.ranked:
            return None
        rows = await self.judged_choices(stem, choices, reading.ranked[:_OF_A_CHOICE])
        best = [max(row, key=lambda one: _weight(one.judgement)) for row in rows]
        weights = [_weight(one.judgement) for one in best]
        place = weights.index(max(weights))
        # Where no sentence says any of them, all are as likely.
        shares = [weight / sum(weights) for weight in weights] if any(weights) else [1 / len(choices)] * len(choices)
        return ChoiceSupport(place, best[place], tuple(shares))

    async def judged_choices(
        self, stem: str, choices: Sequence[str], sentences: Sequence[JudgedSentence]
    ) -> list[list[JudgedSentence]]:
        """Return the sentences as they are to each choice, which is judged as a question of yes or no before the stem.

        Raises:
            ModelError: the verifier failed.
        """
        pairs = [Pair(whether(one, stem), each.evidence.in_context) for one in choices for each in sentences]
        found = iter(await self._judge.judge(pairs))
        return [[JudgedSentence(each.evidence, next(found)) for each in sentences] for _ in choices]


def whether(choice: str, stem: str) -> str:
    """Return the question whether a choice is the answer to the stem."""
    return f"Is it {choice}? {stem}"


def _weight(judgement: Judgement) -> float:
    return judgement.relevance * judgement.supports
