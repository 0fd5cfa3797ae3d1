"""Measure how often each retriever finds the right passage among thousands of short ones, through a real namespace.

Passages are names (of diseases), one document each; questions are sentences that mention one of them. Reported: whether
every name finds itself (flat index, the name as question), how often the right name is first or among the first ten,
and milliseconds per question, one by one and 32 at a time. Index types at size: ``vector_index.py``; encoders:
``encoders.py``; word indices at size: ``lexical.py``.

    python scripts/benchmarks/retrieval/retrieval.py NAMES.csv QUESTIONS.jsonl [--encoder minilm] [--plot retrieval.png]

NAMES.csv has the columns disease_name and disease_id; QUESTIONS.jsonl has lines {"text": …, "node_hits": name}.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.ranking import RANKERS, Retriever
from retrieval.corpus.search.searcher import Searcher, SearchOptions
from retrieval.passages import Document
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

NAME: Final = "names"
K: Final = 10
BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class Row:
    """Shares of the questions, and milliseconds per question."""

    retriever: str
    first: float
    ten: float
    ms_one: float
    ms_batch: float

    def line(self) -> str:
        return f"| {self.retriever} | {self.first:.3f} | {self.ten:.3f} | {self.ms_one:.2f} | {self.ms_batch:.2f} |"


def read_names(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row["disease_name"].strip() for row in csv.DictReader(file)))


def read_questions(path: Path) -> list[tuple[str, str]]:
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return [(row["text"], row["node_hits"]) for row in rows]


def reading_of(name: str) -> ParsedDocument:
    return ParsedDocument(Document(document_id=f"name:{name}", title=""), name, (Span(0, len(name)),), whole=True)


def ranked(searcher: Searcher, questions: Sequence[str], retriever: Retriever) -> list[list[str]]:
    """Names, best first, for each question."""
    found = searcher.search_many(questions, [NAME], SearchOptions(k=K, retriever=retriever))
    return [[one.passage.text for one in hits] for hits in found]


def measure(searcher: Searcher, questions: Sequence[tuple[str, str]], retriever: Retriever) -> Row:
    texts = [text for text, _ in questions]
    ranked(searcher, texts[:BATCH], retriever)
    started = time.perf_counter()
    answers = [ranked(searcher, [text], retriever)[0] for text in texts]
    one = time.perf_counter() - started
    started = time.perf_counter()
    for first in range(0, len(texts), BATCH):
        ranked(searcher, texts[first : first + BATCH], retriever)
    batch = time.perf_counter() - started
    places = [names.index(gold) if gold in names else K for names, (_, gold) in zip(answers, questions, strict=True)]
    count = len(questions)
    first_share, ten_share = sum(place == 0 for place in places) / count, sum(place < K for place in places) / count
    return Row(retriever, first_share, ten_share, 1000 * one / count, 1000 * batch / count)


def find_themselves(searcher: Searcher, names: Sequence[str]) -> float:
    """Share of names that are their own nearest neighbour."""
    own = 0
    for first in range(0, len(names), 256):
        some = names[first : first + 256]
        own += sum(hits[0] == name for hits, name in zip(ranked(searcher, some, "dense"), some, strict=True))
    return own / len(names)


def plot(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    places = range(len(rows))
    axes.bar([place - 0.2 for place in places], [row.first for row in rows], 0.4, label="first")
    axes.bar([place + 0.2 for place in places], [row.ten for row in rows], 0.4, label="among the first ten")
    axes.set_xticks(list(places), [row.retriever for row in rows])
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of questions")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args(argv)
    names, questions = read_names(args.names), read_questions(args.questions)
    with tempfile.TemporaryDirectory() as folder:
        retrieval = build_retrieval(RetrievalSettings(encoder=args.encoder), Path(folder))
        retrieval.namespaces.create(NAME, NamespaceSettings(encoder=args.encoder))
        started = time.perf_counter()
        add_items(retrieval.namespaces, NAME, map(reading_of, names))
        seconds = time.perf_counter() - started
        print(f"{len(names):,} names in {seconds:.1f} s ({len(names) / seconds:.0f}/s), three indices\n")
        print(f"names that find themselves: {find_themselves(retrieval.searcher, names):.4f}\n")
        print("| retriever | first | among ten | ms, one by one | ms, 32 at a time |\n| --- | --- | --- | --- | --- |")
        rows = [measure(retrieval.searcher, questions, retriever) for retriever in RANKERS]
        print("\n".join(row.line() for row in rows))
        asyncio.run(retrieval.close())
    if args.plot:
        plot(rows, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
