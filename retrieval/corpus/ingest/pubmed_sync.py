"""Fill a namespace with the articles of a PubMed query, and update it by fetching only new and revised ones."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from models.files import parse_json
from retrieval.corpus.ingest.add import NO_HOOKS, ChangeHooks, ChangeReport, add_items
from retrieval.corpus.items import Item, ParsedDocument, ReadOptions, SkippedRecord
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.readers.ncbi_xml import read_pmc, read_pubmed
from retrieval.errors import (
    NCBI_MALFORMED,
    NCBI_TOO_LARGE,
    DocumentUnreadable,
    NamespaceDamaged,
    NamespaceInvalid,
    NcbiError,
)
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import IdList
from retrieval.types import FetchCall, NcbiCall, RawReply

# PubMed returns at most the first 9,999 records of a search, however they are paged.
MAX_LISTED: Final = 9_999
RECORDS: Final = 200
FULL_TEXTS: Final = 10
_HAS_WORD: Final = re.compile(r"\w")
_SYNTAX: Final = re.compile(r'["\[\]()\x00-\x1f\x7f]')
_FIRST_DAY: Final = date(1500, 1, 1)
_LAST_DAY: Final = date(3000, 12, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class PubmedQuery:
    """Describe a PubMed query.

    ``term`` is in PubMed's syntax and sent unchanged: no article type is excluded unless the term says so. Dates are
    days of publication as "2020/01/31", inclusive. ``limit``: at most so many articles, the newest, 0 for all.
    ``full_text``: also PMC's full texts, where open.

    Raises:
        NamespaceInvalid: an empty term, invalid dates or a negative limit.
    """

    term: str
    date_from: str = ""
    date_to: str = ""
    limit: int = 0
    full_text: bool = False

    def __post_init__(self) -> None:
        if not self.term.strip():
            raise NamespaceInvalid("a query needs a term", param="term")
        if self.limit < 0:
            raise NamespaceInvalid("limit must not be negative", param="limit")
        if self.span[0] > self.span[1]:
            raise NamespaceInvalid("date_from lies after date_to", param="date_from")

    @property
    def span(self) -> tuple[date, date]:
        return _day(self.date_from, "date_from", _FIRST_DAY), _day(self.date_to, "date_to", _LAST_DAY)


def keyword_term(keywords: Sequence[str], *, with_reviews: bool = True) -> str:
    """Return the term, in PubMed's syntax, for articles with all keywords in title or abstract.

    A keyword is one or more names with "/" between them, of which an article has at least one. ``with_reviews`` False
    leaves out reviews.

    Raises:
        NamespaceInvalid: a keyword has no letters and digits, or a sign that PubMed would read as syntax.
    """
    parts = []
    for keyword in keywords:
        names = [" ".join(name.split()) for name in keyword.split("/")]
        for name in names:
            if not _HAS_WORD.search(name) or _SYNTAX.search(name):
                raise NamespaceInvalid(
                    f"{keyword[:70]!r} is no keyword: names without quotes and brackets, alternatives with / between",
                    param="keywords",
                )
        tagged = [f'"{name}"[Title/Abstract]' for name in names]
        parts.append(tagged[0] if len(tagged) == 1 else f"({' OR '.join(tagged)})")
    if not parts:
        raise NamespaceInvalid("a query needs a keyword", param="keywords")
    return " AND ".join(parts) + ("" if with_reviews else " NOT review[Publication Type]")


@dataclass(frozen=True, slots=True)
class PmidList:
    """Hold the PMIDs that a query found.

    ``count`` is NCBI's; ``pmids`` are the newest first. ``unlisted``: days with more articles than PubMed lists for one
    search. ``not_found``: words of the term that PubMed ignored because no record has them.
    """

    count: int
    pmids: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()


@dataclass(slots=True)
class _Listing:
    """Collect the PMIDs of one query.

    ``dates``: whether spans refer to the date of publication or to that of the record's last change.
    """

    term: str
    limit: int
    dates: Literal["pdat", "mdat"] = "pdat"
    pmids: dict[str, None] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return bool(self.limit) and len(self.pmids) >= self.limit


async def list_pmids(fetch: FetchCall, query: PubmedQuery) -> PmidList:
    """Return all PMIDs of a query.

    More than 9,999 are listed by halving the time span until each part has fewer.

    Raises:
        NcbiError: one of its kinds, NCBI_MALFORMED where a search sends fewer PMIDs than it counts.
    """
    low, high = query.span
    dated = bool(query.date_from or query.date_to)
    listing = _Listing(query.term, query.limit)
    first = await _search(fetch, listing, (low, high) if dated else None)
    await _list(fetch, listing, (low, high), first)
    pmids = tuple(listing.pmids)[: query.limit or None]
    return PmidList(first.count, pmids, tuple(listing.unlisted), first.not_found)


async def list_revised(fetch: FetchCall, query: PubmedQuery, since: date) -> PmidList:
    """Return the PMIDs of the query's term whose records PubMed changed on or after a day.

    Their date of publication does not matter. Most important are notices of retraction or correction.
    """
    listing = _Listing(query.term, 0, "mdat")
    span = (since, _LAST_DAY)
    first = await _search(fetch, listing, span)
    await _list(fetch, listing, span, first)
    return PmidList(first.count, tuple(listing.pmids), tuple(listing.unlisted), first.not_found)


async def _list(fetch: FetchCall, listing: _Listing, span: tuple[date, date], found: IdList) -> None:
    """Add the PMIDs of ``span`` to the listing, given its search result, the newer half before the older one."""
    low, high = span
    remaining = listing.limit - len(listing.pmids) if listing.limit else found.count
    if min(found.count, remaining) <= len(found.ids):
        listing.pmids |= dict.fromkeys(found.ids)
        return
    if found.count <= MAX_LISTED:
        raise NcbiError(f"a search counts {found.count} records and lists {len(found.ids)}", NCBI_MALFORMED)
    if low == high:
        listing.pmids |= dict.fromkeys(found.ids)
        listing.unlisted.append(low.strftime("%Y/%m/%d"))
        return
    middle = low + (high - low) // 2
    for part in ((middle + timedelta(days=1), high), (low, middle)):
        if not listing.is_full:
            await _list(fetch, listing, part, await _search(fetch, listing, part))


async def _search(fetch: FetchCall, listing: _Listing, span: tuple[date, date] | None) -> IdList:
    params = {"db": "pubmed", "retmax": str(MAX_LISTED), "retmode": "json", "sort": "pub_date", "term": listing.term}
    if span:
        low, high = (f"{day.year:04}/{day.month:02}/{day.day:02}" for day in span)
        params |= {"datetype": listing.dates, "mindate": low, "maxdate": high}
    call = NcbiCall("esearch", "pubmed", params)
    return _ids(call, await fetch(call))


async def linked_pmcids(fetch: FetchCall, pmids: Sequence[str]) -> list[str]:
    """Return the PMC ids of those articles that have a full text in PMC."""
    params = {"dbfrom": "pubmed", "db": "pmc", "linkname": "pubmed_pmc", "retmode": "json", "id": ",".join(pmids)}
    call = NcbiCall("elink", "pmc", params)
    return list(_ids(call, await fetch(call)).ids)


def _ids(call: NcbiCall, reply: RawReply) -> IdList:
    parsed = parse_reply(call, reply)
    if not isinstance(parsed, IdList):
        raise NcbiError(f"{call.endpoint} sent no list of ids", NCBI_MALFORMED)
    return parsed


async def fetch_records(
    fetch: FetchCall, db: str, ids: Sequence[str], read: Callable[[Path, ReadOptions], Iterator[Item]],
    options: ReadOptions,
) -> AsyncIterator[list[Item]]:  # fmt: skip
    """Fetch records by efetch and yield the items that their reader makes of each reply.

    A reply over the size limit is requested again in halves; a single record over it is yielded as ``Passed``.
    """
    waiting = [list(ids)]
    while waiting:
        batch = waiting.pop()
        call = NcbiCall("efetch", db, {"db": db, "retmode": "xml", "id": ",".join(batch)})
        try:
            reply = await fetch(call)
        except NcbiError as error:
            if not NCBI_TOO_LARGE.is_of(error):
                raise
            if len(batch) == 1:
                yield [SkippedRecord(f"efetch {db} {batch[0]}", 0, error.message)]
            else:
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
            continue
        # On a thread, since parsing full texts would block the event loop noticeably.
        yield await asyncio.to_thread(_read, reply.body, f"efetch {db} {batch[0]}", read, options)


def _read(
    body: str, name: str, read: Callable[[Path, ReadOptions], Iterator[Item]], options: ReadOptions
) -> list[Item]:
    """Read a reply through a temporary file, since most sources of readers are larger than memory.

    The fault of a reply is one more ``SkippedRecord``: it does not stop the others. Its records that are missing are
    fetched again by the next update.
    """
    items: list[Item] = []
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        path = Path(folder) / name
        path.write_text(body, encoding="utf-8")
        try:
            items.extend(read(path, options))
        except DocumentUnreadable as error:
            items.append(SkippedRecord(name, 0, error.message))
    return items


def _day(text: str, name: str, default: date) -> date:
    if not text:
        return default
    try:
        year, month, day = (int(part) for part in text.split("/"))
        return date(year, month, day)
    except ValueError as error:
        raise NamespaceInvalid(f"{name} must be a day like 2020/01/31", param=name) from error


_QUERIES: Final = "queries"
_WAITING: Final = 2  # replies buffered in memory while documents are written


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReport:
    """Report the result of running a query.

    ``known`` articles were stored before; ``revised`` of them were fetched again, because PubMed changed their records
    since the query was last run. ``missing``: PMIDs that NCBI listed but did not send. ``full_texts``: PMC articles
    that came with a body. ``added``: the resulting changes of the namespace.
    """

    listed: PmidList
    known: int
    revised: int
    missing: tuple[str, ...]
    full_texts: int
    added: ChangeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """Record a query as it was last run, with the day and NCBI's count of articles."""

    query: PubmedQuery
    day: str
    count: int


@dataclass(slots=True)
class _FetchCounts:
    """Count the records and full texts that NCBI sent."""

    pmids: set[str] = field(default_factory=set)
    full_texts: int = 0


async def add_query(
    fetch: FetchCall, namespaces: Namespaces, name: str, query: PubmedQuery, watch: ChangeHooks = NO_HOOKS
) -> FetchReport:
    """Fetch every article of a query that the namespace lacks, and save the query.

    A repeated run is an update: of the known articles it fetches only those whose records PubMed changed since, for
    example by a retraction. What was fetched before an error is kept and indexed.

    Raises:
        NcbiError: NCBI or the egress policy failed a call.
        CorpusError, IndexFault: the namespace failed.
    """
    return await _run(fetch, namespaces, (name, query), watch, refresh=False)


async def refresh(
    fetch: FetchCall, namespaces: Namespaces, name: str, query: PubmedQuery, watch: ChangeHooks = NO_HOOKS
) -> FetchReport:
    """Fetch all articles of a query again, including known ones, and save the query.

    Unchanged articles cost no encoding.
    """
    return await _run(fetch, namespaces, (name, query), watch, refresh=True)


async def update(
    fetch: FetchCall, namespaces: Namespaces, name: str, watch: ChangeHooks = NO_HOOKS
) -> list[FetchReport]:
    """Run ``add_query`` for every saved query of the namespace."""
    return [await add_query(fetch, namespaces, name, saved.query, watch) for saved in queries_of(namespaces, name)]


def queries_of(namespaces: Namespaces, name: str) -> list[SavedQuery]:
    """Return the saved queries in the order of their first runs."""
    with namespaces.using(name) as namespace:
        text = namespace.store.meta(_QUERIES)
    try:
        rows: list[dict[str, Any]] = parse_json(text or "[]")
        return [
            SavedQuery(
                query=PubmedQuery(**row["query"]),
                day=date.fromisoformat(row["day"]).isoformat(),
                count=int(row["count"]),
            )
            for row in rows
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise NamespaceDamaged(f"namespace {name}: its queries cannot be read") from error


async def _run(
    fetch: FetchCall, namespaces: Namespaces, what: tuple[str, PubmedQuery], watch: ChangeHooks, *, refresh: bool
) -> FetchReport:
    name, query = what
    day = datetime.now(UTC).date().isoformat()
    listed = await list_pmids(fetch, query)
    known = set[str]() if refresh else await asyncio.to_thread(_known, namespaces, name, listed.pmids)
    revised = known.intersection(await _revised(fetch, namespaces, name, query)) if known else known
    pmids = [pmid for pmid in listed.pmids if pmid not in known or pmid in revised]
    sent = _FetchCounts()
    options = ReadOptions(retrieved=day, provenance=f"pubmed: {query.term}")
    batches = _batches(fetch, (pmids, query.full_text), sent, options)
    watch_records = replace(watch, goal=lambda: (len(pmids), len(sent.pmids)))
    added = await _pump(batches, lambda items: add_items(namespaces, name, items, watch_records))
    if not added.cancelled:
        await asyncio.to_thread(_remember, namespaces, name, SavedQuery(query=query, day=day, count=listed.count))
    missing = () if added.cancelled else tuple(pmid for pmid in pmids if pmid not in sent.pmids)
    return FetchReport(
        listed=listed, known=len(known), revised=len(revised), missing=missing, full_texts=sent.full_texts, added=added
    )


async def _revised(fetch: FetchCall, namespaces: Namespaces, name: str, query: PubmedQuery) -> tuple[str, ...]:
    """Return the PMIDs whose records changed since the query was last run; none for a new query."""
    saved = await asyncio.to_thread(queries_of, namespaces, name)
    last = next((date.fromisoformat(run.day) for run in saved if run.query == query), None)
    return (await list_revised(fetch, query, last)).pmids if last else ()


def _known(namespaces: Namespaces, name: str, pmids: tuple[str, ...]) -> set[str]:
    with namespaces.using(name) as namespace:
        found = namespace.store.known([f"PMID:{pmid}" for pmid in pmids])
    return {document_id.removeprefix("PMID:") for document_id in found}


def _remember(namespaces: Namespaces, name: str, run: SavedQuery) -> None:
    queries = queries_of(namespaces, name)
    position = next((position for position, saved in enumerate(queries) if saved.query == run.query), len(queries))
    queries[position : position + 1] = [run]
    namespaces.note(name, _QUERIES, json.dumps([asdict(saved) for saved in queries], ensure_ascii=False))


async def _batches(
    fetch: FetchCall, request: tuple[list[str], bool], sent: _FetchCounts, options: ReadOptions
) -> AsyncIterator[list[Item]]:
    """Yield fetched items, full texts before the records of their articles.

    A stored record therefore implies that its full text was requested.
    """
    pmids, full_text = request
    for first in range(0, len(pmids), RECORDS):
        batch = pmids[first : first + RECORDS]
        if full_text:
            pmcids = await linked_pmcids(fetch, batch)
            for start in range(0, len(pmcids), FULL_TEXTS):
                some = pmcids[start : start + FULL_TEXTS]
                async for items in fetch_records(fetch, "pmc", some, read_pmc, options):
                    sent.full_texts += sum(isinstance(item, ParsedDocument) for item in items)
                    yield items
        async for items in fetch_records(fetch, "pubmed", batch, read_pubmed, options):
            ids = (item.document.document_id for item in items if isinstance(item, ParsedDocument))
            sent.pmids |= {document_id.removeprefix("PMID:") for document_id in ids}
            yield items


async def _pump(batches: AsyncIterator[list[Item]], consume: Callable[[Iterator[Item]], ChangeReport]) -> ChangeReport:
    """Fetch on the event loop and write on a thread concurrently, a few batches apart.

    An error of fetching is raised after everything before it is written; an error of writing stops the fetching.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[list[Item] | None] = asyncio.Queue()
    room = asyncio.Semaphore(_WAITING)

    async def produce() -> None:
        try:
            async for batch in batches:
                await room.acquire()
                queue.put_nowait(batch)
        finally:
            queue.put_nowait(None)

    def items() -> Iterator[Item]:
        while (batch := asyncio.run_coroutine_threadsafe(queue.get(), loop).result()) is not None:
            loop.call_soon_threadsafe(room.release)
            yield from batch

    producer = asyncio.create_task(produce())
    consumer = asyncio.create_task(asyncio.to_thread(consume, items()))
    try:
        await asyncio.wait({producer, consumer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not producer.done():
            producer.cancel()
        failed = (await asyncio.gather(producer, return_exceptions=True))[0]
        added = await consumer
    if isinstance(failed, Exception):
        raise failed
    return added
