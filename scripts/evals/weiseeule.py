"""Measure WeiseEule's retrievers on the namespace that its authors published.

    python scripts/evals/weiseeule.py DATA [--encoder minilm] [--work DIR]

``DATA`` holds ``weise_namespace_vit_dev.jsonl.gz`` ({pmid, title, abstract, body}) and ``weise_table3_questions.json``.
The questions are the published ones whose papers are in the namespace and those of ``questions/weiseeule.json``;
keywords are those of the built-in extractor, or the marks of the question. P@10 is the share of the first ten passages
that are of a gold paper; intervals (95 %) are bootstrapped over questions. ``--encoder none`` leaves out PES1 and
hybrid. Nothing is tuned to these questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, TextBuilder
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.passages import Document
from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.harness.records import Row, rows_of
from scripts.evals.harness.tables import markdown_table
from server.evidence.keywords import AllowedLibrary, KeywordService
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest
from server.methods.weiseeule.library import KeywordSearch, Matching, TextSearch, WeiseRetriever
from server.methods.weiseeule.request import WeiseOptions, read_question
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

QUESTIONS: Final = Path(__file__).parent / "questions" / "weiseeule.json"
_NAME: Final = "weise"
_K: Final = 10
_MATCHINGS: Final[tuple[Matching, ...]] = ("exact", "variants")
_RETRIEVERS: Final[tuple[WeiseRetriever, ...]] = ("pes1", "bm25", "hybrid")


@dataclass(frozen=True)
class Question:
    text: str
    gold: frozenset[str]


class NoGenes:
    """Know no gene: the measurement does not depend on what a gateway has."""

    def synonyms(self, name: str) -> tuple[str, ...]:
        return ()

    def is_gene(self, name: str) -> bool:
        return False


def read_questions(data: Path) -> list[Question]:
    """The published questions whose papers are known, then our own."""
    own = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    published = json.loads((data / "weise_table3_questions.json").read_text(encoding="utf-8"))
    found = [Question(published[int(n) - 1]["question"], frozenset(gold)) for n, gold in own["published"].items()]
    return found + [Question(one["question"], frozenset(one["gold"])) for one in own["own"]]


def documents(rows: Sequence[Row]) -> Iterator[ParsedDocument]:
    for row in rows:
        text = TextBuilder()
        text.add(row["abstract"], "Abstract")
        text.add(row["body"], "Full text")
        url = f"https://pubmed.ncbi.nlm.nih.gov/{row['pmid']}/"
        yield text.reading(Document(document_id=f"PMID:{row['pmid']}", title=row["title"], source="pubmed", url=url))


async def measure(rows: Sequence[Row], questions: Sequence[Question], encoder: str, folder: Path) -> str:
    """``encoder``: "" for none. Returns a Markdown table."""
    settings = RetrievalSettings(encoders=(encoder or "minilm",))
    retrieval = build_retrieval(settings, folder)
    if _NAME not in retrieval.namespaces.names():
        retrieval.namespaces.create(_NAME, NamespaceSettings(encoder=encoder, words="tantivy"))
        add_items(retrieval.namespaces, _NAME, documents(rows))
    service = KeywordService(retrieval, PassageService(retrieval, settings), NoGenes())
    library = service.open(AnswerRequest(request_id="eval"))
    results: dict[str, list[tuple[float, bool]]] = {}
    for question in questions:
        for name, hits in (await rankings(library, question.text, has_vectors=bool(encoder))).items():
            papers = [one.document.document_id.removeprefix("PMID:") for one in hits[:_K]]
            share = sum(paper in question.gold for paper in papers) / _K
            results.setdefault(name, []).append((share, bool(papers) and papers[0] in question.gold))
    await retrieval.close()
    columns = (f"{len(questions)} questions", "P@10, mean", "median", "gold paper among ten", "first")
    return markdown_table(columns, [(name, *_cells(values)) for name, values in results.items()])


async def rankings(library: AllowedLibrary, question: str, *, has_vectors: bool) -> dict[str, list[RankedPassage]]:
    """The passages of each retriever, the best first."""
    asked = read_question(question, WeiseOptions())
    keywords = asked.keywords or await library.suggest(asked.text, ())
    found: dict[str, list[RankedPassage]] = {}
    for matching in _MATCHINGS:
        search = KeywordSearch(keywords=keywords, only_fixed=asked.only_fixed, matching=matching, k=_K)
        found[f"PES2, {matching}"] = [row.found for row in (await library.rank(search)).rows]
    for retriever in _RETRIEVERS if has_vectors else ("bm25",):
        gathered = await library.search(TextSearch(query=asked.text, retriever=retriever, k=_K))
        found[retriever] = list(gathered.lists[0])
    return found


def _cells(values: Sequence[tuple[float, bool]]) -> tuple[str, ...]:
    shares = [value for value, _ in values]
    interval = bootstrap_mean(shares)
    mean = f"{statistics.fmean(shares):.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    first = sum(is_first for _, is_first in values)
    return mean, f"{statistics.median(shares):.2f}", str(sum(value > 0 for value in shares)), str(first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--work", type=Path, help="folder of the namespace, kept for the next run")
    given = parser.parse_args()
    rows = list(rows_of(given.data / "weise_namespace_vit_dev.jsonl.gz"))
    encoder = "" if given.encoder == "none" else given.encoder
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(measure(rows, read_questions(given.data), encoder, given.work or Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
