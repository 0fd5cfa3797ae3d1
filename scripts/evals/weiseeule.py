"""Measure WeiseEule's retrievers on the namespace that its authors published.

    python scripts/evals/weiseeule.py DATA [--encoder minilm] [--work DIR] [--passages 5000 50000]
    python scripts/evals/weiseeule.py DATA --answers [--encoder minilm] [--work DIR]

``DATA`` holds ``weise_namespace_vit_dev.jsonl.gz`` ({pmid, title, abstract, body}) and ``weise_table3_questions.json``;
without them the script says so and ends with 0. The questions are the published ones whose papers are in the namespace
and those of ``questions/weiseeule.json``; keywords are those of the built-in extractor, or the marks of the question.
P@10 is the share of the first ten passages that are of a gold paper; intervals (95 %) are bootstrapped over questions.
``--encoder none`` leaves out PES1 and hybrid. ``--answers`` measures answers in place of retrievers: sentences of the
passages, word for word, as a server without a larger model gives them. Nothing is tuned to these questions.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, TextBuilder
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.index.base import RowFilter
from retrieval.lexical.keyword_frequency.index import KeywordIndex, open_keyword_index
from retrieval.lexical.keyword_frequency.pes2 import (
    KeywordTable,
    count_by_pattern,
    keyword_search,
    rank_by_keywords,
    words_of,
)
from retrieval.lexical.question_keywords import Keyword, KeywordQuery
from retrieval.passages import Document, Passage
from scripts.evals import weise_answers
from server.evidence.keywords import AllowedLibrary, KeywordService
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest
from server.methods.weiseeule.library import KeywordSearch, Matching, QuestionKeyword, TextSearch, WeiseRetriever
from server.methods.weiseeule.request import WeiseOptions, read_question
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

QUESTIONS: Final = Path(__file__).parent / "questions" / "weiseeule.json"
_NAME: Final = "weise"
_K: Final = 10
_DRAWS: Final = 2000
_KEY_PAPERS: Final = ("38821977", "38849422", "37846401", "38435623", "38572168")
_TEXT: Final[tuple[tuple[str, WeiseRetriever], ...]] = (("pes1", "pes1"), ("bm25", "bm25"), ("hybrid", "hybrid"))


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--work", type=Path, help="folder of the namespace, kept for the next run")
    parser.add_argument("--passages", type=int, nargs="*", default=[5_000, 50_000], help="sizes of the timed indices")
    parser.add_argument("--answers", action="store_true", help="score answers, not retrievers")
    given = parser.parse_args()
    corpus = given.data / "weise_namespace_vit_dev.jsonl.gz"
    if not corpus.exists():
        print(f"{corpus} is not there: nothing is measured")
        return 0
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(rows, read_questions(given.data), given, given.work or Path(folder)))
        if not given.answers:
            _time(rows, given.passages, Path(folder))
    return 0


def read_questions(data: Path) -> list[Question]:
    """Return the published questions whose papers are known, then our own."""
    own = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    published = json.loads((data / "weise_table3_questions.json").read_text(encoding="utf-8"))
    found = [Question(published[int(n) - 1]["question"], frozenset(gold)) for n, gold in own["published"].items()]
    return found + [Question(one["question"], frozenset(one["gold"])) for one in own["own"]]


def documents(rows: Sequence[dict[str, Any]]) -> Iterator[ParsedDocument]:
    for row in rows:
        text = TextBuilder()
        text.add(row["abstract"], "Abstract")
        text.add(row["body"], "Full text")
        url = f"https://pubmed.ncbi.nlm.nih.gov/{row['pmid']}/"
        yield text.reading(Document(document_id=f"PMID:{row['pmid']}", title=row["title"], source="pubmed", url=url))


async def _measure(
    rows: Sequence[dict[str, Any]], questions: Sequence[Question], given: argparse.Namespace, folder: Path
) -> None:
    settings = RetrievalSettings(encoder="minilm" if given.encoder == "none" else given.encoder)
    retrieval = build_retrieval(settings, folder / "namespaces")
    encoder = "" if given.encoder == "none" else given.encoder
    if _NAME not in retrieval.namespaces.names():
        retrieval.namespaces.create(_NAME, NamespaceSettings(encoder=encoder, words="tantivy", keywords=True))
        add_items(retrieval.namespaces, _NAME, documents(rows))
    service = KeywordService(retrieval, PassageService(retrieval, settings), NoGenes())
    library = service.open(AnswerRequest(request_id="eval"))
    with retrieval.namespaces.using(_NAME) as namespace:
        passages = list(namespace.store.passages())
    print(f"{len(rows)} papers, {len(passages)} passages, {len(questions)} questions, encoder {encoder or 'none'}")
    if given.answers:
        await weise_answers.measure(service, questions, ("pes2", "hybrid") if encoder else ("pes2", "bm25"))
    else:
        await _retrievers(library, questions, passages, has_vectors=bool(encoder))
        await _key_papers(library, {row["pmid"] for row in rows})
    await retrieval.close()


async def _retrievers(
    library: AllowedLibrary, questions: Sequence[Question], passages: Sequence[Passage], *, has_vectors: bool
) -> None:
    results: dict[str, list[tuple[float, bool]]] = {}
    agreed = 0
    for question in questions:
        found = await _all(library, question.text, has_vectors)
        for name, hits in found.items():
            results.setdefault(name, []).append(_judged(hits, question.gold))
        agreed += await _agrees(library, question.text, passages)
    for name, values in results.items():
        _report(name, values)
    print(f"PES2 exact in the order of the original's counting: {agreed} of {len(questions)} questions")


async def _all(library: AllowedLibrary, question: str, has_vectors: bool) -> dict[str, Sequence[RankedPassage]]:
    found: dict[str, Sequence[RankedPassage]] = {}
    matchings: tuple[Matching, ...] = ("exact", "variants")
    for matching in matchings:
        ranked = await library.rank(await _search(library, question, matching))
        found[f"PES2 {matching}"] = [row.found for row in ranked.rows]
    plain = read_question(question, WeiseOptions()).text
    for name, retriever in _TEXT:
        if has_vectors or retriever == "bm25":
            gathered = await library.search(TextSearch(query=plain, retriever=retriever, k=_K))
            found[name] = gathered.lists[0]
    return found


async def _search(library: AllowedLibrary, question: str, matching: Matching) -> KeywordSearch:
    asked = read_question(question, WeiseOptions())
    keywords = asked.keywords or await library.suggest(asked.text, ())
    return KeywordSearch(keywords=keywords, only_fixed=asked.only_fixed, matching=matching, k=_K)


async def _agrees(library: AllowedLibrary, question: str, passages: Sequence[Passage]) -> bool:
    """Return whether all passages with a keyword are in the order that the original's regular expressions give."""
    search = await _search(library, question, "exact")
    keywords = tuple(QuestionKeyword(one.text, one.fixed) for one in search.keywords)
    ranked = await library.rank(KeywordSearch(keywords=keywords, matching="exact", k=1000))
    table = count_by_pattern(passages, [one.text for one in keywords])
    expected = rank_by_keywords(table, [one.fixed for one in keywords], 1000)
    return [row.found.passage.passage_id for row in ranked.rows] == [int(number) for number in expected.ids]


def _judged(hits: Sequence[RankedPassage], gold: frozenset[str]) -> tuple[float, bool]:
    papers = [one.document.document_id.removeprefix("PMID:") for one in hits[:_K]]
    return sum(paper in gold for paper in papers) / _K, bool(papers) and papers[0] in gold


def _report(name: str, values: Sequence[tuple[float, bool]]) -> None:
    precisions = [value for value, _ in values]
    draws = random.Random(1)
    means = sorted(statistics.fmean(draws.choices(precisions, k=len(precisions))) for _ in range(_DRAWS))
    low, high = means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]
    found = sum(value > 0 for value in precisions)
    first = sum(is_first for _, is_first in values)
    print(
        f"{name:14} P@10 mean {statistics.fmean(precisions):.3f} [{low:.3f}, {high:.3f}], median "
        f"{statistics.median(precisions):.2f}; gold paper among ten {found}, first {first} of {len(values)}"
    )


async def _key_papers(library: AllowedLibrary, papers: set[str]) -> None:
    """Print how many of the published key papers the published question of their topic finds among ten papers."""
    here = [paper for paper in _KEY_PAPERS if paper in papers]
    keywords = (QuestionKeyword("vision transformer"), QuestionKeyword("image"), QuestionKeyword("classification"))
    matchings: tuple[Matching, ...] = ("exact", "variants")
    for matching in matchings:
        ranked = await library.rank(KeywordSearch(keywords=keywords, matching=matching, k=_K))
        found = {row.found.document.document_id.removeprefix("PMID:") for row in ranked.rows}
        print(f"key papers among the first ten, {matching}: {sum(one in found for one in here)} of {len(here)}")


@dataclass(frozen=True, slots=True)
class _AsWritten:
    """Count as the original does, in the passages that the index has with the words; ids are places from 1."""

    index: KeywordIndex
    passages: Sequence[Passage]

    def count(self, keywords: Sequence[str], where: RowFilter | None = None) -> KeywordTable:
        ids = sorted(self.index.holding([words_of(one) for one in keywords], where).tolist())
        return count_by_pattern((self.passages[number - 1] for number in ids), keywords)


def _time(rows: Sequence[dict[str, Any]], sizes: Sequence[int], folder: Path) -> None:
    """Print milliseconds of one ranking with five keywords, warm, over copies of the passages up to each size."""
    chunker = Chunker(Chunking())
    texts = [one.text[span.start : span.end] for one in documents(rows) for span in chunker.cut(one)]
    keywords = ("H2A.Z", "SWR1", "histone acetyltransferase", "DNA repair", "yeast")
    query = KeywordQuery(question="", keywords=tuple(Keyword(word) for word in keywords))
    for size in sizes:
        passages = [
            Passage(passage_id=n, document_id="d", title="", text=texts[n % len(texts)]) for n in range(1, size + 1)
        ]
        index = open_keyword_index(folder / f"keywords-{size}")
        index.add(passages)
        index.commit()
        for name, counting in (("variants", index), ("exact", _AsWritten(index, passages))):
            times = []
            for _ in range(20):
                began, used = time.perf_counter(), time.process_time()
                keyword_search(counting, query, _K)
                times.append((time.perf_counter() - began, time.process_time() - used))
            wall, cpu = (1000 * statistics.median(one) for one in zip(*times, strict=True))
            print(f"{size:,} passages, {name}: {wall:.1f} ms a query, {cpu:.1f} ms of processor time (median of 20)")
        index.close()


if __name__ == "__main__":
    sys.exit(main())
