"""The NCBI calls that filling a namespace takes: all PMIDs of a query, records, full texts. Knows no namespace."""

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

# PubMed gives the first 9,999 records of a search and no more, however they are paged.
MAX_LISTED: Final = 9_999
RECORDS: Final = 200
FULL_TEXTS: Final = 10
_FIRST_DAY: Final = date(1500, 1, 1)
_LAST_DAY: Final = date(3000, 12, 31)


class NcbiAccess(Protocol):
    """The client, or what decides whether a call may leave before it asks the client."""

    async def fetch(self, call: NcbiCall) -> RawReply: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PubmedQuery:
    """``term`` in PubMed's syntax, sent as it is: no type of article is left out unless it says so. Days as
    "2020/01/31", inclusive, of publication. ``limit``: only so many, the newest. ``full_text``: PMC's too, where open.

    Raises:
        NamespaceInvalid: an empty term, or days that cannot be.
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
    """``count`` is NCBI's; ``pmids`` the newest first. ``unlisted``: days with more than PubMed lists of one search.
    ``not_found``: words of the term that PubMed left out, because they stand nowhere."""

    count: int
    pmids: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()


@dataclass(slots=True)
class _Listing:
    """``dates``: which date of an article a span is meant of, of publication or of its record's last change."""

    term: str
    limit: int
    dates: Literal["pdat", "mdat"] = "pdat"
    pmids: dict[str, None] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return bool(self.limit) and len(self.pmids) >= self.limit


async def list_pmids(access: NcbiAccess, query: PubmedQuery) -> Listed:
    """All PMIDs of a query; more than 9,999 by halving the time until each part has fewer.

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
    """PMIDs of the query's term, whenever published, whose records PubMed changed on that day or later: by a notice of
    retraction or correction above all."""
    listing = _Listing(query.term, 0, "mdat")
    span = (since, _LAST_DAY)
    first = await _search(access, listing, span)
    await _list(access, listing, span, first)
    return Listed(first.count, tuple(listing.pmids), tuple(listing.unlisted), first.not_found)


async def _list(access: NcbiAccess, listing: _Listing, span: tuple[date, date], found: IdList) -> None:
    """Adds what a search over ``span`` has found, the newer half before the older one."""
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
    """Of the articles that have a full text in PMC, its number."""
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
    """Records by efetch as what their reader makes of them. A reply over the size limit is asked for in halves; a
    single record over it is passed over."""
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
        # On a thread: full texts take long enough to parse for others on this loop to notice.
        yield await asyncio.to_thread(_read, reply.body, f"efetch {db} {batch[0]}", read, options)


def _read(
    body: str, name: str, read: Callable[[Path, ReadOptions], Iterator[Item]], options: ReadOptions
) -> list[Item]:
    """Readers take files, since most of theirs are larger than memory."""
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
