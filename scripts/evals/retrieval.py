"""Measure how well each retriever finds what is known to answer real questions, over namespaces that it builds.

Documents and snippets of BioASQ, and known items (a systematic review from its own question). Every retriever with and
without late interaction; ``--cross-encoder`` adds re-ranking by one.

    python scripts/evals/retrieval.py FOLDER [--half dev|test] [--retrievers bm25,hybrid] [--work FOLDER] [--json FILE]

FOLDER has ``corpus.jsonl.gz`` ({"pmid", "title", "abstract"}), ``questions_dev.jsonl.gz`` and
``known_item_dev.jsonl.gz``. Questions fall into two halves by a hash: choices are made on ``dev``, and ``test`` is
looked at afterwards. ``--work`` keeps the namespaces, which take minutes to encode, for the next run. For the times of
the server, set GOMP_SPINCOUNT=20000 and OPENBLAS_THREAD_TIMEOUT=14 before the command, as the arrowhead command does.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, TextBuilder
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.searcher import LATE, SearchOptions
from retrieval.passages import Document
from scripts.evals.clinfo_measures import average_precision, recall
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.intervals import bootstrap_mean, paired_difference
from scripts.evals.harness.records import rows_of
from scripts.evals.harness.tables import markdown_table
from server.evidence.passages import Retrieval
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

Half = Literal["dev", "test", "all"]
RETRIEVERS: Final = ("bm25", "dense", "pes2", "rrf-2", "hybrid")
_NAME: Final = "bioasq"
DEPTH: Final = 100
TOP: Final = 10
MEASURES: Final = ("MAP@10", "recall@10", "recall@100", "nDCG@10", "snippets@10")


@dataclass(frozen=True, slots=True)
class Question:
    """``gold``: document ids; ``snippets``: (document id, text); ``kind``: BioASQ's type, or "known"."""

    id: str
    kind: str
    text: str
    gold: frozenset[str]
    snippets: tuple[tuple[str, str], ...] = ()

    @property
    def half(self) -> Half:
        return "test" if hashlib.sha256(self.id.encode()).digest()[0] % 2 else "dev"


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to search: a retriever, with so many hits ordered by late interaction or a cross-encoder."""

    retriever: str
    late: int = 0
    rerank: int = 0

    @property
    def name(self) -> str:
        return self.retriever + (" + late" if self.late else "") + (" + cross" if self.rerank else "")

    def options(self, k: int) -> SearchOptions:
        return SearchOptions(k=k, retriever=self.retriever, late=self.late, rerank=self.rerank)


@dataclass(slots=True)
class Found:
    """What an arm found: measures by question, in the order of the questions, and seconds of each search.

    ``cpu``: of all threads; on a machine with other work this is what a search costs.
    """

    scores: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def mean(self, measure: str) -> float:
        values = self.scores[measure]
        return sum(values) / len(values) if values else 0.0

    @property
    def ms(self) -> tuple[float, float]:
        """Medians: by the clock, and of the processor."""
        return 1000 * median(self.seconds), 1000 * median(self.cpu)


def ndcg(ranked: Sequence[str], gold: frozenset[str], k: int = TOP) -> float:
    gain = sum(1 / math.log2(place + 1) for place, one in enumerate(ranked[:k], 1) if one in gold)
    return gain / sum(1 / math.log2(place + 1) for place in range(1, min(k, len(gold)) + 1))


def reciprocal_rank(ranked: Sequence[str], gold: frozenset[str]) -> float:
    return next((1 / place for place, one in enumerate(ranked, 1) if one in gold), 0.0)


def snippet_recall(passages: Sequence[tuple[str, str]], snippets: Sequence[tuple[str, str]]) -> float:
    """Share of the gold snippets that a passage (document id, text) of their own document has word for word."""
    texts = [(document, _plain(text)) for document, text in passages]
    found = [any(one == document and _plain(text) in read for one, read in texts) for document, text in snippets]
    return sum(found) / len(found)


def _plain(text: str) -> str:
    return " ".join(text.split())


def read_questions(folder: Path) -> list[Question]:
    found = [
        Question(
            id=row["id"],
            kind=row["type"],
            text=row["question"],
            gold=frozenset(f"PMID:{int(pmid)}" for pmid in row["gold_pmids"]),
            snippets=tuple((f"PMID:{int(one['pmid'])}", one["text"]) for one in row["snippets"]),
        )
        for row in rows_of(folder / "questions_dev.jsonl.gz")
    ]
    known = folder / "known_item_dev.jsonl.gz"
    for row in rows_of(known) if known.exists() else ():
        gold = frozenset({f"PMID:{int(row['pmid'])}"})
        found.append(Question(id=f"known:{row['pmid']}", kind="known", text=row["question"], gold=gold))
    return found


def corpus(folder: Path) -> Iterator[ParsedDocument]:
    for line, row in enumerate(rows_of(folder / "corpus.jsonl.gz"), 1):
        title, abstract = row["title"].strip(), row["abstract"].strip()
        document = Document(document_id=f"PMID:{int(row['pmid'])}", title=title if abstract else "", source="pubmed")
        text = TextBuilder()
        text.add(abstract or title)
        item = text.reading(document, line)
        if isinstance(item, ParsedDocument):
            yield item


def fill(namespaces: Namespaces, encoder: str, items: Sequence[ParsedDocument]) -> None:
    """Build a namespace, unless an earlier run has."""
    if _NAME not in namespaces.names():
        namespaces.create(_NAME, NamespaceSettings(encoder=encoder))
    counts = namespaces.describe(_NAME).counts
    if counts is not None and counts.documents == len(items) and not any(counts.pending.values()):
        return
    began = time.perf_counter()
    report = add_items(namespaces, _NAME, items)
    seconds = time.perf_counter() - began
    print(f"{_NAME}: {report.added:,} documents added, {report.unchanged:,} there, {seconds:.0f} s", file=sys.stderr)


def measure(retrieval: Retrieval, questions: Sequence[Question], arm: Arm) -> Found:
    """Ask one by one, as a user does; the first question is asked twice, since opening indices is not counted."""
    found = Found()
    options, searcher = arm.options(DEPTH), retrieval.searcher
    searcher.search(questions[0].text, [_NAME], options)
    for question in questions:
        began, cpu = time.perf_counter(), time.process_time()
        hits = searcher.search(question.text, [_NAME], options)
        found.seconds.append(time.perf_counter() - began)
        found.cpu.append(time.process_time() - cpu)
        ranked = list(dict.fromkeys(hit.document.document_id for hit in hits))
        gold = question.gold
        if question.kind == "known":
            found.scores["MRR"].append(reciprocal_rank(ranked[:TOP], gold))
            found.scores["first"].append(float(ranked[:1] != [] and ranked[0] in gold))
            continue
        scores = (average_precision(ranked, gold), recall(ranked[:TOP], gold), recall(ranked[:DEPTH], gold))
        for label, score in zip(MEASURES, (*scores, ndcg(ranked, gold)), strict=False):
            found.scores[label].append(score)
        if question.snippets:
            passages = [(hit.document.document_id, hit.passage.text) for hit in hits[:TOP]]
            found.scores["snippets@10"].append(snippet_recall(passages, question.snippets))
    return found


def arms_of(retrievers: Sequence[str], cross_encoder: bool) -> list[Arm]:
    """Every retriever with and without late interaction, BM25 first, which the others are compared with."""
    names = dict.fromkeys(("bm25", *retrievers))
    return [Arm(name, late) for name in names for late in (0, LATE)] + [Arm("hybrid", LATE, LATE)] * cross_encoder


def table(found: dict[Arm, Found], measures: Sequence[str], base: Found) -> str:
    """Means with 95 % bootstrap intervals, and the paired difference of the first measure from ``base``."""
    rows = []
    for arm, one in found.items():
        cells = []
        for label in measures:
            interval = bootstrap_mean(one.scores[label])
            cells.append(f"{one.mean(label):.3f} ({interval.low:.3f}-{interval.high:.3f})")
        change, interval = paired_difference(base.scores[measures[0]], one.scores[measures[0]])
        difference = f"{change:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"
        rows.append([arm.name, *cells, difference, *(f"{ms:.1f}" for ms in one.ms)])
    return markdown_table(["retriever", *measures, f"{measures[0]} - bm25", "ms", "CPU ms"], rows)


def type_table(found: dict[Arm, Found], questions: Sequence[Question]) -> str:
    kinds = sorted({question.kind for question in questions})
    rows = []
    for arm, one in found.items():
        by_kind = [
            [score for question, score in zip(questions, one.scores["MAP@10"], strict=True) if question.kind == kind]
            for kind in kinds
        ]
        rows.append([arm.name, *(f"{sum(scores) / len(scores):.3f}" for scores in by_kind)])
    counts = [f"{kind} ({sum(question.kind == kind for question in questions)})" for kind in kinds]
    return markdown_table(["MAP@10", *counts], rows)


def in_half(questions: Sequence[Question], half: Half) -> list[Question]:
    return [question for question in questions if half in ("all", question.half)]


def report(retrieval: Retrieval, args: argparse.Namespace, sets: dict[str, list[Question]]) -> dict[str, Any]:
    """Measure every set with every arm, print the tables, and return the means."""
    result: dict[str, Any] = {"half": args.half}
    arms = arms_of(args.retrievers.split(","), args.cross_encoder is not None)
    for label, questions in sets.items():
        if not questions:
            continue
        found = {arm: measure(retrieval, questions, arm) for arm in arms}
        measures = MEASURES if label == "bioasq" else ("MRR", "first")
        base = next(iter(found.values()))
        print(f"\n{label}, {len(questions)} questions ({args.half})\n\n{table(found, measures, base)}")
        if label == "bioasq":
            print(f"\n{type_table(found, questions)}")
        result[label] = {
            arm.name: {"ms": round(one.ms[0], 2), "cpu_ms": round(one.ms[1], 2)}
            | {measure: round(one.mean(measure), 4) for measure in measures}
            for arm, one in found.items()
        }
    return result


def run(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    retrieval = build_retrieval(RetrievalSettings(encoders=(args.encoder,), cross_encoder=args.cross_encoder), work)
    try:
        questions = in_half(read_questions(args.folder), args.half)
        fill(retrieval.namespaces, args.encoder, list(corpus(args.folder)))
        sets = {
            "bioasq": [question for question in questions if question.kind != "known"],
            "known items": [question for question in questions if question.kind == "known"],
        }
        return report(retrieval, args, sets)
    finally:
        asyncio.run(retrieval.close())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("dev", "test", "all"), default="dev")
    parser.add_argument("--retrievers", default=",".join(RETRIEVERS), metavar="A,B")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--cross-encoder", metavar="NAME")
    parser.add_argument("--work", type=Path, help="keep the namespaces here")
    parser.add_argument("--json", type=Path, help="write the means here")
    args = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = run(args, args.work or Path(folder))
    except DatasetInvalid as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
