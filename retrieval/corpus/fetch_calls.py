"""Make the NCBI calls that fill a namespace: all PMIDs of a query, records, full texts.

It knows nothing of namespaces.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal, Protocol

from retrieval.corpus.errors import NamespaceInvalid
from retrieval.corpus.items import Item, Passed, ReadOptions
from retrieval.errors import NcbiMalformed, NcbiTooLarge
from retrieval.ncbi.parsing import parse_reply
from retrieval.ncbi.records import IdList
from retrieval.types import NcbiCall, RawReply

# PubMed returns at most the first 9,999 records of a search, however they are paged.
MAX_LISTED: Final = 9_999
RECORDS: Final = 200
FULL_TEXTS: Final = 10
_FIRST_DAY: Final = date(1500, 1, 1)
_LAST_DAY: Final = date(3000, 12, 31)


class NcbiAccess(Protocol):
    """Send NCBI calls, either directly by the client or after an egress check."""

    async def fetch(self, call: NcbiCall) -> RawReply: ...


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


@dataclass(frozen=True, slots=True)
class Listed:
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


async def list_pmids(access: NcbiAccess, query: PubmedQuery) -> Listed:
    """Return all PMIDs of a query.

    More than 9,999 are listed by halving the time span until each part has fewer.

    Raises:
        NcbiError: one of its kinds, NcbiMalformed where a search sends fewer PMIDs than it counts.
    """
    low, high = query.span
    dated = bool(query.date_from or query.date_to)
    listing = _Listing(query.term, query.limit)
    first = await _search(access, listing, (low, high) if dated else None)
    await _list(access, listing, (low, high), first)
    pmids = tuple(listing.pmids)[: query.limit or None]
    return Listed(first.count, pmids, tuple(listing.unlisted), first.not_found)


async def list_revised(access: NcbiAccess, query: PubmedQuery, since: date) -> Listed:
    """Return the PMIDs of the query's term whose records PubMed changed on or after a day.

    Their date of publication does not matter. Most important are notices of retraction or correction.
    """
    listing = _Listing(query.term, 0, "mdat")
    span = (since, _LAST_DAY)
    first = await _search(access, listing, span)
    await _list(access, listing, span, first)
    return Listed(first.count, tuple(listing.pmids), tuple(listing.unlisted), first.not_found)


async def _list(access: NcbiAccess, listing: _Listing, span: tuple[date, date], found: IdList) -> None:
    """Add the PMIDs of ``span`` to the listing, given its search result, the newer half before the older one."""
    low, high = span
    wanted = listing.limit - len(listing.pmids) if listing.limit else found.count
    if min(found.count, wanted) <= len(found.ids):
        listing.pmids |= dict.fromkeys(found.ids)
        return
    if found.count <= MAX_LISTED:
        raise NcbiMalformed(f"a search counts {found.count} records and lists {len(found.ids)}")
    if low == high:
        listing.pmids |= dict.fromkeys(found.ids)
        listing.unlisted.append(low.strftime("%Y/%m/%d"))
        return
    middle = low + (high - low) // 2
    for part in ((middle + timedelta(days=1), high), (low, middle)):
        if not listing.is_full:
            await _list(access, listing, part, await _search(access, listing, part))


async def _search(access: NcbiAccess, listing: _Listing, span: tuple[date, date] | None) -> IdList:
    params = {"db": "pubmed", "retmax": str(MAX_LISTED), "retmode": "json", "sort": "pub_date", "term": listing.term}
    if span:
        low, high = (f"{day.year:04}/{day.month:02}/{day.day:02}" for day in span)
        params |= {"datetype": listing.dates, "mindate": low, "maxdate": high}
    call = NcbiCall("esearch", "pubmed", params)
    return _ids(call, await access.fetch(call))


async def linked_pmcids(access: NcbiAccess, pmids: Sequence[str]) -> list[str]:
    """Return the PMC ids of those articles that have a full text in PMC."""
    params = {"dbfrom": "pubmed", "db": "pmc", "linkname": "pubmed_pmc", "retmode": "json", "id": ",".join(pmids)}
    call = NcbiCall("elink", "pmc", params)
    return list(_ids(call, await access.fetch(call)).ids)


def _ids(call: NcbiCall, reply: RawReply) -> IdList:
    parsed = parse_reply(call, reply)
    if not isinstance(parsed, IdList):
        raise NcbiMalformed(f"{call.endpoint} sent no list of ids")
    return parsed


async def fetch_records(
    access: NcbiAccess, db: str, ids: Sequence[str], read: Callable[[Path, ReadOptions], Iterator[Item]],
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
            reply = await access.fetch(call)
        except NcbiTooLarge as error:
            if len(batch) == 1:
                yield [Passed(f"efetch {db} {batch[0]}", 0, error.message)]
            else:
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
            continue
        # On a thread, since parsing full texts would block the event loop noticeably.
        yield await asyncio.to_thread(_read, reply.body, f"efetch {db} {batch[0]}", read, options)


def _read(
    body: str, name: str, read: Callable[[Path, ReadOptions], Iterator[Item]], options: ReadOptions
) -> list[Item]:
    """Read a reply through a temporary file.

    Readers take files, since most of their sources are larger than memory.
    """
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        path = Path(folder) / name
        path.write_text(body, encoding="utf-8")
        return list(read(path, options))


def _day(text: str, name: str, default: date) -> date:
    if not text:
        return default
    try:
        year, month, day = (int(part) for part in text.split("/"))
        return date(year, month, day)
    except ValueError as error:
        raise NamespaceInvalid(f"{name} must be a day like 2020/01/31", param=name) from error
