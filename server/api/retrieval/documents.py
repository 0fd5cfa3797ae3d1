"""Serve changes of a namespace's content at ``/v1/namespaces/{name}/…``; each change is a job.

Documents, files and PubMed queries are added; documents are removed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from retrieval.corpus.ingest.pubmed_sync import PubmedQuery, keyword_term
from retrieval.corpus.items import OCR_LANGUAGES, ParsedDocument, TextBuilder, date_number, document_types
from retrieval.corpus.readers.registry import READERS
from retrieval.errors import NamespaceInvalid, RetrievalError
from retrieval.passages import Document
from server.api.declarations import CHANGE_ERRORS, Reads, Reply, Responses, Schema, errors, parameter
from server.api.http_io import read_body
from server.api.retrieval.namespaces import require_changes
from server.api.retrieval.schemas import (
    MAX_INPUTS,
    DocumentBody,
    DocumentsBody,
    NoBody,
    QueryBody,
    RemoveBody,
    UpdateBody,
    ncbi_day,
)
from server.egress.policy import EgressContext
from server.errors import FORM_OF_ANOTHER_SITE, UPLOAD_TOO_LARGE, RequestError
from server.jobs.queue import JobSpec, JobStatus, Work
from server.jobs.uploads import Upload
from server.observability.observer import request_id
from server.types import EgressMode, id_of_digest
from server.wiring.services import Services

router = APIRouter(tags=["Namespaces"])
_FEW: Final = 64
_WAIT_FOR_FEW_S: Final = 5.0
_MAX_WAIT_S: Final = 60.0
_BLOCK: Final = 2**20
# Content types that a form of another site can send without a CORS preflight.
_FORMS: Final = frozenset(("", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"))


class JobReply(Reply):
    """Describe a change of a namespace, or a run of a review, whose id is then ``namespace``, which runs as a job."""

    id: str
    object: Literal["job"]
    kind: str
    namespace: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    cancelling: bool
    created: int
    started: int | None
    finished: int | None
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class JobList(Reply):
    """List the jobs of the key."""

    object: Literal["list"]
    data: list[JobReply]


WAIT: Final = parameter("wait", "query", {"type": "number", "minimum": 0, "maximum": _MAX_WAIT_S})
# 200 where the job ends while the client waits.
JOB: Final[Responses] = {200: {"model": JobReply}, 202: {"model": JobReply}}
_CHANGE: Final[Responses] = JOB | CHANGE_ERRORS
_FILE: Final[Schema] = {
    "parameters": [
        WAIT,
        parameter("filename", "query", {"type": "string"}),
        parameter("reader", "query", {"enum": ["", *READERS]}),
        parameter("ocr", "query", {"type": "string", "pattern": OCR_LANGUAGES.pattern}),
        parameter("licence", "query", {"type": "string"}),
    ],
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary", "minLength": 1}}},
    },
}


@router.post(
    "/v1/namespaces/{name}/documents",
    summary="Add documents as JSON",
    openapi_extra=Reads(DocumentsBody, [WAIT]),
    responses=_CHANGE,
)
async def add_documents(request: Request, name: str) -> Response:
    services = await opened(request, name)
    body = await read_body(request, DocumentsBody)
    if len(body.documents) > MAX_INPUTS:
        raise RequestError(f"documents: {len(body.documents)} given, at most {MAX_INPUTS} are taken", param="documents")
    today = datetime.now(UTC).date().isoformat()
    work = services.changes.documents([_reading(one, today) for one in body.documents])
    return await submitted(request, ("documents", name), work, few=len(body.documents) <= _FEW)


@router.delete(
    "/v1/namespaces/{name}/documents",
    summary="Remove documents by their ids or file names",
    openapi_extra=Reads(RemoveBody, [WAIT]),
    responses=_CHANGE,
)
async def remove_documents(request: Request, name: str) -> Response:
    services = await opened(request, name)
    body = await read_body(request, RemoveBody)
    work = services.changes.remove(body.ids)
    return await submitted(request, ("remove", name), work, few=len(body.ids) <= _FEW)


@router.put(
    "/v1/namespaces/{name}/files",
    summary="Add a file; the body is the file as it is",
    openapi_extra=_FILE,
    responses=_CHANGE,
)
@router.post(
    "/v1/namespaces/{name}/files",
    summary="Add a file, as PUT, sent as application/octet-stream",
    openapi_extra=_FILE,
    responses=_CHANGE,
)
async def add_file(request: Request, name: str) -> Response:
    """Add a file, sent as the raw body; its reader is detected unless ``reader`` names one.

    ``ocr`` names the languages in which characters on pages without text are recognized, none by default.
    """
    services = await opened(request, name, {"filename", "reader", "ocr", "licence"})
    fields = request.query_params
    if request.method == "POST" and request.headers.get("content-type", "").split(";")[0].strip().lower() in _FORMS:
        raise RequestError(
            "a file must be sent with PUT, or with POST as application/octet-stream", FORM_OF_ANOTHER_SITE
        )
    kind = fields.get("reader", "")
    if kind and kind not in READERS:
        raise RequestError(f"reader: one of {', '.join(READERS)}", param="reader")
    ocr = fields.get("ocr", "")
    if not OCR_LANGUAGES.fullmatch(ocr):
        raise RequestError("ocr: names of languages as tesseract has them, like eng or eng+deu", param="ocr")
    await services.retrieval.jobs.check_room(request.state.owner)
    async with services.admitted(request.state.owner):
        upload = await _received(request, services, fields.get("filename", ""))
    if upload is None:
        return Response(status_code=400)
    work = services.changes.file(upload, reader=kind, ocr=ocr, licence=fields.get("licence", ""))
    return await submitted(request, ("file", name), work, upload=upload)


@router.post(
    "/v1/namespaces/{name}/queries",
    summary="Add the results of a PubMed query, and store the query",
    openapi_extra=Reads(QueryBody, [WAIT]),
    responses=_CHANGE,
)
async def add_query(request: Request, name: str) -> Response:
    """Add the results of a PubMed query; the namespace stores the query."""
    services = await opened(request, name)
    body = await read_body(request, QueryBody)
    query = PubmedQuery(
        term=_term_of(body),
        date_from=ncbi_day(body.date_from),
        date_to=ncbi_day(body.date_to),
        limit=body.limit,
        full_text=body.full_text,
    )
    work = services.changes.query(query, _egress_context(request, body.arrowhead.egress))
    return await submitted(request, ("query", name), work)


@router.post(
    "/v1/namespaces/{name}/update",
    summary="Repeat the stored queries for new results",
    openapi_extra=Reads(UpdateBody, [WAIT]),
    responses=_CHANGE,
)
async def update(request: Request, name: str) -> Response:
    """Repeat the stored queries for new results, then complete the namespace's indices."""
    services = await opened(request, name)
    body = await read_body(request, UpdateBody)
    work = services.changes.update(_egress_context(request, body.arrowhead.egress))
    return await submitted(request, ("update", name), work)


@router.post(
    "/v1/namespaces/{name}/verify", summary="Verify the content", openapi_extra=Reads(NoBody, [WAIT]), responses=_CHANGE
)
async def verify(request: Request, name: str) -> Response:
    """Verify the namespace without changing it; blocks changes and costs as much as reading everything."""
    services = await opened(request, name)
    await read_body(request, NoBody)
    return await submitted(request, ("verify", name), services.changes.verify())


def _term_of(body: QueryBody) -> str:
    """Return the term of a query.

    Raises:
        RequestError: a keyword is none; ``param`` names the field.
    """
    if body.term is not None:
        return body.term if body.with_reviews else f"({body.term}) NOT review[Publication Type]"
    try:
        return keyword_term(body.keywords, with_reviews=body.with_reviews)
    except NamespaceInvalid as error:
        raise RequestError(f"keywords: {error.message}", param="keywords") from error


async def opened(request: Request, name: str, fields: Collection[str] = ()) -> Services:
    """Return the services after the checks that need no body.

    Raises:
        RequestError: namespaces are not changed over HTTP.
        RequestError: a query parameter is unknown or wrong.
        NamespaceInvalid: the name is not valid.
        NamespaceUnknown: there is no such namespace.
    """
    services: Services = request.app.state.services
    require_changes(request)
    for field in request.query_params:
        if field not in {"wait", *fields}:
            raise RequestError(f"{field[:40]}: there is no such field", param=field[:40])
    _wait_of(request, 0.0)
    await services.retrieval.run(lambda: services.access.require(request.state.principal, name))
    await services.retrieval.run(lambda: services.retrieval.namespaces.require(name))
    return services


def _egress_context(request: Request, mode: EgressMode | None) -> EgressContext:
    """Return what the request's key may send out.

    Raises:
        EgressRaised: the requested mode permits more than that of the key.
        RetrievalError: this server makes no calls.
    """
    services: Services = request.app.state.services
    if services.egress is None:
        raise RetrievalError("this server makes no calls")
    return services.egress.admit(request_id.get(), id_of_digest(request.state.owner), mode)


def _reading(body: DocumentBody, today: str) -> ParsedDocument:
    text = TextBuilder()
    text.add(body.text)
    document = Document(
        document_id=body.id,
        title=" ".join(body.title.split()),
        source=body.source or "api",
        url=body.url,
        authors=tuple(body.authors),
        journal=body.journal,
        date=date_number(body.date),
        types=document_types(body.types, retracted=bool(body.retracted_by)),
        licence=body.licence,
        provenance="POST /v1/namespaces/…/documents",
        retrieved=today,
        retracted_by=tuple(body.retracted_by),
        corrected_by=tuple(body.corrected_by),
    )
    return text.reading(document)


async def _received(request: Request, services: Services, filename: str) -> Upload | None:
    """Store the uploaded file in a private folder; return None where the client disconnected.

    The file is discarded where the upload fails.
    """
    uploads = services.retrieval.uploads
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > uploads.max_bytes:
        raise RequestError(f"the file is longer than {uploads.max_bytes} bytes", UPLOAD_TOO_LARGE)
    uploads.begin()
    try:
        upload = await asyncio.to_thread(uploads.open, filename)
        try:
            await _fill(request, upload)
        except ClientDisconnect:
            await asyncio.to_thread(upload.discard)
            return None
        except BaseException:
            await asyncio.shield(asyncio.to_thread(upload.discard))
            raise
        return upload
    finally:
        uploads.end()


async def _fill(request: Request, upload: Upload) -> None:
    waiting: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        waiting.append(chunk)
        size += len(chunk)
        if size >= _BLOCK:
            await asyncio.to_thread(upload.write, b"".join(waiting))
            waiting, size = [], 0
    await asyncio.to_thread(upload.write, b"".join(waiting))
    if not upload.size:
        raise RequestError("the file is empty: send one with content, as it is, as the body of the request")
    await asyncio.to_thread(upload.close)


async def submitted(
    request: Request, what: tuple[str, str], work: Work, *, few: bool = False, upload: Upload | None = None
) -> Response:
    """Submit the job; reply 200 with the job, or its error, where it ends while the client waits, else 202."""
    services: Services = request.app.state.services
    cleanup = upload.discard if upload else lambda: None
    try:
        wait = _wait_of(request, _WAIT_FOR_FEW_S if few else 0.0)
        job = await services.retrieval.jobs.submit(JobSpec(*what, request.state.owner), work, cleanup)
    except BaseException:
        cleanup()
        raise
    async with services.admission.held() as cancel_scope:
        with cancel_scope:
            job = await services.retrieval.jobs.wait(job, wait)
    return _answer(job)


def _answer(job: JobStatus) -> Response:
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if job.error is not None:
        return JSONResponse(job.error.body, status_code=job.error.status, headers=headers)
    return JSONResponse(job.as_dict(), status_code=200 if job.has_ended else 202, headers=headers)


def _wait_of(request: Request, default: float) -> float:
    text = request.query_params.get("wait")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MAX_WAIT_S:
        raise RequestError(f"wait: seconds from 0 to {_MAX_WAIT_S:g}", param="wait")
    return seconds


@router.get("/v1/jobs", summary="List the jobs of this key", responses={200: {"model": JobList}})
async def list_jobs(request: Request) -> Response:
    """Return the key's jobs, newest first."""
    services: Services = request.app.state.services
    found = await services.retrieval.jobs.of(request.state.owner)
    return JSONResponse({"object": "list", "data": [job.as_dict() for job in found]})


@router.get(
    "/v1/jobs/{job_id}", summary="Return the state of a job", responses={200: {"model": JobReply}, **errors(404)}
)
async def get_job(request: Request, job_id: str) -> Response:
    services: Services = request.app.state.services
    job = await services.retrieval.jobs.get(job_id, request.state.owner)
    return JSONResponse(job.as_dict())


@router.delete(
    "/v1/jobs/{job_id}", summary="Cancel a job; 202 where it stops at its next step", responses=JOB | errors(404)
)
async def cancel_job(request: Request, job_id: str) -> Response:
    """Cancel a job; 202 where it runs and stops at its next step."""
    services: Services = request.app.state.services
    job = await services.retrieval.jobs.cancel(job_id, request.state.owner)
    return JSONResponse(job.as_dict(), status_code=200 if job.has_ended else 202)
