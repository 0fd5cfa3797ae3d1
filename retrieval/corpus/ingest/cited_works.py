"""Ask a GROBID service for the works that a PDF cites, and keep them beside the PDF.

GROBID (https://grobid.readthedocs.io, Apache-2.0) is a service of its own: ``POST /api/processReferences`` takes a PDF
as the form's field ``input`` and answers 200 with TEI XML, 204 where it finds no references, 503 while all its threads
are busy. A document is stored and searched without it: a service that is down is told, and no fault of the file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import httpx

from retrieval.corpus.namespaces.originals import CitedWork, Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.errors import DocumentUnreadable, NcbiTooLarge, RetrievalError
from retrieval.formats.notation import text_of
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.ncbi.calls.urls import OutgoingRequest
from retrieval.ncbi.client.transport import HttpReply, HttpSender, SendLimits
from retrieval.storage.files import digest_file

_ATTEMPTS: Final = 3
_BUSY: Final = 503
_NOTHING: Final = 204
_MAX_WORKS: Final = 2000
_MAX_TEXT: Final = 1000
_TEI: Final = "{http://www.tei-c.org/ns/1.0}"
_YEAR: Final = re.compile(r"\b(?:1[6-9]|20)\d\d\b")
_PMID: Final = re.compile(r"[1-9]\d{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grobid:
    """Describe the service: its address without a path, and the limits of one PDF.

    ``wait_s`` is the pause before a busy service is asked again, at most three times in all.
    """

    url: str
    timeout_s: float = 60.0
    wait_s: float = 5.0
    max_reply_bytes: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class CitedWorks:
    """Report the works that were kept for a PDF; ``fault`` says why there are none, "" where the service answered."""

    count: int = 0
    fault: str = ""


def keep_cited_works(
    namespaces: Namespaces,
    name: str,
    path: Path,
    service: Grobid,
    cancelled: Callable[[], bool] = lambda: False,
) -> CitedWorks:
    """Ask for the works that a PDF of the namespace cites, unless they are here, and keep them.

    Blocks; not to be called on an event loop's thread. A file that the namespace does not keep as a PDF has none.
    """
    digest = digest_file(path).sha256
    with namespaces.using(name) as namespace:
        originals = Originals(namespace.folder)
        if originals.path(f"sha256:{digest}") is None:
            return CitedWorks()
        if (known := originals.cited_works(f"sha256:{digest}")) is not None:
            return CitedWorks(len(known))
    try:
        works = asyncio.run(ask_grobid(path, service, cancelled))
    except RetrievalError as error:
        return CitedWorks(fault=f"GROBID did not tell what the file cites: {error.message}")
    with namespaces.writing(name) as (namespace, _):
        Originals(namespace.folder).keep_cited_works(digest, works)
    return CitedWorks(len(works))


async def ask_grobid(
    path: Path, service: Grobid, cancelled: Callable[[], bool] = lambda: False
) -> tuple[CitedWork, ...]:
    """Return the works that a PDF cites, () where the service finds none.

    Raises:
        RetrievalError: the service cannot be reached, is busy for too long, refuses the file, or answers no TEI.
    """
    limits = SendLimits(timeout_s=service.timeout_s, max_reply_bytes=service.max_reply_bytes)
    sender = HttpSender(limits)
    request = await asyncio.to_thread(_request, path, service)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                reply = await sender.send(request)
            except NcbiTooLarge:
                raise RetrievalError(f"its reply is longer than {service.max_reply_bytes} bytes") from None
            except RetrievalError as error:
                raise RetrievalError(error.message.replace("NCBI", service.url)) from None
            if reply.status != _BUSY or attempt == _ATTEMPTS or cancelled():
                return await asyncio.to_thread(_read, reply)
            await asyncio.sleep(service.wait_s)
    finally:
        await sender.close()
    raise AssertionError  # the last attempt returns or raises


def _request(path: Path, service: Grobid) -> OutgoingRequest:
    url = f"{service.url}/api/processReferences"
    fields = {"consolidateCitations": "0", "includeRawCitations": "1"}
    files = {"input": ("file.pdf", path.read_bytes(), "application/pdf")}
    form = httpx.Request("POST", url, data=fields, files=files)
    return OutgoingRequest("POST", url, form.read(), form.headers["Content-Type"])


def _read(reply: HttpReply) -> tuple[CitedWork, ...]:
    if reply.status == _NOTHING:
        return ()
    if reply.status == _BUSY:
        raise RetrievalError("it is busy")
    if reply.status != 200:
        raise RetrievalError(f"it answered {reply.status}")
    return parse_tei(reply.body)


def parse_tei(body: bytes) -> tuple[CitedWork, ...]:
    """Return the works of a TEI document's bibliography, in its order, at most 2,000.

    Raises:
        DocumentUnreadable: it is no TEI, or declares entities.
    """
    try:
        refuse_declared(body)
        root = ElementTree.fromstring(body)
    except (DeclaredXml, ElementTree.ParseError) as error:
        raise DocumentUnreadable(f"its reply is no TEI ({error})") from None
    if root.tag != f"{_TEI}TEI":
        raise DocumentUnreadable(f"its reply is no TEI but {root.tag[:60]!r}")
    # Outside of a list, in the header, is the description of the file itself.
    entries = (entry for listed in root.iter(f"{_TEI}listBibl") for entry in listed.iterfind(f"{_TEI}biblStruct"))
    works = (work for entry in entries if (work := _work(entry)) != CitedWork())
    return tuple(islice(works, _MAX_WORKS))


def _work(entry: Element) -> CitedWork:
    article, volume = (entry.find(f"{_TEI}{name}") for name in ("analytic", "monogr"))
    title = _text(article, "title") or _text(volume, "title")
    container = _text(volume, "title") if _text(article, "title") else ""
    first = article if article is not None and article.find(f"{_TEI}author") is not None else volume
    pmid = _identifier(entry, "PMID")
    return CitedWork(
        title=title,
        authors=tuple(_authors(first)),
        container=container,
        year=_year(entry),
        doi=_identifier(entry, "DOI"),
        pmid=pmid if _PMID.fullmatch(pmid) else "",
        raw=next((_joined(one) for one in entry.iter(f"{_TEI}note") if one.get("type") == "raw_reference"), ""),
    )


def _authors(part: Element | None) -> Iterator[str]:
    for name in part.iterfind(f"{_TEI}author/{_TEI}persName") if part is not None else ():
        forenames = [_joined(one) for one in name.iterfind(f"{_TEI}forename")]
        surname = _text(name, "surname")
        if surname:
            yield " ".join((surname, "".join(one[:1] for one in forenames if one))).strip()


def _year(entry: Element) -> int:
    for day in entry.iter(f"{_TEI}date"):
        if found := _YEAR.search(day.get("when") or _joined(day)):
            return int(found[0])
    return 0


def _identifier(entry: Element, kind: str) -> str:
    return next((_joined(one) for one in entry.iter(f"{_TEI}idno") if (one.get("type") or "").upper() == kind), "")


def _text(part: Element | None, name: str) -> str:
    found = part.find(f"{_TEI}{name}") if part is not None else None
    return _joined(found) if found is not None else ""


def _joined(element: Element) -> str:
    return text_of(element)[:_MAX_TEXT]
