"""Ask a verifier as the gate of a method does: which sentence answers a question, yes or no, or whether none does."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from models.encoders.base import Encoder, Floats, PassageText
from models.verifiers.base import Judgement, OperatingPoints, Pair
from retrieval.lexical.tantivy_index import open_tantivy
from retrieval.passages import Passage
from scripts.verifier.scoring import Judge
from server.methods.shared.sentences import split_sentences

NOTES: Final = Path("retrieval/corpus/ingest/sample/notes.txt")
_METHODS: Final = ("medrag", "i-medrag", "weiseeule", "clinfo")
_PASSAGES: Final = 8
_SENTENCES: Final = 32
_QUOTES: Final = 3
_LEAST_WORDS: Final = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a question of the set, the sentences that its search found, and the cosine of each to it."""

    row: dict[str, Any]
    question: str
    pairs: tuple[Pair, ...]
    cosines: tuple[float, ...]

    @property
    def without_answer(self) -> Asked | None:
        """Return the question with what passages are left where those that have its answer are taken out.

        None of a question of yes or no, whose answer is no words of a passage.
        """
        if not self.row["must"] or not self.is_answerable:
            return None
        texts: dict[str, str] = {}
        for pair in self.pairs:
            title = pair.evidence.partition(". ")[0]
            texts[title] = f"{texts.get(title, '')} {pair.evidence}"
        wanted = [re.compile(pattern, re.IGNORECASE) for pattern in self.row["must"]]
        answering = {title for title, text in texts.items() if any(pattern.search(text) for pattern in wanted)}
        kept = [place for place, pair in enumerate(self.pairs) if pair.evidence.partition(". ")[0] not in answering]
        row = {**self.row, "not_in_data": True}
        pairs, cosines = tuple(self.pairs[place] for place in kept), tuple(self.cosines[place] for place in kept)
        return Asked(row, self.question, pairs, cosines) if kept else None

    @property
    def is_answerable(self) -> bool:
        return not self.row["not_in_data"]

    def is_right(self, chosen: Sequence[str]) -> bool:
        text = " ".join(chosen)
        return all(re.search(pattern, text, re.IGNORECASE) for pattern in self.row["must"])


class Search:
    """Search passages by words and by vectors, and give their sentences below their titles."""

    def __init__(self, passages: Sequence[tuple[str, str]], encoder: Encoder) -> None:
        self._passages, self._encoder = passages, encoder
        self._vectors = encoder.encode_passages([PassageText(title, text) for title, text in passages])
        self._folder = tempfile.TemporaryDirectory(prefix="gate-")
        self._index = open_tantivy(Path(self._folder.name) / "index")
        self._index.add(
            Passage(passage_id=number, document_id=str(number), title=title, text=text)
            for number, (title, text) in enumerate(passages, 1)
        )
        self._index.commit()

    def sentences(self, question: str) -> tuple[list[str], Floats]:
        """Return sentences of the passages found, best passage first, and the cosine of each."""
        query = self._encoder.encode_queries([question])[0]
        dense = np.argsort(-(self._vectors @ query))[:_PASSAGES]
        words = [hit.passage_id - 1 for hit in self._index.search(question, _PASSAGES)]
        ranks: dict[int, float] = {}
        for order in (dense.tolist(), words):
            for rank, place in enumerate(order):
                ranks[place] = ranks.get(place, 0.0) + 1 / (60 + rank)
        best = sorted(ranks, key=lambda place: (-ranks[place], place))[:_PASSAGES]
        lines = [f"{self._passages[place][0]}. {line}" for place in best for line in _lines(self._passages[place][1])]
        lines = lines[:_SENTENCES]
        return lines, self._encoder.encode_queries(lines) @ query


def read_asked(trust: Path, encoder: Encoder) -> list[Asked]:
    """Return the questions that passages are to answer, without those on a retraction, with choices or a history."""
    passages = [json.loads(line) for line in (trust / "passages.jsonl").read_text("utf-8").splitlines()]
    searches = {
        "passages": Search([(one["title"], one["content"]) for one in passages], encoder),
        "shipped": Search(_notes(), encoder),
    }
    asked = []
    for line in (trust / "questions_dev.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        is_of_notes = row["data"] == "passages" or row["method"] in _METHODS[:3]
        is_left_out = row["letter"] or row["kind"] == "retracted" or isinstance(row["question"], list)
        if row["method"] not in _METHODS or not is_of_notes or is_left_out:
            continue
        question = re.sub(r"#|\*\*", "", str(row["question"]))
        lines, cosines = searches[row["data"]].sentences(question)
        asked.append(Asked(row, question, tuple(Pair(question, one) for one in lines), tuple(map(float, cosines))))
    return asked


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what the gate says to a question: its best sentences, the best relevance, and "yes", "no" or ""."""

    asked: Asked
    best: tuple[str, ...]
    relevance: float
    verdict: str


def outcomes(asked: Sequence[Asked], judge: Judge, points: OperatingPoints) -> list[Outcome]:
    found = iter(judge.judge([pair for one in asked for pair in one.pairs]))
    return [_outcome(one, [next(found) for _ in one.pairs], points) for one in asked]


def _outcome(asked: Asked, judgements: Sequence[Judgement], points: OperatingPoints) -> Outcome:
    order = sorted(range(len(judgements)), key=lambda place: -judgements[place].relevance)[:_QUOTES]
    kept = [judgements[place] for place in order if judgements[place].relevance >= points.quote]
    sides = [(max(one.supports, one.contradicts) * one.relevance, one) for one in kept]
    verdict = ""
    if sides:
        one = max(sides, key=lambda side: side[0])[1]
        if max(one.supports, one.contradicts) >= points.verdict:
            verdict = "yes" if one.supports > one.contradicts else "no"
    best = tuple(asked.pairs[place].evidence for place in order)
    return Outcome(asked, best, judgements[order[0]].relevance if order else 0.0, verdict)


def with_nothing(asked: Sequence[Asked]) -> list[Asked]:
    """Return the questions that nothing answers: those of the set, and the others without their passages."""
    left = (one.without_answer for one in asked)
    return [*(one for one in asked if not one.is_answerable), *(one for one in left if one is not None)]


def by_cosine(asked: Asked, number: int) -> list[str]:
    order = sorted(range(len(asked.pairs)), key=lambda place: -asked.cosines[place])[:number]
    return [asked.pairs[place].evidence for place in order]


def _notes() -> list[tuple[str, str]]:
    parts = re.split(r"(?m)^# ", NOTES.read_text("utf-8"))[1:]
    return [(title.strip(), " ".join(text.split())) for title, _, text in (part.partition("\n") for part in parts)]


def _lines(text: str) -> list[str]:
    return [one.line for one in split_sentences(text, least_words=_LEAST_WORDS)]
