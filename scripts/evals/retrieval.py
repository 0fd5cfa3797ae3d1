"""Measure how well each retriever finds what is known to answer real questions, over namespaces that it builds.

Documents and snippets of BioASQ, known items (a systematic review from its own question), and needles (one disease name
among thousands). Every retriever with and without late interaction; ``--cross-encoder`` adds re-ranking by one,
``--expand`` the search for synonyms of genes and diseases that the gateway's store has, and the questions with such a
name once more, with the first synonym in place of each name.

    python scripts/evals/retrieval.py FOLDER [--half dev|test] [--needles NAMES.csv QUESTIONS.jsonl] [--work FOLDER]
        [--expand]

FOLDER has ``corpus.jsonl.gz`` ({"pmid", "title", "abstract"}), ``questions_dev.jsonl.gz`` and
``known_item_dev.jsonl.gz``. Questions fall into two halves by a hash: choices are made on ``dev``, and ``test`` is
looked at afterwards. ``--work`` keeps the namespaces, which take minutes to encode, for the next run. For the times of
the server, set GOMP_SPINCOUNT=20000 and OPENBLAS_THREAD_TIMEOUT=14 before the command, as the arrowhead command does.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import hashlib
import json
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span, TextBuilder
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.ranking import BM25, RANKERS
from retrieval.corpus.search.searcher import LATE, SearchOptions
from retrieval.passages import Document
from retrieval.types import Synonyms
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.intervals import bootstrap_mean, paired
from scripts.evals.harness.tables import markdown_table
from server.evidence.passages import Retrieval
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.wiring.ncbi import store_synonyms
from server.wiring.retrieval import build_retrieval

Half = Literal["dev", "test", "all"]
RETRIEVERS: Final = ("bm25", "dense", "pes2", "rrf-2", "hybrid")
DEPTH: Final = 100
TOP: Final = 10
MEASURES: Final = ("MAP@10", "recall@10", "recall@100", "nDCG@10", "snippets@10")


@dataclass(frozen=True, slots=True)
class Question:
    """``gold``: document ids; ``snippets``: (document id, text); ``kind``: BioASQ's type, "known" or "needle"."""

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
    """A way to search: a retriever, with so many hits ordered by late interaction or a cross-encoder, with synonyms."""

    retriever: str
    late: int = 0
    rerank: int = 0
    expand: bool = False

    @property
    def name(self) -> str:
        stages = (" + late" if self.late else "") + (" + cross" if self.rerank else "")
        return self.retriever + stages + (" + synonyms" if self.expand else "")

    def options(self, k: int) -> SearchOptions:
        return SearchOptions(k=k, retriever=self.retriever, late=self.late, rerank=self.rerank)


@dataclass(slots=True)
class Found:
    """What an arm found: measures by question, in the order of the questions, and seconds of each search.

    ``cpu``: of all threads; on a machine with other work this is what a search costs. ``expanded``: whether the
    question has a name whose synonyms were searched for.
    """

    scores: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    expanded: list[bool] = field(default_factory=list)

    def mean(self, measure: str) -> float:
        values = self.scores[measure]
        return sum(values) / len(values) if values else 0.0

    @property
    def ms(self) -> tuple[float, float]:
        """Medians: by the clock, and of the processor."""
        return 1000 * median(self.seconds), 1000 * median(self.cpu)


def average_precision(ranked: Sequence[str], gold: frozenset[str], k: int = TOP) -> float:
    """BioASQ's: the sum of the precisions at the gold places among the first k, over min(k, number of gold)."""
    right, total = 0, 0.0
    for place, one in enumerate(ranked[:k], 1):
        if one in gold:
            right += 1
            total += right / place
    return total / min(k, len(gold))


def recall(ranked: Sequence[str], gold: frozenset[str], k: int) -> float:
    return len(gold & set(ranked[:k])) / len(gold)


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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield json.loads(line)
    except (OSError, ValueError, EOFError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error


def read_questions(folder: Path) -> list[Question]:
    found = [
        Question(
            id=row["id"],
            kind=row["type"],
            text=row["question"],
            gold=frozenset(f"PMID:{int(pmid)}" for pmid in row["gold_pmids"]),
            snippets=tuple((f"PMID:{int(one['pmid'])}", one["text"]) for one in row["snippets"]),
        )
        for row in _rows(folder / "questions_dev.jsonl.gz")
    ]
    known = folder / "known_item_dev.jsonl.gz"
    for row in _rows(known) if known.exists() else ():
        gold = frozenset({f"PMID:{int(row['pmid'])}"})
        found.append(Question(id=f"known:{row['pmid']}", kind="known", text=row["question"], gold=gold))
    return found


def corpus(folder: Path) -> Iterator[ParsedDocument]:
    for line, row in enumerate(_rows(folder / "corpus.jsonl.gz"), 1):
        title, abstract = row["title"].strip(), row["abstract"].strip()
        document = Document(document_id=f"PMID:{int(row['pmid'])}", title=title if abstract else "", source="pubmed")
        text = TextBuilder()
        text.add(abstract or title)
        item = text.reading(document, line)
        if isinstance(item, ParsedDocument):
            yield item


def read_needles(names: Path, questions: Path) -> tuple[list[ParsedDocument], list[Question]]:
    with names.open(encoding="utf-8", newline="") as file:
        known = list(dict.fromkeys(row["disease_name"].strip() for row in csv.DictReader(file)))
    readings = [
        ParsedDocument(Document(document_id=f"name:{name}", title=""), name, (Span(0, len(name)),), whole=True)
        for name in known
    ]
    asked = [
        Question(id=row["text"], kind="needle", text=row["text"], gold=frozenset({f"name:{row['node_hits']}"}))
        for row in _rows(questions)
    ]
    return readings, asked


def fill(namespaces: Namespaces, name: str, encoder: str, items: Sequence[ParsedDocument]) -> None:
    """Build a namespace, unless an earlier run has."""
    if name not in namespaces.names():
        namespaces.create(name, NamespaceSettings(encoder=encoder))
    counts = namespaces.describe(name).counts
    if counts is not None and counts.documents == len(items) and not any(counts.pending.values()):
        return
    began = time.perf_counter()
    report = add_items(namespaces, name, items)
    seconds = time.perf_counter() - began
    print(f"{name}: {report.added:,} documents added, {report.unchanged:,} there, {seconds:.0f} s", file=sys.stderr)


def measure(retrieval: Retrieval, name: str, questions: Sequence[Question], arm: Arm) -> Found:
    """Ask one by one, as a user does; the first question is asked twice, since opening indices is not counted."""
    found = Found()
    options, searcher = arm.options(DEPTH), retrieval.searcher
    retrieval.names_in([questions[0].text])
    searcher.search(questions[0].text, [name], options)
    for question in questions:
        began, cpu = time.perf_counter(), time.process_time()
        if arm.expand:
            options = replace(options, names=retrieval.names_in([question.text]))
        hits = searcher.search(question.text, [name], options)
        found.expanded.append(bool(options.names))
        found.seconds.append(time.perf_counter() - began)
        found.cpu.append(time.process_time() - cpu)
        ranked = list(dict.fromkeys(hit.document.document_id for hit in hits))
        gold = question.gold
        if question.kind in ("known", "needle"):
            found.scores["MRR"].append(reciprocal_rank(ranked[:TOP], gold))
            found.scores["first"].append(float(ranked[:1] != [] and ranked[0] in gold))
            continue
        scores = (average_precision(ranked, gold), recall(ranked, gold, TOP), recall(ranked, gold, DEPTH))
        for label, score in zip(MEASURES, (*scores, ndcg(ranked, gold)), strict=False):
            found.scores[label].append(score)
        if question.snippets:
            passages = [(hit.document.document_id, hit.passage.text) for hit in hits[:TOP]]
            found.scores["snippets@10"].append(snippet_recall(passages, question.snippets))
    return found


def arms_of(retrievers: Sequence[str], cross_encoder: bool, expand: bool = False) -> list[Arm]:
    """Every retriever with and without late interaction, BM25 first, which the others are compared with."""
    names = dict.fromkeys(("bm25", *retrievers))
    arms = [Arm(name, late) for name in names for late in (0, LATE)] + [Arm("hybrid", LATE, LATE)] * cross_encoder
    by_words = [arm for arm in arms if BM25 in RANKERS.get(arm.retriever, ())]
    return arms + [replace(arm, expand=True) for arm in by_words if expand]


def table(found: dict[Arm, Found], measures: Sequence[str], base: Found) -> str:
    """Means with 95 % bootstrap intervals, and the paired difference of the first measure from ``base``."""
    rows = []
    for arm, one in found.items():
        cells = []
        for label in measures:
            interval = bootstrap_mean(one.scores[label])
            cells.append(f"{one.mean(label):.3f} ({interval.low:.3f}-{interval.high:.3f})")
        change = paired(base.scores[measures[0]], one.scores[measures[0]])
        difference = f"{change.difference:+.3f} ({change.interval.low:+.3f} to {change.interval.high:+.3f})"
        rows.append([arm.name, *cells, difference, *(f"{ms:.1f}" for ms in one.ms)])
    return markdown_table(["retriever", *measures, f"{measures[0]} - bm25", "ms", "CPU ms"], rows)


def synonym_table(found: dict[Arm, Found], measures: Sequence[str]) -> str:
    """Paired differences that synonyms make to an arm, over all questions and over those with such a name."""
    rows = []
    for arm, one in found.items():
        if not arm.expand:
            continue
        before = found[replace(arm, expand=False)]
        for label, chosen in (("all", [True] * len(one.expanded)), ("with a name", one.expanded)):
            cells = []
            for measure in measures:
                pairs = zip(before.scores[measure], one.scores[measure], chosen, strict=True)
                change = paired(*zip(*((old, new) for old, new, is_in in pairs if is_in), strict=True))
                cells.append(f"{change.difference:+.4f} ({change.interval.low:+.4f} to {change.interval.high:+.4f})")
            rows.append([arm.name, f"{label} ({sum(chosen)})", *cells])
    return markdown_table(["difference by synonyms", "questions", *measures], rows)


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


def plot(found: dict[Arm, Found], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4))
    labels = ("MAP@10", "recall@10", "recall@100")
    for shift, label in enumerate(labels):
        means = [one.mean(label) for one in found.values()]
        bounds = [bootstrap_mean(one.scores[label]) for one in found.values()]
        errors = [
            [mean - bound.low for mean, bound in zip(means, bounds, strict=True)],
            [bound.high - mean for mean, bound in zip(means, bounds, strict=True)],
        ]
        places = [place + 0.27 * (shift - 1) for place in range(len(found))]
        axes.bar(places, means, 0.27, yerr=errors, label=label, error_kw={"linewidth": 0.8})
    axes.set_xticks(range(len(found)), [arm.name for arm in found], rotation=30, ha="right")
    axes.set_ylim(0.4, 1.0)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def in_half(questions: Sequence[Question], half: Half) -> list[Question]:
    return [question for question in questions if half in ("all", question.half)]


def renamed(questions: Sequence[Question], names: Synonyms) -> list[Question]:
    """Return the questions that have names with synonyms, with the first synonym in place of each name."""
    found = []
    for question in questions:
        text = question.text
        for one in names.named_in(text):
            text = text.replace(one.name, one.synonyms[0])
        if text != question.text:
            found.append(replace(question, text=text))
    return found


def report(
    retrieval: Retrieval, args: argparse.Namespace, sets: dict[str, tuple[str, list[Question]]]
) -> dict[str, Any]:
    """Measure every set with every arm, print the tables, and return the means."""
    result: dict[str, Any] = {"half": args.half}
    arms = arms_of(args.retrievers.split(","), args.cross_encoder is not None, args.expand)
    for label, (name, questions) in sets.items():
        if not questions:
            continue
        found = {arm: measure(retrieval, name, questions, arm) for arm in arms}
        measures = MEASURES if label in ("bioasq", "renamed") else ("MRR", "first")
        base = next(iter(found.values()))
        print(f"\n{label}, {len(questions)} questions ({args.half})\n\n{table(found, measures, base)}")
        if args.expand and any(one.expanded and any(one.expanded) for one in found.values()):
            print(f"\n{synonym_table(found, measures[:4])}")
        if label == "bioasq":
            print(f"\n{type_table(found, questions)}")
            if args.plot:
                plot(found, args.plot)
        result[label] = {
            arm.name: {"ms": round(one.ms[0], 2), "cpu_ms": round(one.ms[1], 2)}
            | {measure: round(one.mean(measure), 4) for measure in measures}
            for arm, one in found.items()
        }
    return result


def run(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    settings = RetrievalSettings(encoder=args.encoder, cross_encoder=args.cross_encoder)
    retrieval = build_retrieval(settings, work)
    names = store_synonyms(Settings())
    if args.expand:
        retrieval = replace(retrieval, names=names)
    try:
        questions = in_half(read_questions(args.folder), args.half)
        fill(retrieval.namespaces, "bioasq", args.encoder, list(corpus(args.folder)))
        sets = {
            "bioasq": ("bioasq", [question for question in questions if question.kind != "known"]),
            "known items": ("bioasq", [question for question in questions if question.kind == "known"]),
        }
        if args.expand:
            sets["renamed"] = ("bioasq", renamed(sets["bioasq"][1], names))
        if args.needles:
            readings, asked = read_needles(*args.needles)
            fill(retrieval.namespaces, "needles", args.encoder, readings)
            sets["needles"] = ("needles", in_half(asked, args.half))
        return report(retrieval, args, sets)
    finally:
        asyncio.run(retrieval.close())
        asyncio.run(names.close())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("dev", "test", "all"), default="dev")
    parser.add_argument("--needles", type=Path, nargs=2, metavar=("NAMES", "QUESTIONS"))
    parser.add_argument("--retrievers", default=",".join(RETRIEVERS), metavar="A,B")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--cross-encoder", metavar="NAME")
    parser.add_argument("--expand", action="store_true", help="also by words with synonyms of genes and diseases")
    parser.add_argument("--work", type=Path, help="keep the namespaces here")
    parser.add_argument("--json", type=Path, help="write the means here")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args(argv)
    try:
        if args.work is not None:
            result = run(args, args.work)
        else:
            with tempfile.TemporaryDirectory() as folder:
                result = run(args, Path(folder))
    except DatasetInvalid as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
