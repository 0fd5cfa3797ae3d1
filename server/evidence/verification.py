"""Tell what pieces of evidence say of a question or claim, and decide typed questions by them.

Each result has the sentence that decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from models.verifiers.base import Judgement, Pair
from server.errors import RequestError
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, Judge, JudgedSentence
from server.methods.shared.sentences import Sentence, split_sentences

Verdict = Literal["supported", "contradicted", "not_told"]
DecisionVerdict = Literal["yes", "no", "unclear", "chosen"]
MAX_SENTENCES: Final = 1000
# Of a piece in which no sentence alone decides, so many of the most relevant are read with what stands before them.
_WIDENED: Final = 3
_MOST_SENTENCES: Final = 3


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold a sentence of a piece, or up to three in a row, and what it is to the question or claim."""

    sentence: Sentence
    judgement: Judgement

    def weight(self, bar: float) -> tuple[float, float]:
        """Return by what it comes before others: where it decides by how sure it is, else by its relevance."""
        surest = max(self.judgement.supports, self.judgement.contradicts)
        return (surest if surest >= bar else 0.0, self.judgement.relevance)

    def verdict(self, bar: float) -> Verdict:
        if max(self.judgement.supports, self.judgement.contradicts) < bar:
            return "not_told"
        return "supported" if self.judgement.supports >= self.judgement.contradicts else "contradicted"


@dataclass(frozen=True, slots=True)
class Verification:
    """Hold the sentence that decides of each piece, in order, and of all: ``index`` is the place of its piece."""

    results: tuple[Judged, ...]
    verdict: Verdict
    index: int

    @property
    def deciding(self) -> Judged:
        return self.results[self.index]


async def verify(judge: Judge, query: str, pieces: Sequence[str]) -> Verification:
    """Return what each piece says, and the verdict of the one that is surest; ``pieces`` are not empty.

    Raises:
        RequestError: the pieces have too many sentences.
        VERIFIER_UNAVAILABLE, QUEUE_FULL: as ``VerifierService.judge``.
    """
    split = await asyncio.to_thread(lambda: [sentences_of(piece) for piece in pieces])
    if (count := sum(map(len, split))) > MAX_SENTENCES:
        raise RequestError(
            f"evidence: {count} sentences, at most {MAX_SENTENCES} are judged at once: send fewer or shorter pieces",
            param="evidence",
        )
    alone = await _judged(judge, query, split)
    bar = judge.points.verdict
    wider = await _judged(judge, query, [_widened(one, bar) for one in zip(pieces, split, alone, strict=True)])
    results = tuple(
        max((*single, *joined), key=lambda one: one.weight(bar)) for single, joined in zip(alone, wider, strict=True)
    )
    index = max(range(len(results)), key=lambda place: results[place].weight(bar))
    return Verification(results, results[index].verdict(bar), index)


def sentences_of(text: str) -> list[Sentence]:
    """Return the sentences of a text, or the whole where nothing in it is one; never an empty list."""
    found = split_sentences(text, least_words=1, longest=None)
    start = len(text) - len(text.lstrip())
    return found or [Sentence(text.strip(), start, start + len(text.strip()))]


async def _judged(judge: Judge, query: str, split: Sequence[Sequence[Sentence]]) -> list[list[Judged]]:
    pairs = [Pair(query, sentence.line) for sentences in split for sentence in sentences]
    judgements = iter(await judge.judge(pairs))
    return [[Judged(sentence, next(judgements)) for sentence in sentences] for sentences in split]


def _widened(piece: tuple[str, Sequence[Sentence], Sequence[Judged]], bar: float) -> list[Sentence]:
    """Return the most relevant sentences together with the one or two before them, which may have their subject.

    None where a sentence alone decides.
    """
    text, sentences, judged = piece
    if any(one.weight(bar)[0] for one in judged):
        return []
    best = sorted(range(len(judged)), key=lambda place: -judged[place].judgement.relevance)[:_WIDENED]
    return [
        Sentence(text[start : sentences[last].end], start, sentences[last].end)
        for last in best
        for first in range(last - 1, max(last - _MOST_SENTENCES, -1), -1)
        for start in [sentences[first].start]
    ]


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold the probability of each answer, those of yes and no in this order, and the sentence that decides.

    ``verdict`` is ``unclear`` below the verifier's bars. ``relevance``: that the sentence answers. ``sentence`` None:
    there is nothing to read.
    """

    probabilities: tuple[float, ...]
    verdict: DecisionVerdict = "unclear"
    sentence: JudgedSentence | None = None
    relevance: float = 0.0

    @property
    def place(self) -> int:
        return self.probabilities.index(max(self.probabilities))

    @property
    def confidence(self) -> float:
        """Return how likely the best answer is, if anything answers."""
        return max(self.probabilities) * self.relevance


async def decide(gate: Gate, question: str, choices: Sequence[str], texts: Sequence[EvidenceText]) -> Decision:
    """Return the decision on one typed question; ``choices`` () asks for yes or no.

    What is undecided counts half for each.

    Raises:
        ModelError: the verifier failed.
    """
    reading = await gate.read(question, texts)
    if choices:
        support = await gate.choose(question, choices, reading)
        if support is None:
            return Decision((1 / len(choices),) * len(choices))
        points = reading.points
        is_clear = support.sentence.relevance >= points.answer and support.probability >= points.choice
        return Decision(
            support.shares, "chosen" if is_clear else "unclear", support.sentence, support.sentence.relevance
        )
    one = reading.surest or next(iter(reading.ranked), None)
    if one is None:
        return Decision((0.5, 0.5))
    half = one.judgement.neither / 2
    yes, no = (one.judgement.supports + half, one.judgement.contradicts + half) if reading.surest else (0.5, 0.5)
    verdict: DecisionVerdict = "unclear" if not reading.verdict else "yes" if reading.verdict == "Yes" else "no"
    return Decision((yes, no), verdict, one, one.relevance)
