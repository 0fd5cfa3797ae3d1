"""Search all sources with all queries and merge the results into one stable list of candidates.

Rankings are fused by reciprocal ranks. An article that several searches find is one candidate: the same PMID, and once
fetched the same DOI.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from models.errors import ArrowheadError, ModelError, kind_of
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.errors import NcbiError, RetrievalError
from retrieval.references.csl import document_item
from server.methods.clinfo.literature import Article, ArticleSource, Hits, Section
from server.methods.clinfo.options import ClinfoOptions
from server.methods.clinfo.queries import (
    MAX_HITS,
    Query,
    broadened,
    fault_of,
    narrowed,
    respelled,
    without_rarest,
    words_to_spell,
)
from server.methods.shared.passages import PassageQuery, Passages

_T = TypeVar("_T")
RRF_K: Final = 60
# A search for any of the words ranks by all of them, one by vectors by their meaning; one for all words alone has few
# hits, in a rougher order.
RANKED_WEIGHT: Final = 4.0
PER_QUERY: Final = 100
PASSAGES: Final = 100
_MAX_REPAIRS: Final = 3
_PMID: Final = "PMID:"
_DOI: Final = re.compile(r"(?<![\d.])10\.[0-9]{4,9}/[^\s?#&\"'<>]+")
# What publishers write behind a DOI in the address of a page or file of the article.
_PAGE_OF: Final = re.compile(r"(?:/(?:full|abstract|abs|pdf|epdf|pdfdirect|epub|html)|\.pdf|[/.,;])*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRun:
    """Record one search for the report: what was asked where, and what came of it.

    ``hits`` is the number of records in all, -1 where the search failed; ``keys`` are those returned, best first.
    ``weight`` is what the ranking counts when it is fused with others.
    """

    source: str
    query: str
    writer: str
    hits: int = -1
    keys: tuple[str, ...] = ()
    weight: float = 1.0
    repaired: bool = False
    note: str = ""
    error: str = ""

    @property
    def record(self) -> dict[str, Any]:
        fields = {"place": self.source, "query": self.query, "writer": self.writer, "hits": self.hits}
        fields |= {"returned": len(self.keys), "repaired": self.repaired}
        return fields | {name: text for name, text in (("note", self.note), ("error", self.error)) if text}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold one article that was found: the ranks of the searches that found it, by their number, and the fused score.

    ``article`` is None until it is fetched; ``source`` is the number of the source to fetch it from, -1 for none.
    """

    key: str
    score: float
    found_by: Mapping[int, int]
    source: int = -1
    article: Article | None = None

    @property
    def pmid(self) -> str:
        return self.key.removeprefix(_PMID) if self.key.startswith(_PMID) else ""


@dataclass(frozen=True, slots=True)
class Merged:
    """Hold the candidates, best first, and how many hits were the same as another one."""

    candidates: tuple[Candidate, ...]
    num_found: int
    num_duplicates: int


@dataclass(frozen=True, slots=True)
class Searched:
    """Hold all searches, and the articles of namespaces by key."""

    runs: tuple[SearchRun, ...] = ()
    homes: Mapping[str, int] = field(default_factory=dict)
    local: Mapping[str, Article] = field(default_factory=dict)

    def plus(self, other: Searched) -> Searched:
        return Searched((*self.runs, *other.runs), {**other.homes, **self.homes}, {**other.local, **self.local})


async def search_source(number: int, source: ArticleSource, query: Query, most: int) -> Searched:
    """Search one source for ``most`` articles; a query that finds nothing, or far too much, is repaired.

    An error of the search becomes the record of a search that failed.
    """
    if fault := fault_of(query):
        return Searched((SearchRun(source=source.name, query=query.term, writer=query.writer, error=fault),))
    try:
        tried, hits, notes = await _repaired(source, query, most)
    except NcbiError as error:
        return Searched((SearchRun(source=source.name, query=query.term, writer=query.writer, error=_message(error)),))
    keys = tuple(f"{_PMID}{pmid}" for pmid in hits.pmids) if hits.count <= MAX_HITS else ()
    if hits.count > MAX_HITS:
        notes.append(f"more than {MAX_HITS} records, left out as too broad")
    note = "; ".join(dict.fromkeys(filter(None, notes)))
    run = SearchRun(
        source=source.name,
        query=tried.term,
        writer=query.writer,
        hits=hits.count,
        keys=keys,
        weight=RANKED_WEIGHT if query.any_of else 1.0,
        repaired=tried != query,
        note=note,
    )
    return Searched((run,), dict.fromkeys(keys, number))


def _message(error: ArrowheadError) -> str:
    return f"{kind_of(error)}: {error.message}"


async def search_nearest(number: int, source: ArticleSource, question: str, options: ClinfoOptions) -> Searched:
    """Search one source by vectors; nothing where it has none."""
    run = nearest_run(source, question)
    try:
        hits = await source.nearest(question, options, wanted(options))
    except (RetrievalError, ModelError) as error:
        return Searched((replace(run, error=_message(error)),))
    if hits is None:
        return Searched()
    keys = tuple(f"{_PMID}{pmid}" for pmid in hits.pmids)
    return Searched((replace(run, hits=hits.count, keys=keys, note=hits.note),), dict.fromkeys(keys, number))


def nearest_run(source: ArticleSource, question: str) -> SearchRun:
    """Return the record of a search by vectors before it has begun."""
    return SearchRun(source=f"{source.name} (vectors)", query=question, writer="vectors", weight=RANKED_WEIGHT)


def wanted(options: ClinfoOptions) -> int:
    """Return how many articles each search takes."""
    return max(PER_QUERY, options.max_articles)


async def _repaired(source: ArticleSource, query: Query, most: int) -> tuple[Query, Hits, list[str]]:
    """Search by a query, repaired as often as it needs and may be; return the last one, its hits and what to tell."""
    hits = await source.search(query.term, most)
    notes = [hits.note]
    if not hits.count or hits.missing:
        spellings = await _spelled(source, query)
        if (corrected := respelled(query, spellings)) is not None:
            try:
                found = await source.search(corrected.term, most)
            except NcbiError:
                found = Hits(0, ())  # what the query itself has found stays
            if found.count or not hits.count:
                notes.append(", ".join(f'"{word}" searched for as "{better}"' for word, better in spellings.items()))
                query, hits = corrected, found
    for _ in range(_MAX_REPAIRS):
        changed = await _changed(source, query, hits.count)
        if changed is None:
            break
        query, hits = changed, await source.search(changed.term, most)
        notes.append(hits.note)
    return query, hits, notes


async def _spelled(source: ArticleSource, query: Query) -> dict[str, str]:
    """Return the words of a query that the source spells otherwise; without an answer, none, and nothing is lost."""
    words = words_to_spell(query)
    try:
        return dict(await source.spelled(words)) if words else {}
    except NcbiError:
        return {}


async def _changed(source: ArticleSource, query: Query, count: int) -> Query | None:
    """Return the query to try next, None where this one is good or cannot be changed.

    One that finds far too much asks for more words; one that finds nothing loses its fields, then its rarest clause.
    """
    if count:
        return narrowed(query) if count > MAX_HITS else None
    if (broad := broadened(query)) is not None:
        return broad
    if len(query.clauses) < 2:
        return None
    counts = await asyncio.gather(*(source.count(one.term) for one in query.clauses))
    return without_rarest(query, counts)


async def search_passages(passages: Passages, names: Sequence[str], queries: Sequence[str]) -> Searched:
    """Search namespaces by all queries; passages of one document are one article with these passages."""
    query = PassageQuery(namespaces=tuple(names), k=PASSAGES)
    where = ", ".join(names)
    try:
        gathered = await passages.find(queries, query)
    except (RetrievalError, ModelError) as error:
        return Searched(
            tuple(SearchRun(source=where, query=one, writer="rules", error=_message(error)) for one in queries)
        )
    found: dict[str, list[RankedPassage]] = {}
    runs: list[SearchRun] = []
    for text, ranked in zip(queries, gathered.lists, strict=True):
        keys = tuple(dict.fromkeys(one.passage.document_id for one in ranked))
        run = SearchRun(source=where, query=text, writer=gathered.retriever, weight=RANKED_WEIGHT)
        runs.append(replace(run, hits=len(keys), keys=keys))
        for one in ranked:
            found.setdefault(one.passage.document_id, []).append(one)
    return Searched(tuple(runs), {}, {key: _document(key, ranked) for key, ranked in found.items()})


def _document(key: str, ranked: Sequence[RankedPassage]) -> Article:
    document = ranked[0].document
    pieces = {one.passage.start: one.passage for one in ranked}
    sections = tuple(Section(pieces[start].section, pieces[start].text) for start in sorted(pieces))
    notices = {"RetractionIn"} if document.is_retracted else set()
    first = ranked[0]
    doi = doi_in(document.document_id) or doi_in(document.url)
    address = document.url or f"/v1/passages/{first.namespace}/{first.passage.passage_id}"
    return Article(
        key=key,
        title=" ".join(document.title.split()),
        sections=sections,
        pmid=key.removeprefix(_PMID) if key.startswith(_PMID) else "",
        doi=doi,
        journal=document.journal,
        date=document.date,
        authors=document.authors,
        types=document.types,
        notices=frozenset({*notices, *(["ErratumIn"] if document.corrected_by else [])}),
        item=document_item(document) | ({"DOI": doi, "type": "article-journal"} if doi else {}),
        url=address,
        source=first.namespace,
        namespace=first.namespace,
    )


def doi_in(text: str) -> str:
    """Return the DOI that an address or an id contains, in small letters, "" for none."""
    found = _DOI.search(unquote(text))
    return _PAGE_OF.sub("", found[0].lower()) if found else ""


def merge(searched: Searched, excluded: frozenset[str]) -> Merged:
    """Fuse the rankings by reciprocal ranks; ties go to the better rank, then to the earlier search."""
    sums: dict[str, float] = {}
    ranks: dict[str, dict[int, int]] = {}
    asked: set[tuple[str, str]] = set()
    for number, run in enumerate(searched.runs):
        if (run.source, run.query) in asked:
            continue  # a repaired query may be the same as another one
        asked.add((run.source, run.query))
        for rank, key in enumerate(run.keys, 1):
            sums[key] = sums.get(key, 0.0) + run.weight / (RRF_K + rank)
            ranks.setdefault(key, {})[number] = rank
    ordered = sorted(sums, key=lambda key: (-sums[key], min(ranks[key].values()), min(ranks[key]), key))
    found = sum(map(len, ranks.values()))
    candidates = tuple(
        Candidate(key, sums[key], ranks[key], searched.homes.get(key, -1), searched.local.get(key))
        for key in ordered
        if key.removeprefix(_PMID) not in excluded
    )
    return Merged(candidates, found, found - len(sums))


@dataclass(frozen=True, slots=True)
class FetchedCandidates:
    """Hold the candidates that could be fetched, and what went wrong with the others.

    ``num_same_doi`` counts records that another one's DOI stands for.
    """

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    num_same_doi: int = 0


async def fetch(sources: Sequence[ArticleSource], requested: Sequence[Candidate], seconds: float) -> FetchedCandidates:
    """Fetch the records of the candidates, each from the source that found it, all sources at once.

    What has come by then is kept.
    """
    pmids = [[one.pmid for one in requested if one.source == number] for number in range(len(sources))]
    results = await asyncio.gather(
        *(_attempt(source.fetch(ids, seconds)) for source, ids in zip(sources, pmids, strict=True) if ids)
    )
    errors = [_message(result) for result in results if isinstance(result, NcbiError)]
    fetched: dict[str, Article] = {}
    for result in results:
        if not isinstance(result, NcbiError):
            errors += result.unread
            fetched |= {article.key: article for article in result.articles}
    if any(not isinstance(result, NcbiError) and result.is_late for result in results):
        errors.append("fetch took too long")
    whole = [replace(one, article=_joined(fetched.get(one.key), one.article)) for one in requested]
    missing = tuple(one.key for one in whole if one.article is None)
    different = _different(whole)
    num_read = len(whole) - len(missing)
    return FetchedCandidates(different, missing, tuple(errors), num_read - len(different))


def _different(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that have an article, those of one DOI as one, at the source of the first.

    It is the first with a record of PubMed, whose reference is whole, else the first.
    """
    found: dict[str, Candidate] = {}
    for one in candidates:
        if one.article is None:
            continue
        first = found.setdefault(one.article.doi or one.key, one)
        if first is not one:
            better = one if one.pmid and not first.pmid else first
            text = _joined(better.article, first.article if better is one else one.article)
            by = {**one.found_by, **first.found_by}
            found[one.article.doi] = replace(better, article=text, score=first.score, found_by=by)
    return tuple(found.values())


async def _attempt(call: Awaitable[_T]) -> _T | NcbiError:
    try:
        return await call
    except NcbiError as error:
        return error


def _joined(fetched: Article | None, local: Article | None) -> Article | None:
    """Return the fetched record with the notices of both, and the other's passages where it has no abstract."""
    if fetched is None or local is None:
        return fetched or local
    joined = replace(fetched, notices=fetched.notices | local.notices)
    return joined if fetched.sections else replace(joined, sections=local.sections, namespace=local.namespace)
