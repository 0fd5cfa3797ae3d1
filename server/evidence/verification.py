"""Tell what pieces of evidence say of one question or claim, and which of their sentences decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from models.verifiers.base import Judgement, Pair
from server.errors import InvalidRequest
from server.methods.shared.reading.gate import Judge
from server.methods.shared.sentences import Sentence, split_sentences

Verdict = Literal["supported", "contradicted", "not_told"]
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
        InvalidRequest: the pieces have too many sentences.
        VerifierUnavailable, TooManyRequests: as ``VerifierService.judge``.
    """
    split = await asyncio.to_thread(lambda: [sentences_of(piece) for piece in pieces])
    if (count := sum(map(len, split))) > MAX_SENTENCES:
        raise InvalidRequest(
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
