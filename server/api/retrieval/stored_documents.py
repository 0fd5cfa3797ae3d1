"""Serve the documents of a namespace: list, open, show pages, remove one; and what could not be read of its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse

from retrieval.corpus.ingest.add import find_document
from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.namespaces.originals import Originals
from retrieval.corpus.readers.pdf import MAX_WIDTH, MIN_WIDTH
from retrieval.corpus.store.base import PassageStore, StoredDocument
from retrieval.errors import DOCUMENT_UNKNOWN, CorpusError
from retrieval.passages import Passage
from server.api.declarations import CHANGE_ERRORS, Reply, Schema, errors, parameter
from server.api.http_io import cancel_on_disconnect
from server.api.retrieval.documents import JOB, WAIT, opened, submitted
from server.api.retrieval.schemas import shown_day
from server.errors import RequestError
from server.evidence.pages import PageViews, drawn_width
from server.types import id_of_digest
from server.wiring.services import Services

_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
router = APIRouter(tags=["Namespaces"])
_MAX_LISTED: Final = 200
_MAX_PASSAGES: Final = 1000
_MAX_UNREAD: Final = 10_000  # as many as a store keeps
_MAX_UNREAD_LISTED: Final = 1000
_MAX_QUERY: Final = 500
_MAX_WORDS: Final = 20
_WIDTH: Final = 1000
_T = TypeVar("_T")
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_DOCUMENT: Final = "/v1/namespaces/{name}/documents/{document:path}"
_READ_ERRORS: Final = errors(404, 422, 429)
_PAGE_ERRORS: Final = errors(404, 413, 422, 429)


def _integer(name: str, low: int, high: int, default: int) -> Schema:
    return parameter(name, "query", {"type": "integer", "minimum": low, "maximum": high, "default": default})


class StoredDocumentReply(Reply):
    """Describe a stored document."""

    id: str
    object: Literal["document"]
    name: str
    title: str
    passages: int
    pages: int
    has_file: bool
    status: Literal["ready", "waiting", "partly_read"]
    unread: int


class UnreadPart(Reply):
    """Name a file, or a part of one, that could not be read; ``line`` is None where the reason says which."""

    object: Literal["unread"]
    file: str
    line: int | None
    reason: str


class UnreadList(Reply):
    """List what could not be read, by file; ``total`` may be more than are listed."""

    object: Literal["list"]
    data: list[UnreadPart]
    total: int


class StoredDocumentList(Reply):
    """List documents, newest first; ``next`` is the ``before`` of the following page, None at the end."""

    object: Literal["list"]
    data: list[StoredDocumentReply]
    total: int
    next: str | None


class OpenedDocument(StoredDocumentReply):
    """Describe a document with its passages in its order, and whether more follow."""

    data: list[dict[str, Any]]
    has_more: bool


class PageReply(Reply):
    """Hold the words of a page with their boxes, in points from its top left corner."""

    object: Literal["page"]
    page: int
    pages: int
    width: float
    height: float
    has_text: bool
    words: list[dict[str, Any]]


@router.get(
    "/v1/namespaces/{name}/documents",
    summary="List the documents of a namespace, or search them by name",
    openapi_extra={
        "parameters": [
            parameter("query", "query", {"type": "string", "maxLength": _MAX_QUERY}),
            _integer("limit", 1, _MAX_LISTED, 50),
            parameter("before", "query", {"type": "string", "pattern": "^[0-9]{1,15}$"}),
        ]
    },
    responses={200: {"model": StoredDocumentList}, **_READ_ERRORS},
)
async def list_documents(request: Request, name: str) -> Response:
    """Return documents whose id, file name or title has all words of ``query``, newest first."""
    fields = _fields(request, ("query", "limit", "before"))
    words = _words_of(fields.get("query", ""))
    limit = _number(fields, "limit", (1, _MAX_LISTED), 50)
    before = fields.get("before", "0")
    if not _NUMBER.fullmatch(before):
        raise RequestError("before: the value of next in the page before", param="before")

    def work(services: Services) -> dict[str, Any]:
        with services.retrieval.namespaces.using(name) as namespace:
            store, originals = namespace.store, Originals(namespace.folder)
            found = store.documents(words, limit + 1, int(before))
            total = store.count_documents(words)
            unread = _unread_counts(store)
        data = [_described(one, originals, unread) for one in found[:limit]]
        following = str(found[limit - 1].place) if len(found) > limit else None
        return {"object": "list", "data": data, "total": total, "next": following}

    return JSONResponse(await _read(request, name, work))


@router.get(
    "/v1/namespaces/{name}/unread",
    summary="List what could not be read of the files of a namespace",
    responses={200: {"model": UnreadList}, **_READ_ERRORS},
)
async def list_unread(request: Request, name: str) -> Response:
    """Return files, pages and records that were left out, each with the reason, until they are read or forgotten."""
    _fields(request)

    def work(services: Services) -> dict[str, Any]:
        with services.retrieval.namespaces.using(name) as namespace:
            found = namespace.store.passed(_MAX_UNREAD)
        data = [_unread(one) for one in found[:_MAX_UNREAD_LISTED]]
        return {"object": "list", "data": data, "total": len(found)}

    return JSONResponse(await _read(request, name, work))


@router.delete(
    "/v1/namespaces/{name}/unread",
    summary="Forget what could not be read",
    responses={200: {"model": UnreadList}, **CHANGE_ERRORS},
)
async def forget_unread(request: Request, name: str) -> Response:
    """Empty the list; documents and files stay as they are."""
    services = await opened(request, name)
    await services.retrieval.run(lambda: services.retrieval.namespaces.forget_skipped(name))
    return JSONResponse({"object": "list", "data": [], "total": 0})


@router.get(
    f"{_DOCUMENT}/pages/{{page}}.png",
    summary="Draw a page of a PDF",
    openapi_extra={"parameters": [_integer("width", MIN_WIDTH, MAX_WIDTH, _WIDTH)]},
    response_class=Response,
    responses={200: {"content": {"image/png": _BINARY}}, 304: {"content": {"image/png": _BINARY}}, **_PAGE_ERRORS},
)
async def get_page_picture(request: Request, name: str, document: str, page: str) -> Response:
    """Draw the page at least ``width`` pixels wide, in one of a few sizes, in a process with limits of its own."""
    width = _number(_fields(request, ("width",)), "width", (MIN_WIDTH, MAX_WIDTH), _WIDTH)
    number = _page_number(page)

    def find(services: Services) -> Path:
        return _original(services, name, document)

    path = await _read(request, name, find)
    headers = _cached(f"{path.stem}-{number}-{drawn_width(width)}")
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    picture = await _shown(request, lambda pages, key: pages.picture(key, path, number, width))
    return Response(picture, media_type="image/png", headers=headers)


@router.get(
    f"{_DOCUMENT}/pages/{{page}}/text",
    summary="Return the words of a PDF's page with their boxes",
    responses={200: {"model": PageReply}, **_PAGE_ERRORS},
)
async def get_page_text(request: Request, name: str, document: str, page: str) -> Response:
    """Return the words of the page's text layer; ``has_text`` is false where it is a picture."""
    _fields(request)
    number = _page_number(page)

    path = await _read(request, name, lambda services: _original(services, name, document))
    found = asdict(await _shown(request, lambda pages, key: pages.words(key, path, number)))
    return JSONResponse({"object": "page", "page": number, "has_text": bool(found["words"]), **found})


@router.get(
    f"{_DOCUMENT}/file",
    summary="Return the original PDF",
    response_class=Response,
    responses={200: {"content": {"application/pdf": _BINARY}}, **_READ_ERRORS},
)
async def get_file(request: Request, name: str, document: str) -> Response:
    """Return the PDF as it was added, as an attachment."""
    _fields(request)

    def work(services: Services) -> tuple[Path, str]:
        path = _original(services, name, document)
        with services.retrieval.namespaces.using(name) as namespace:
            stored = namespace.store.stored_document(f"sha256:{path.stem}")
        return path, stored.name if stored else path.name

    path, filename = await _read(request, name, work)
    headers = {"X-Content-Type-Options": "nosniff"} | _cached(path.stem)
    return FileResponse(path, media_type="application/pdf", filename=filename, headers=headers)


@router.get(
    _DOCUMENT,
    summary="Open a document: its record and its passages",
    openapi_extra={"parameters": [_integer("limit", 1, _MAX_PASSAGES, 200), _integer("offset", 0, 1_000_000_000, 0)]},
    responses={200: {"model": OpenedDocument}, **_READ_ERRORS},
)
async def get_document(request: Request, name: str, document: str) -> Response:
    """Return the document, by its id or file name, with its passages by page and section."""
    fields = _fields(request, ("limit", "offset"))
    limit = _number(fields, "limit", (1, _MAX_PASSAGES), 200)
    offset = _number(fields, "offset", (0, 1_000_000_000), 0)

    def work(services: Services) -> dict[str, Any]:
        with services.retrieval.namespaces.using(name) as namespace:
            store = namespace.store
            document_id = find_document(store, document)
            stored = store.stored_document(document_id)
            if stored is None:
                raise CorpusError(f"there is no document {document[:200]!r}", DOCUMENT_UNKNOWN, param="document")
            passages = store.document_passages(document_id, limit + 1, offset)
            described = _described(stored, Originals(namespace.folder), _unread_counts(store))
        data = [_passage(one) for one in passages[:limit]]
        return described | {"data": data, "has_more": len(passages) > limit}

    return JSONResponse(await _read(request, name, work))


@router.delete(
    _DOCUMENT,
    summary="Remove a document by its id or file name",
    openapi_extra={"parameters": [WAIT]},
    responses=JOB | CHANGE_ERRORS,
)
async def remove_document(request: Request, name: str, document: str) -> Response:
    services = await opened(request, name)
    work = services.changes.remove([document])
    return await submitted(request, ("remove", name), work, few=True)


async def _read(request: Request, name: str, work: Any) -> Any:
    """Run ``work`` with the services on a search thread, for a key that may read the namespace."""
    services: Services = request.app.state.services

    def checked() -> Any:
        services.access.require(request.state.principal, name)
        return work(services)

    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        return await services.retrieval.run(checked)


async def _shown(request: Request, work: Callable[[PageViews, str], Coroutine[Any, Any, _T]]) -> _T:
    """Run ``work`` on the pages, for the key of the request; it holds no place of answers or searches."""
    services: Services = request.app.state.services
    async with cancel_on_disconnect(request.receive):
        return await services.waited_for(work(services.pages, id_of_digest(request.state.owner)))


def _original(services: Services, name: str, document: str) -> Path:
    """Return the path of a document's PDF.

    Raises:
        DOCUMENT_UNKNOWN: there is no such document, or no PDF of it was kept.
    """
    with services.retrieval.namespaces.using(name) as namespace:
        document_id = find_document(namespace.store, document)
        path = Originals(namespace.folder).path(document_id)
    if path is None:
        raise CorpusError(
            "there is no PDF of this document: it is of another kind, or was added before PDFs were kept or imported "
            "from an export; add the file again",
            DOCUMENT_UNKNOWN,
            param="document",
        )
    return path


def _unread_counts(store: PassageStore) -> Counter[str]:
    """Return how many parts of each file could not be read."""
    return Counter(record.file for record in store.passed(_MAX_UNREAD))


def _described(stored: StoredDocument, originals: Originals, unread_counts: Counter[str]) -> dict[str, Any]:
    document = stored.document
    # Of a file with many documents nobody can tell which of them a part would have been.
    unread = (unread_counts[document.provenance] or unread_counts[stored.name]) if stored.name else 0
    return {
        "id": document.document_id,
        "object": "document",
        "name": stored.name,
        "title": document.title,
        "source": document.source,
        "url": document.url,
        "authors": list(document.authors),
        "journal": document.journal,
        "date": shown_day(document.date),
        "types": list(document.types),
        "licence": document.licence,
        "added": document.retrieved,
        "retracted_by": list(document.retracted_by),
        "corrected_by": list(document.corrected_by),
        "passages": stored.passages,
        "pages": stored.pages,
        "waiting": stored.waiting,
        "status": "waiting" if any(stored.waiting.values()) else "partly_read" if unread else "ready",
        "unread": unread,
        "has_file": originals.path(document.document_id) is not None,
    }


def _unread(record: SkippedRecord) -> dict[str, Any]:
    in_reason = record.reason.startswith(f"page {record.line}: ")  # of a PDF
    line = None if in_reason else record.line or None
    return {"object": "unread", "file": record.file, "line": line, "reason": record.reason}


def _passage(passage: Passage) -> dict[str, Any]:
    return {
        "id": str(passage.passage_id),
        "object": "passage",
        "section": passage.section,
        "page": passage.page or None,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
    }


def _cached(tag: str) -> dict[str, str]:
    """Let the browser keep what it has, and ask each time whether the key may still see it."""
    return {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}


def _fields(request: Request, names: Collection[str] = ()) -> dict[str, str]:
    for field in request.query_params:
        if field not in names:
            raise RequestError(f"{field[:40]}: there is no such field", param=field[:40])
    return dict(request.query_params)


def _words_of(query: str) -> list[str]:
    words = query.split()
    if len(query) > _MAX_QUERY or len(words) > _MAX_WORDS:
        many = f"query: at most {_MAX_WORDS} words, {_MAX_QUERY} characters in all"
        raise RequestError(many, param="query")
    return words


def _number(fields: dict[str, str], name: str, limits: tuple[int, int], default: int) -> int:
    text = fields.get(name)
    if text is None:
        return default
    low, high = limits
    if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
        raise RequestError(f"{name}: a whole number from {low} to {high}", param=name)
    return int(text)


def _page_number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= 1_000_000:
        raise RequestError("page: a number, 1 for the first page", param="page")
    return int(text)
