"""Rank passages by keywords and by text for WeiseEule, in the namespaces that a request may read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol

import numpy as np

from retrieval.corpus.namespaces.namespace import WORDS, Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.ranking import RankedPassage, Retriever
from retrieval.corpus.search.searcher import SearchOptions
from retrieval.corpus.store.base import PassageFilter
from retrieval.errors import (
    INDEX_TOO_LARGE,
    IndexDamaged,
    IndexFault,
    NamespaceDamaged,
    NamespaceInvalid,
    RetrievalError,
)
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.keyword_frequency.pes2 import (
    KeywordRanking,
    KeywordTable,
    count_by_pattern,
    rank_by_keywords,
    words_of,
)
from retrieval.lexical.keyword_frequency.phrases import KeywordCounts, keyword_forms
from retrieval.lexical.keyword_frequency.spellings import Spelling, mentions_in, spellings_of
from retrieval.lexical.question_keywords import Keyword, distinct_keywords, proposed_keywords
from retrieval.passages import Hit, Passage
from server.evidence.passages import PassageService, Retrieval
from server.methods.base import AnswerRequest
from server.methods.shared.passages import Gathered, PassageQuery
from server.methods.weiseeule.library import (
    CountedKeyword,
    CountedSpelling,
    KeywordPassage,
    KeywordSearch,
    KeywordsRanked,
    Matching,
    Restriction,
    TextSearch,
)
from server.tape import taped

_MOST_EXACT: Final = 200_000
_AT_ONCE: Final = 500
_MARGIN: Final = 100  # further rows, for passages that the index has and the store no longer
_MAX_MENTIONS: Final = 200
_MAX_WAYS: Final = 20
_RETRIEVERS: Final[dict[str, Retriever]] = {"pes2": "pes2", "pes1": "dense", "bm25": "bm25", "hybrid": "hybrid"}


class GeneNames(Protocol):
    """Know the other names of genes."""

    def synonyms(self, name: str) -> tuple[str, ...]:
        """Return the other names of the gene that ``name`` means without doubt, () for none."""
        ...

    def is_gene(self, name: str) -> bool: ...


class KeywordService:
    """Rank passages by keywords for the methods; one instance per process.

    Safe for concurrent tasks of one event loop.
    """

    def __init__(self, retrieval: Retrieval, passages: PassageService, genes: GeneNames) -> None:
        self._retrieval = retrieval
        self._passages = passages
        self._genes = genes

    def open(self, ask: AnswerRequest) -> AllowedLibrary:
        return AllowedLibrary(self, self._passages, ask.namespaces)

    @taped("keywords", KeywordsRanked, lambda _, search, __: search, RetrievalError)
    async def rank(self, search: KeywordSearch, allowed: frozenset[str] | None) -> KeywordsRanked:
        names = await self._passages.check_now(PassageQuery(namespaces=search.namespaces, k=search.k), allowed)
        began = time.monotonic()
        namespaces = self._retrieval.namespaces
        ranked = await self._retrieval.run(lambda: self._ranked(namespaces, names, search))
        return replace(ranked, seconds=time.monotonic() - began)

    def _ranked(self, namespaces: Namespaces, names: Sequence[str], search: KeywordSearch) -> KeywordsRanked:
        distinct = (distinct_keywords if search.matching == "variants" else _as_written)(search.keywords)
        with ExitStack() as stack:
            opened = [stack.enter_context(namespaces.using(name)) for name in names]
            counting = _Counting(opened, distinct, search.matching, self._genes)
            tables = [counting.table(namespace, _joined_filter([namespace], search.where)) for namespace in opened]
            ranking = _ranking_of(tables, distinct, search)
            rows = tuple(islice(_rows(ranking, opened, counting.spellings), search.k))
            counted = tuple(replace(one, written=_written(rows, at)) for at, one in enumerate(counting.counted()))
        return KeywordsRanked(
            namespaces=tuple(names),
            keywords=counted,
            rows=rows,
            num_found=ranking.num_found,
            num_with_fixed=ranking.num_with_fixed,
        )

    @taped("texts", Gathered, lambda _, search, __: search, RetrievalError)
    async def search(self, search: TextSearch, allowed: frozenset[str] | None) -> Gathered:
        names = await self._passages.check_now(PassageQuery(namespaces=search.namespaces, k=search.k), allowed)
        retriever = _RETRIEVERS[search.retriever]
        if not names:
            return Gathered(namespaces=(), retriever=retriever, lists=((),))
        began = time.monotonic()
        namespaces = self._retrieval.namespaces
        found = await self._retrieval.run(lambda: self._searched(namespaces, names, search))
        seconds = time.monotonic() - began
        return Gathered(namespaces=names, retriever=retriever, lists=(tuple(found),), seconds=seconds)

    def _searched(self, namespaces: Namespaces, names: Sequence[str], search: TextSearch) -> list[RankedPassage]:
        with ExitStack() as stack:
            opened = [stack.enter_context(namespaces.using(name)) for name in names]
            where = _joined_filter(opened, search.where)
        options = SearchOptions(k=search.k, retriever=_RETRIEVERS[search.retriever], where=where)
        return self._retrieval.searcher.search(search.query, names, options)

    @taped("suggested", tuple[Keyword, ...], lambda _, question, names, __: (question, names), RetrievalError)
    async def suggest(
        self, question: str, requested: Sequence[str], allowed: frozenset[str] | None
    ) -> tuple[Keyword, ...]:
        names = await self._passages.check_now(PassageQuery(namespaces=tuple(requested)), allowed)
        namespaces = self._retrieval.namespaces
        return await self._retrieval.run(lambda: self._suggested(namespaces, names, question))

    def _suggested(self, namespaces: Namespaces, names: Sequence[str], question: str) -> tuple[Keyword, ...]:
        with ExitStack() as stack:
            opened = [stack.enter_context(namespaces.using(name)) for name in names]
            total = sum(namespace.store.counts().passages for namespace in opened)

            def counts(keywords: Sequence[str]) -> list[int]:
                forms = [keyword_forms(keyword) for keyword in keywords]
                tables = [KeywordCounts(index).table(keywords, forms) for index in _words_indices(opened)]
                return [sum(int((one.counts[:, at] > 0).sum()) for one in tables) for at in range(len(keywords))]

            return proposed_keywords(question, counts, total, self._genes.is_gene)


class _Counting:
    """Count keywords in namespaces, and remember the spellings that were counted."""

    def __init__(
        self, opened: Sequence[Namespace], keywords: Sequence[Keyword], matching: Matching, genes: GeneNames
    ) -> None:
        self._keywords = [one.text for one in keywords]
        self._fixed = [one.fixed for one in keywords]
        self._matching = matching
        self._totals: list[dict[tuple[str, str], int]] = [{} for _ in keywords]
        self.spellings: list[tuple[Spelling, ...]] = []
        if matching == "variants":
            vocabulary = _Vocabulary([KeywordCounts(index) for index in _words_indices(opened)])
            self.spellings = [spellings_of(one, vocabulary, genes.synonyms(one)) for one in self._keywords]

    def table(self, namespace: Namespace, where: PassageFilter) -> KeywordTable:
        """Count in one namespace, in the order of its passages."""
        if self._matching == "exact":
            found = count_by_pattern(self._candidates(namespace, where), self._keywords)
            for at, name in enumerate(self._keywords):
                self._add(at, (name, "spelling"), int(found.counts[:, at].sum()))
            return found
        if (index := _words_index(namespace)) is None:
            return _no_counts(self._keywords)
        counts = KeywordCounts(index, namespace.store.row_filter(where))
        for at, ways in enumerate(self.spellings):
            for way in ways:
                self._add(at, (way.text, way.kind), counts.total(way.forms))
        forms = [[form for way in ways for form in way.forms] for ways in self.spellings]
        found = counts.table(self._keywords, forms)
        # Equal passages are ranked in the order of the texts.
        order = np.argsort(namespace.order.places(found.ids), kind="stable")
        return KeywordTable(found.keywords, found.ids[order], found.counts[order])

    def _candidates(self, namespace: Namespace, where: PassageFilter) -> Iterator[Passage]:
        """Yield the passages that may have a keyword as it is written, in the order of the texts.

        Raises:
            IndexFault: they are more than one question reads.
        """
        store, words = namespace.store, [words_of(keyword) for keyword in self._keywords]
        index = _words_index(namespace) if all(words) and WORDS in namespace.settings.targets else None
        if index is None:
            yield from _bounded(store.passages(where))
            return
        ids = index.with_words(words, store.row_filter(where))
        ordered = ids[np.argsort(namespace.order.places(ids), kind="stable")].tolist()
        parts = (store.get(ordered[at : at + _AT_ONCE]) for at in range(0, len(ordered), _AT_ONCE))
        yield from _bounded(passage for part in parts for passage, _ in part)

    def _add(self, at: int, way: tuple[str, str], number: int) -> None:
        self._totals[at][way] = self._totals[at].get(way, 0) + number

    def counted(self) -> tuple[CountedKeyword, ...]:
        """Return the keywords with their spellings that occur, each keyword's own one first."""
        return tuple(
            CountedKeyword(
                text,
                self._fixed[at],
                tuple(
                    CountedSpelling(way, kind, number)
                    for place, ((way, kind), number) in enumerate(self._totals[at].items())
                    if number or not place
                ),
            )
            for at, text in enumerate(self._keywords)
        )


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """Count the passages of several namespaces that have a word."""

    counts: Sequence[KeywordCounts]

    def num_with(self, terms: Iterable[str]) -> Counter[str]:
        wanted, found = list(terms), Counter[str]()
        for one in self.counts:
            found.update(one.num_with(wanted))
        return found


def _bounded(passages: Iterable[Passage]) -> Iterator[Passage]:
    for number, passage in enumerate(passages):
        if number == _MOST_EXACT:
            raise IndexFault(
                f"matching exact reads at most {_MOST_EXACT:,} passages a question: use variants", INDEX_TOO_LARGE
            )
        yield passage


def _as_written(keywords: Sequence[Keyword]) -> tuple[Keyword, ...]:
    """Return each keyword once, whatever its case, and fixed if any of its occurrences is."""
    found: dict[str, Keyword] = {}
    for one in keywords:
        known = found.get(one.text.lower(), one)
        found[one.text.lower()] = Keyword(known.text, known.fixed or one.fixed)
    return tuple(found.values())


def _words_index(namespace: Namespace) -> LexicalIndex | None:
    """Return the index of words, None where there is no passage yet.

    Raises:
        NamespaceInvalid: the namespace was made without one.
    """
    if WORDS not in namespace.settings.targets:
        raise NamespaceInvalid(
            f"namespace {namespace.name} has no index of words: ask with matching exact, or another retriever",
            param="arrowhead.namespaces",
        )
    if not namespace.store.counts().passages:
        return None
    try:
        return namespace.words
    except (NamespaceDamaged, IndexDamaged):
        if namespace.store.waiting(WORDS, 1):
            return None  # it is being built at this moment
        raise


def _words_indices(opened: Sequence[Namespace]) -> list[LexicalIndex]:
    return [index for one in opened if (index := _words_index(one)) is not None]


def _no_counts(names: Sequence[str]) -> KeywordTable:
    return KeywordTable(tuple(names), np.zeros(0, np.int64), np.zeros((0, len(names)), np.int64))


def _ranking_of(tables: Sequence[KeywordTable], keywords: Sequence[Keyword], search: KeywordSearch) -> KeywordRanking:
    """Rank the passages of all namespaces together: counts are on one scale."""
    names = tuple(one.text for one in keywords)
    every = [_no_counts(names), *tables]
    ids, counts = np.concatenate([one.ids for one in every]), np.concatenate([one.counts for one in every])
    fixed = [one.fixed for one in keywords]
    return rank_by_keywords(KeywordTable(names, ids, counts), fixed, search.k + _MARGIN, search.only_fixed)


def _rows(
    ranking: KeywordRanking, opened: Sequence[Namespace], spellings: Sequence[Sequence[Spelling]]
) -> Iterator[KeywordPassage]:
    ids = [int(number) for number in ranking.ids]
    stored = {
        passage.passage_id: (passage, document, namespace.name)
        for namespace in opened
        for passage, document in namespace.store.get(ids)
    }
    scores: list[Hit] = ranking.hits()
    for rank, (number, hit) in enumerate(zip(ids, scores, strict=True), 1):
        if number not in stored:
            continue
        passage, document, name = stored[number]
        found = RankedPassage(passage=passage, document=document, hit=hit, namespace=name, ranks={"pes2": rank})
        mentions = mentions_in(passage.text, spellings, _MAX_MENTIONS) if spellings else ()
        yield KeywordPassage(
            found,
            tuple(int(count) for count in ranking.counts[rank - 1]),
            bool(ranking.has_fixed[rank - 1]),
            tuple((one.keyword, one.start, one.end) for one in mentions),
        )


def _written(rows: Sequence[KeywordPassage], keyword: int) -> tuple[tuple[str, int], ...]:
    """Return how passages write a keyword, in small letters, the most frequent way first."""
    ways = Counter(
        " ".join(row.found.passage.text[start:end].lower().split())
        for row in rows
        for number, start, end in row.mentions
        if number == keyword
    )
    return tuple(ways.most_common(_MAX_WAYS))


def _joined_filter(opened: Sequence[Namespace], where: Restriction) -> PassageFilter:
    """Return the filter of a restriction; a paper's documents are its record and its full text."""
    papers = [f"PMID:{pmid}" for pmid in where.papers]
    documents = frozenset(number for one in opened for number in one.store.documents_of(papers)) if papers else None
    return PassageFilter(date_from=where.date_from, date_to=where.date_to, types=where.types, documents=documents)


@dataclass(frozen=True, slots=True)
class AllowedLibrary:
    """Restrict the service to the namespaces that one request may read."""

    service: KeywordService
    passages: PassageService
    allowed: frozenset[str] | None

    @property
    def names(self) -> tuple[str, ...]:
        return self.passages.names(self.allowed)

    def check(self, passage_query: PassageQuery) -> None:
        self.passages.check(passage_query, self.allowed)

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        return await self.passages.find(queries, passage_query, self.allowed)

    async def rank(self, search: KeywordSearch) -> KeywordsRanked:
        return await self.service.rank(search, self.allowed)

    async def search(self, search: TextSearch) -> Gathered:
        return await self.service.search(search, self.allowed)

    async def suggest(self, question: str, namespaces: Sequence[str]) -> tuple[Keyword, ...]:
        return await self.service.suggest(question, namespaces, self.allowed)
