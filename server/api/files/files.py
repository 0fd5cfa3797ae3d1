"""Serve ``/v1/files``: OpenAI's files, each the key's own that uploaded it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import iterate_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from server.api.answers.pages import ListReply, listed, page_of, page_parameters
from server.api.declarations import CHANGE_ERRORS, errors, parameter
from server.api.files.schemas import PURPOSES, ObjectReply, file_object
from server.api.retrieval.namespaces import require_changes
from server.errors import CLIENT_GONE, UPLOAD_TOO_LARGE, RequestError
from server.jobs.stored_files import NewFile, StoredFile
from server.jobs.uploads import checked_filename
from server.wiring.services import Services

router = APIRouter(tags=["Files"])
_MAX_LISTED: Final = 10_000
_FIELDS: Final = ("file", "purpose", "expires_after[anchor]", "expires_after[seconds]")
# Beside the file: the other fields, and the heads of all parts.
_AROUND: Final = 65_536
_LEAST_S, _MOST_S = 3600, 2_592_000
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"enum": list(PURPOSES)},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": _LEAST_S, "maximum": _MOST_S},
    },
    "required": ["file", "purpose"],
}
_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/v1/files",
    summary="Upload a file, as a form",
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}},
    responses={200: {"model": ObjectReply}, **CHANGE_ERRORS},
)
async def create_file(request: Request) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    owner = request.state.owner
    await asyncio.to_thread(services.files.check_room, owner)
    services.retrieval.uploads.begin()
    try:
        async with services.admitted(owner):
            form = await _form(request, services.retrieval.uploads.max_bytes)
            try:
                new, content = _new_file(form)
                stored = await asyncio.to_thread(services.files.add, owner, new, content)
            finally:
                await form.close()
    finally:
        services.retrieval.uploads.end()
    return JSONResponse(file_object(stored))


async def _form(request: Request, max_bytes: int) -> FormData:
    """Return the fields of the form; its file lies in memory or in a file without a name.

    Raises:
        RequestError: it is too long.
        RequestError: it is no form.
        CLIENT_GONE: the client disconnected.
    """

    async def bounded() -> AsyncIterator[bytes]:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes + _AROUND:
                raise RequestError(f"the file is longer than {max_bytes} bytes", UPLOAD_TOO_LARGE, param="file")
            yield chunk

    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RequestError("file: the body must be a form, sent as multipart/form-data", param="file")
    try:
        return await MultiPartParser(request.headers, bounded(), max_files=1, max_fields=len(_FIELDS)).parse()  # type: ignore[arg-type]
    except ClientDisconnect:
        raise RequestError("the client went away before its file was here", CLIENT_GONE) from None
    except (MultiPartException, KeyError, UnicodeDecodeError) as error:
        raise RequestError("file: the body is no form with one file", param="file") from error


def _new_file(form: FormData) -> tuple[NewFile, IO[bytes]]:
    for name in form:
        if name not in _FIELDS:
            raise RequestError(f"{name[:40]}: there is no such field", param=name[:40])
    file, purpose = form.get("file"), form.get("purpose")
    if not isinstance(file, UploadFile) or not file.size:
        raise RequestError("file: a file with content is needed", param="file")
    if purpose not in PURPOSES:
        raise RequestError(f"purpose: one of {', '.join(PURPOSES)}", param="purpose")
    anchor, seconds = form.get("expires_after[anchor]"), form.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return NewFile(checked_filename(file.filename or "", "file"), str(purpose)), file.file
    if anchor != "created_at":
        raise RequestError("expires_after.anchor: created_at", param="expires_after.anchor")
    text = str(seconds)
    if not (text.isascii() and text.isdigit() and _LEAST_S <= int(text[:9]) <= _MOST_S):
        rule = f"expires_after.seconds: a whole number from {_LEAST_S} to {_MOST_S}"
        raise RequestError(rule, param="expires_after.seconds")
    return NewFile(checked_filename(file.filename or "", "file"), str(purpose), int(text)), file.file


@router.get(
    "/v1/files",
    summary="List the files of this key",
    openapi_extra=page_parameters(_MAX_LISTED, _MAX_LISTED, parameter("purpose", "query", {"type": "string"})),
    responses={200: {"model": ListReply}, **errors(422)},
)
async def list_files(request: Request) -> Response:
    services: Services = request.app.state.services
    page = page_of(request, _MAX_LISTED, _MAX_LISTED, ("purpose",))
    purpose = request.query_params.get("purpose", "")
    found = await asyncio.to_thread(services.files.page, request.state.owner, purpose, **page)
    return JSONResponse(listed(found, page["limit"], file_object))


async def _found(request: Request, file_id: str) -> StoredFile:
    services: Services = request.app.state.services
    return await asyncio.to_thread(services.files.get, request.state.owner, file_id)


@router.get("/v1/files/{file_id}", summary="Describe a file", responses={200: {"model": ObjectReply}, **errors(404)})
async def get_file(request: Request, file_id: str) -> Response:
    return JSONResponse(file_object(await _found(request, file_id)))


@router.get(
    "/v1/files/{file_id}/content",
    summary="Return the content of a file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": _BINARY}}, **errors(404)},
)
async def get_file_content(request: Request, file_id: str) -> Response:
    services: Services = request.app.state.services
    file = await _found(request, file_id)
    headers = {
        "Content-Length": str(file.size),
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(file.filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
    }
    pieces = iterate_in_threadpool(services.files.read(file))
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.delete(
    "/v1/files/{file_id}",
    summary="Delete a file, and remove it from all vector stores",
    responses={200: {"model": ObjectReply}, **errors(404, 409)},
)
async def delete_file(request: Request, file_id: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    await _found(request, file_id)
    await asyncio.to_thread(services.vector_stores.delete_file, file_id)
    return JSONResponse({"id": file_id, "object": "file", "deleted": True})
