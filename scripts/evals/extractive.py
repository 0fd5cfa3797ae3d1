"""Calibrate and measure extractive answers on BioASQ questions.

    python scripts/evals/extractive.py DATA [--questions 300] [--distractors 2500] [--work DIR] [--fit]

``DATA`` holds ``corpus.jsonl.gz`` ({pmid, title, abstract}) and ``questions_dev.jsonl.gz`` ({id, type, question,
gold_pmids, snippets}); without them the script says so and ends with 0. Each question is asked twice over one
namespace: with its gold documents, and with them removed from the hits, where an abstention is right. Questions whose
id has an even hash are for fitting (``--fit`` prints constants for ``server/methods/shared/extractive.py``), the others
for the report. A sentence counts as gold where it stands in a snippet that the experts marked in its document.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings, embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.passages import Document
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest
from server.methods.shared.extractive import (
    CALIBRATIONS,
    Calibration,
    Candidate,
    ScoredSentence,
    Source,
    candidates_of,
    chosen,
    scored,
    stems_of,
)
from server.methods.shared.passages import PassageQuery, Passages, SentenceScores
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

Rows = NDArray[np.float64]
_NAME: Final = "bioasq"
_K: Final = 32
_MOST: Final = 3
_SAME: Final = 0.8
_RIDGE: Final = 1.0
# The bar is the lowest at which so few of the questions without gold documents are answered, on the fitting half.
_MAX_FALSE: Final = 0.10


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    gold: frozenset[str]
    snippets: tuple[tuple[str, str], ...]

    @property
    def is_for_fitting(self) -> bool:
        return _hash(self.id) % 2 == 0


@dataclass(frozen=True)
class Asked:
    """One question in one of the two conditions; ``gold`` says of each candidate whether experts marked it."""

    question: Question
    has_gold: bool
    candidates: tuple[Candidate, ...]
    scores: SentenceScores
    gold: tuple[bool, ...]


def _hash(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_questions(rows: Iterable[dict[str, Any]], most: int) -> list[Question]:
    found = [
        Question(
            row["id"],
            row["question"],
            frozenset(row["gold_pmids"]),
            tuple((one["pmid"], one["text"]) for one in row["snippets"]),
        )
        for row in rows
        if row["snippets"]
    ]
    return sorted(found, key=lambda one: _hash("order" + one.id))[:most]


def choose_documents(rows: Sequence[dict[str, Any]], gold: frozenset[str], distractors: int) -> list[dict[str, Any]]:
    others = sorted((row for row in rows if row["pmid"] not in gold), key=lambda row: _hash(row["pmid"]))
    return [row for row in rows if row["pmid"] in gold] + others[:distractors]


def parsed(row: dict[str, Any]) -> ParsedDocument:
    document = Document(document_id=f"PMID:{row['pmid']}", title=row["title"], source="PubMed")
    return ParsedDocument(document, row["abstract"], (Span(0, len(row["abstract"])),))


def in_snippet(sentence: str, snippets: Sequence[frozenset[str]]) -> bool:
    words = stems_of(sentence)
    return any(len(words & snippet) >= _SAME * len(words) for snippet in snippets)


async def ask(question: Question, passages: Passages) -> list[Asked]:
    found = (await passages.find([question.text], PassageQuery(k=_K + len(question.gold)))).lists[0]
    without = [one for one in found if one.passage.document_id.removeprefix("PMID:") not in question.gold]
    conditions = ((True, found[:_K]), (False, without[:_K]))
    sets = [candidates_of(question.text, [_source(one) for one in hits]).sentences for _, hits in conditions]
    lines = list(dict.fromkeys(one.compared for candidates in sets for one in candidates))
    scores = await passages.compare(question.text, lines, [_NAME])
    cosine = dict(zip(lines, scores.cosines, strict=True)) if scores.cosines else {}
    return [
        Asked(
            question,
            has_gold,
            candidates,
            SentenceScores(
                encoder=scores.encoder, cosines=tuple(cosine[c.compared] for c in candidates) if cosine else ()
            ),
            tuple(_is_gold(question, hits[c.source], c) for c in candidates),
        )
        for (has_gold, hits), candidates in zip(conditions, sets, strict=True)
    ]


def _source(found: RankedPassage) -> Source:
    return Source(embedded_title(found.passage), found.passage.text)


def _is_gold(question: Question, found: RankedPassage, candidate: Candidate) -> bool:
    pmid = found.passage.document_id.removeprefix("PMID:")
    return in_snippet(candidate.sentence.text, [stems_of(text) for of, text in question.snippets if of == pmid])


def fit(asked: Sequence[Asked], *, with_cosine: bool) -> Calibration:
    """Fit the weights by logistic regression over sentences, then the bar over answers."""
    rows, labels = [], []
    for one in asked:
        cosines = one.scores.cosines if with_cosine else (0.0,) * len(one.candidates)
        for candidate, cosine, gold in zip(one.candidates, cosines, one.gold, strict=True):
            rows.append([1.0, cosine, candidate.covered])
            labels.append(float(gold))
    bias, cosine, covered = (round(float(weight), 2) for weight in _logistic(np.array(rows), np.array(labels)))
    free = Calibration(bias, cosine, covered, bar=0.0)
    tops = sorted((_top(one, free) for one in asked if not one.has_gold), reverse=True)
    bar = tops[int(_MAX_FALSE * len(tops))] if tops else 0.5
    return replace(free, bar=math.ceil(bar * 100) / 100)


def _logistic(rows: Rows, labels: Rows) -> Rows:
    weights = np.zeros(rows.shape[1])
    penalty = _RIDGE * np.diag([0.0, *[1.0] * (rows.shape[1] - 1)])
    for _ in range(30):
        odds = 1.0 / (1.0 + np.exp(-rows @ weights))
        slope = rows.T @ (odds - labels) + penalty @ weights
        curve = (rows * (odds * (1 - odds))[:, None]).T @ rows + penalty + 1e-9 * np.eye(rows.shape[1])
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights


def _ranked(one: Asked, use: Calibration) -> list[ScoredSentence]:
    return scored(one.candidates, one.scores, use)


def _top(one: Asked, use: Calibration) -> float:
    return max((entry.score for entry in _ranked(one, use)), default=0.0)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the chance that a positive scores higher than a negative; equal scores count half."""
    if not positive or not negative:
        return 0.5
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    return sum(pairs) / len(pairs)


def report(asked: Sequence[Asked], use: Calibration, bar: float) -> dict[str, float]:
    present = [one for one in asked if one.has_gold]
    removed = [one for one in asked if not one.has_gold]
    answers = [found for one in present if (found := _gold_of_answer(one, use, bar))]
    false = [one for one in removed if _gold_of_answer(one, use, bar)]
    tops = [[_top(one, use) for one in group] for group in (present, removed)]
    return {
        "questions": len(present),
        "gold sentence among the candidates": _share(any(one.gold) for one in present),
        "AUROC, gold there or removed": auroc(*tops),
        "bar": bar,
        "answered, gold there": len(answers) / max(1, len(present)),
        "abstained, gold removed": 1 - len(false) / max(1, len(removed)),
        "first sentence in a gold snippet": _share(found[0] for found in answers),
        "any sentence in a gold snippet": _share(any(found) for found in answers),
        "sentences in an answer": sum(map(len, answers)) / max(1, len(answers)),
    }


def _gold_of_answer(one: Asked, use: Calibration, bar: float) -> list[bool]:
    """Return for each sentence of the answer whether it is gold, [] for an abstention."""
    gold = dict(zip(one.candidates, one.gold, strict=True))
    return [gold[found.candidate] for found in chosen(_ranked(one, use), _MOST, bar)]


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return sum(found) / max(1, len(found))


async def run(options: argparse.Namespace, folder: Path) -> None:
    questions = read_questions(read_rows(options.data / "questions_dev.jsonl.gz"), options.questions)
    gold = frozenset(pmid for question in questions for pmid in question.gold)
    rows = choose_documents(read_rows(options.data / "corpus.jsonl.gz"), gold, options.distractors)
    settings = RetrievalSettings(encoder=options.encoder)
    retrieval = build_retrieval(settings, folder)
    service = PassageService(retrieval, settings)
    try:
        if _NAME not in retrieval.namespaces.names():
            retrieval.namespaces.create(_NAME, NamespaceSettings(encoder=options.encoder))
            add_items(retrieval.namespaces, _NAME, map(parsed, rows))
        passages = service.open(AnswerRequest(request_id="eval"))
        asked: list[Asked] = []
        for number, question in enumerate(questions, 1):
            asked += await ask(question, passages)
            if number % 50 == 0:
                print(f"{number} of {len(questions)} questions", file=sys.stderr)
    finally:
        await service.close()
        await retrieval.close()
    _tell(asked, options)


def _tell(asked: Sequence[Asked], options: argparse.Namespace) -> None:
    fitting = [one for one in asked if one.question.is_for_fitting]
    held_out = [one for one in asked if not one.question.is_for_fitting]
    known = CALIBRATIONS.get(options.encoder)
    kinds = [("lexical", "", False), *([("with cosines", options.encoder, True)] if known or options.fit else [])]
    for title, name, with_cosine in kinds:
        use = fit(fitting, with_cosine=with_cosine) if options.fit else CALIBRATIONS[name]
        print(f"{title}: {use}")
        for label, value in report(held_out, use, use.bar).items():
            print(f"| {label} | {value:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--distractors", type=int, default=2500)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--work", type=Path, help="keeps the namespace for the next run")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    if not (options.data / "questions_dev.jsonl.gz").is_file() or not (options.data / "corpus.jsonl.gz").is_file():
        print(f"skipped: {options.data} has no questions_dev.jsonl.gz and corpus.jsonl.gz")
        return
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(run(options, options.work or Path(temporary)))


if __name__ == "__main__":
    main()
