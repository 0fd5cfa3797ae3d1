"""Fill a namespace with the articles of a PubMed query, and update it by fetching only new and revised ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final

from retrieval.corpus.adding import NO_WATCH, Added, Watch, add_items
from retrieval.corpus.errors import NamespaceDamaged
from retrieval.corpus.fetch_calls import (
    FULL_TEXTS,
    RECORDS,
    Listed,
    NcbiAccess,
    PubmedQuery,
    fetch_records,
    linked_pmcids,
    list_pmids,
    list_revised,
)
from retrieval.corpus.items import Item, Reading, ReadOptions
from retrieval.corpus.namespaces import Namespaces
from retrieval.corpus.readers import pmc, pubmed

_QUERIES: Final = "queries"
_WAITING: Final = 2  # replies buffered in memory while documents are written


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Report the result of running a query.

    ``known`` articles were stored before; ``revised`` of them were fetched again, because PubMed changed their records
    since the query was last run. ``missing``: PMIDs that NCBI listed but did not send. ``full_texts``: PMC articles
    that came with a body. ``added``: the resulting changes of the namespace.
    """

    listed: Listed
    known: int
    revised: int
    missing: tuple[str, ...]
    full_texts: int
    added: Added


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """Record a query as it was last run, with the day and NCBI's count of articles."""

    query: PubmedQuery
    day: str
    count: int


@dataclass(slots=True)
class _Sent:
    """Count the records and full texts that NCBI sent."""

    pmids: set[str] = field(default_factory=set)
    full_texts: int = 0


async def add_query(
    access: NcbiAccess, namespaces: Namespaces, name: str, query: PubmedQuery, watch: Watch = NO_WATCH
) -> Fetched:
    """Fetch every article of a query that the namespace lacks, and save the query.

    A repeated run is an update: of the known articles it fetches only those whose records PubMed changed since, for
    example by a retraction. What was fetched before an error is kept and indexed.

    Raises:
        NcbiError: NCBI or the egress policy failed a call.
        CorpusError, IndexFault: the namespace failed.
    """
    return await _run(access, namespaces, (name, query), watch, refresh=False)


async def refresh(
    access: NcbiAccess, namespaces: Namespaces, name: str, query: PubmedQuery, watch: Watch = NO_WATCH
) -> Fetched:
    """Fetch all articles of a query again, including known ones, and save the query.

    Unchanged articles cost no encoding.
    """
    return await _run(access, namespaces, (name, query), watch, refresh=True)


async def update(access: NcbiAccess, namespaces: Namespaces, name: str, watch: Watch = NO_WATCH) -> list[Fetched]:
    """Run ``add_query`` for every saved query of the namespace."""
    return [await add_query(access, namespaces, name, saved.query, watch) for saved in queries_of(namespaces, name)]


def queries_of(namespaces: Namespaces, name: str) -> list[SavedQuery]:
    """Return the saved queries in the order of their first runs."""
    with namespaces.using(name) as namespace:
        text = namespace.store.meta(_QUERIES)
    try:
        rows: list[dict[str, Any]] = json.loads(text or "[]")
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
    access: NcbiAccess, namespaces: Namespaces, what: tuple[str, PubmedQuery], watch: Watch, *, refresh: bool
) -> Fetched:
    name, query = what
    day = datetime.now(UTC).date().isoformat()
    listed = await list_pmids(access, query)
    known = set[str]() if refresh else await asyncio.to_thread(_known, namespaces, name, listed.pmids)
    revised = known.intersection(await _revised(access, namespaces, name, query)) if known else known
    wanted = [pmid for pmid in listed.pmids if pmid not in known or pmid in revised]
    sent = _Sent()
    options = ReadOptions(retrieved=day, provenance=f"pubmed: {query.term}")
    batches = _batches(access, (wanted, query.full_text), sent, options)
    added = await _pump(batches, lambda items: add_items(namespaces, name, items, watch))
    if not added.cancelled:
        await asyncio.to_thread(_remember, namespaces, name, SavedQuery(query=query, day=day, count=listed.count))
    missing = () if added.cancelled else tuple(pmid for pmid in wanted if pmid not in sent.pmids)
    return Fetched(
        listed=listed,
        known=len(known),
        revised=len(revised),
        missing=missing,
        full_texts=sent.full_texts,
        added=added,
    )


async def _revised(access: NcbiAccess, namespaces: Namespaces, name: str, query: PubmedQuery) -> tuple[str, ...]:
    """Return the PMIDs whose records changed since the query was last run; none for a new query."""
    saved = await asyncio.to_thread(queries_of, namespaces, name)
    last = next((date.fromisoformat(run.day) for run in saved if run.query == query), None)
    return (await list_revised(access, query, last)).pmids if last else ()


def _known(namespaces: Namespaces, name: str, pmids: tuple[str, ...]) -> set[str]:
    with namespaces.using(name) as namespace:
        found = namespace.store.known([f"PMID:{pmid}" for pmid in pmids])
    return {document_id.removeprefix("PMID:") for document_id in found}


def _remember(namespaces: Namespaces, name: str, run: SavedQuery) -> None:
    others = queries_of(namespaces, name)
    place = next((place for place, saved in enumerate(others) if saved.query == run.query), len(others))
    others[place : place + 1] = [run]
    namespaces.note(name, _QUERIES, json.dumps([asdict(saved) for saved in others], ensure_ascii=False))


async def _batches(
    access: NcbiAccess, wanted: tuple[list[str], bool], sent: _Sent, options: ReadOptions
) -> AsyncIterator[list[Item]]:
    """Yield fetched items, full texts before the records of their articles.

    A stored record therefore implies that its full text was requested.
    """
    pmids, full_text = wanted
    for first in range(0, len(pmids), RECORDS):
        batch = pmids[first : first + RECORDS]
        if full_text:
            pmcids = await linked_pmcids(access, batch)
            for start in range(0, len(pmcids), FULL_TEXTS):
                some = pmcids[start : start + FULL_TEXTS]
                async for items in fetch_records(access, "pmc", some, pmc.read, options):
                    sent.full_texts += sum(isinstance(item, Reading) for item in items)
                    yield items
        async for items in fetch_records(access, "pubmed", batch, pubmed.read, options):
            ids = (item.document.document_id for item in items if isinstance(item, Reading))
            sent.pmids |= {document_id.removeprefix("PMID:") for document_id in ids}
            yield items


async def _pump(batches: AsyncIterator[list[Item]], consume: Callable[[Iterator[Item]], Added]) -> Added:
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
