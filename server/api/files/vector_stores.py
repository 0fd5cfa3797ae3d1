"""Serve ``/v1/vector_stores``: OpenAI's vector stores over namespaces, their files, and searches of them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from retrieval.corpus.chunking import Chunking
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import NamespaceInvalid
from server.api.answers.file_search import FileSearch, found_chunks, scope_of
from server.api.answers.pages import ListReply, listed, page_of, page_parameters, part_of
from server.api.declarations import CHANGE_ERRORS, RETRIEVAL_ERRORS, Reads, errors, parameter
from server.api.files.schemas import (
    STATES,
    BatchBody,
    ChunkingStrategy,
    MemberBody,
    MemberUpdate,
    ObjectReply,
    StoreSearchBody,
    VectorStoreBody,
    VectorStoreUpdate,
    counts_object,
    member_object,
    store_object,
)
from server.api.http_io import cancel_on_disconnect, read_body
from server.api.retrieval.namespaces import require_changes
from server.errors import RequestError
from server.jobs.attribute_filters import parse_filter
from server.jobs.queue import JobSpec, OrderedWork, WorkOrder
from server.jobs.vector_stores import JOB_KIND, Member, VectorStore
from server.wiring.services import Services

router = APIRouter(tags=["Files"])
_STORES: Final = "/v1/vector_stores"
_STORE: Final = f"{_STORES}/{{vector_store_id}}"
_FILES: Final = f"{_STORE}/files"
_FILE: Final = f"{_FILES}/{{file_id}}"
_BATCH: Final = f"{_STORE}/file_batches/{{batch_id}}"
_MAX_LISTED: Final = 100
_USUAL: Final = 20
# Clients that poll ask again after so long.
_POLL: Final = {"openai-poll-after-ms": "250"}
_ONE: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ObjectReply}, **errors(404)}
_CHANGED: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ObjectReply}, **CHANGE_ERRORS}
_LIST: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ListReply}, **errors(404, 422)}


async def _store(request: Request, store_id: str, *, change: bool = False) -> VectorStore:
    """Return a vector store of the request's key, for a change where ``change``; stuck files are settled first."""
    services: Services = request.app.state.services
    stores, principal = services.vector_stores, request.state.principal
    if change:
        require_changes(request)
        return await asyncio.to_thread(stores.usable, principal, store_id)
    busy = await services.retrieval.jobs.busy()
    store = await asyncio.to_thread(stores.get, principal, store_id)
    if store_id not in busy:
        await asyncio.to_thread(stores.settle, store, "failed")
    return store


@router.post(_STORES, summary="Create a vector store", openapi_extra=Reads(VectorStoreBody), responses=_CHANGED)
async def create_store(request: Request) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    body = await read_body(request, VectorStoreBody)
    strategy = body.chunking_strategy or ChunkingStrategy(type="auto")
    encoder = services.settings.retrieval.encoder
    try:
        settings = NamespaceSettings(encoder="" if encoder == "none" else encoder, chunking=strategy.chunking)
    except NamespaceInvalid as error:
        raise RequestError(f"chunking_strategy: {error.message}", param="chunking_strategy") from error
    draft = VectorStore(
        id="",
        name=body.name or "",
        description=body.description,
        metadata=body.metadata or {},
        days=body.expires_after.days if body.expires_after else None,
    )
    principal = request.state.principal
    for file_id in body.file_ids or ():
        await asyncio.to_thread(services.files.get, principal.owner, file_id, "file_ids")
    store = await asyncio.to_thread(services.vector_stores.create, principal, draft, settings)
    if body.file_ids:
        await _add(request, store, dict.fromkeys(body.file_ids), batch=True)
    return await _shown(request, store)


@router.get(
    _STORES,
    summary="List the vector stores of this key",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL),
    responses=_LIST,
)
async def list_stores(request: Request) -> Response:
    services: Services = request.app.state.services
    page = page_of(request, _MAX_LISTED, _USUAL)

    def work() -> dict[str, Any]:
        found = part_of(services.vector_stores.all(request.state.principal), page, lambda store: store.id)
        return listed(found, page["limit"], lambda store: _object(services, store))

    return JSONResponse(await asyncio.to_thread(work))


@router.get(_STORE, summary="Describe a vector store", responses=_ONE)
async def get_store(request: Request, vector_store_id: str) -> Response:
    return await _shown(request, await _store(request, vector_store_id))


@router.post(
    _STORE,
    summary="Change the name, metadata or expiry of a vector store",
    openapi_extra=Reads(VectorStoreUpdate),
    responses=_CHANGED,
)
async def update_store(request: Request, vector_store_id: str) -> Response:
    services: Services = request.app.state.services
    store = await _store(request, vector_store_id, change=True)
    body = await read_body(request, VectorStoreUpdate)
    if not store.created:
        raise RequestError("vector_store_id: a namespace has no name but its own", param="vector_store_id")
    changed = replace(
        store,
        name=store.name if body.name is None else body.name,
        metadata=store.metadata if body.metadata is None else body.metadata,
    )
    if "expires_after" in body.model_fields_set:
        days = body.expires_after.days if body.expires_after else None
        changed = replace(changed, days=days, active=int(time.time()))
    await asyncio.to_thread(services.vector_stores.put, changed)
    return await _shown(request, changed)


@router.delete(_STORE, summary="Delete a vector store with its content; its files stay", responses=_CHANGED)
async def delete_store(request: Request, vector_store_id: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    store = await _store(request, vector_store_id)
    for job in await services.retrieval.jobs.of(request.state.owner):
        if job.spec.namespace == store.id and not job.has_ended:
            job = await services.retrieval.jobs.cancel(job.id, request.state.owner)
            await services.retrieval.jobs.wait(job, 10.0)
    await asyncio.to_thread(services.vector_stores.delete, store)
    return JSONResponse({"id": store.id, "object": "vector_store.deleted", "deleted": True})


async def _shown(request: Request, store: VectorStore) -> Response:
    return JSONResponse(await asyncio.to_thread(_object, request.app.state.services, store))


def _object(services: Services, store: VectorStore) -> dict[str, Any]:
    """Return the object of a vector store; documents that came otherwise count as files."""
    found = services.retrieval.namespaces.describe(store.id)
    counts = services.vector_stores.counts(store)
    if not counts and found.counts:
        counts = {"completed": found.counts.documents}
    return store_object(store, counts, found.bytes_disk, has_expired=services.vector_stores.has_expired(store))


# Files of a vector store.


@router.post(_FILES, summary="Add a file to a vector store", openapi_extra=Reads(MemberBody), responses=_CHANGED)
async def add_member(request: Request, vector_store_id: str) -> Response:
    store = await _store(request, vector_store_id, change=True)
    body = await read_body(request, MemberBody)
    await _check_strategies(request, store, [body.chunking_strategy])
    (member,) = await _add(request, store, {body.file_id: body.attributes}, batch=False)
    return await _member_reply(request, store, member)


async def _add(request: Request, store: VectorStore, files: Mapping[str, Any], *, batch: bool) -> list[Member]:
    """Submit the job that reads files into a vector store, and return them as they are now."""
    services: Services = request.app.state.services
    stores, batch_id = services.vector_stores, f"vsfb_{uuid.uuid4().hex}" if batch else ""
    drafts = await asyncio.to_thread(stores.drafts, request.state.principal, store, files, batch_id)
    order = WorkOrder({"members": [asdict(one) for one in drafts]})
    spec = JobSpec(JOB_KIND, store.id, request.state.owner)
    job = await services.retrieval.jobs.submit(spec, OrderedWork(order, services.changes.perform))
    await asyncio.to_thread(stores.begin, drafts, job.id)
    return drafts


async def _check_strategies(request: Request, store: VectorStore, strategies: list[ChunkingStrategy | None]) -> None:
    """Check that files are to be cut as the vector store cuts all."""
    own = await _chunking(request, store)
    if any(one is not None and one.static is not None and one.chunking != own for one in strategies):
        text = "chunking_strategy: all files of a vector store are cut alike; create one with this strategy"
        raise RequestError(text, param="chunking_strategy")


async def _chunking(request: Request, store: VectorStore) -> Chunking:
    services: Services = request.app.state.services

    def work() -> Chunking:
        with services.retrieval.namespaces.using(store.id) as namespace:
            return namespace.settings.chunking

    return await asyncio.to_thread(work)


async def _member_reply(request: Request, store: VectorStore, member: Member) -> Response:
    headers = _POLL if member.state == "in_progress" else {}
    return JSONResponse(member_object(member, await _chunking(request, store)), headers=headers)


@router.get(
    _FILES,
    summary="List the files of a vector store",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL, parameter("filter", "query", {"enum": list(STATES)})),
    responses=_LIST,
)
async def list_members(request: Request, vector_store_id: str) -> Response:
    store = await _store(request, vector_store_id)
    return await _members_reply(request, store)


async def _members_reply(request: Request, store: VectorStore, batch: str = "") -> Response:
    services: Services = request.app.state.services
    page = page_of(request, _MAX_LISTED, _USUAL, ("filter",))
    state, chunking = request.query_params.get("filter", ""), await _chunking(request, store)
    if state not in ("", *STATES):
        raise RequestError(f"filter: one of {', '.join(STATES)}", param="filter")

    def work() -> list[Member]:
        stores = services.vector_stores
        if not batch and not stores.counts(store):
            return stores.documents(store, page["limit"], page["after"])
        return stores.members(store, state=state, batch=batch, **page)

    found = await asyncio.to_thread(work)
    return JSONResponse(listed(found, page["limit"], lambda member: member_object(member, chunking)))


async def _member(request: Request, store_id: str, file_id: str) -> tuple[VectorStore, Member]:
    services: Services = request.app.state.services
    store = await _store(request, store_id)
    return store, await asyncio.to_thread(services.vector_stores.member, store, file_id)


@router.get(_FILE, summary="Describe a file of a vector store", responses=_ONE)
async def get_member(request: Request, vector_store_id: str, file_id: str) -> Response:
    store, member = await _member(request, vector_store_id, file_id)
    return await _member_reply(request, store, member)


@router.post(_FILE, summary="Set the attributes of a file", openapi_extra=Reads(MemberUpdate), responses=_CHANGED)
async def update_member(request: Request, vector_store_id: str, file_id: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    body = await read_body(request, MemberUpdate)
    store, member = await _member(request, vector_store_id, file_id)
    member = replace(member, attributes=body.attributes or {})
    await asyncio.to_thread(services.vector_stores.put_member, member)
    return await _member_reply(request, store, member)


@router.delete(_FILE, summary="Remove a file from a vector store; the file stays", responses=_CHANGED)
async def delete_member(request: Request, vector_store_id: str, file_id: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    _, member = await _member(request, vector_store_id, file_id)
    await asyncio.to_thread(services.vector_stores.detach, member)
    return JSONResponse({"id": file_id, "object": "vector_store.file.deleted", "deleted": True})


@router.get(f"{_FILE}/content", summary="Return the text that was read from a file", responses=_ONE)
async def get_member_content(request: Request, vector_store_id: str, file_id: str) -> Response:
    services: Services = request.app.state.services
    _, member = await _member(request, vector_store_id, file_id)
    texts = await asyncio.to_thread(services.vector_stores.texts, member)
    reply = {
        "object": "vector_store.file_content.page",
        "file_id": file_id,
        "filename": member.filename,
        "attributes": dict(member.attributes),
        "data": [{"type": "text", "text": text} for text in texts],
        "has_more": False,
        "next_page": None,
    }
    return JSONResponse(reply)


# Batches.


@router.post(
    f"{_STORE}/file_batches",
    summary="Add several files to a vector store",
    openapi_extra=Reads(BatchBody),
    responses=_CHANGED,
)
async def create_batch(request: Request, vector_store_id: str) -> Response:
    store = await _store(request, vector_store_id, change=True)
    body = await read_body(request, BatchBody)
    await _check_strategies(request, store, body.strategies)
    members = await _add(request, store, body.by_id, batch=True)
    return await _batch_reply(request, store, members[0].batch)


async def _batch_reply(request: Request, store: VectorStore, batch_id: str) -> Response:
    services: Services = request.app.state.services

    def work() -> dict[str, Any]:
        record, _ = services.vector_stores.batch(store, batch_id)
        counts = counts_object(services.vector_stores.counts_of(record))
        ended = next((state for state in ("cancelled", "completed") if counts[state]), "failed")
        return {
            "id": batch_id,
            "object": "vector_store.files_batch",
            "created_at": record.created,
            "vector_store_id": store.id,
            "status": "in_progress" if counts["in_progress"] else ended,
            "file_counts": counts,
        }

    reply = await asyncio.to_thread(work)
    return JSONResponse(reply, headers=_POLL if reply["status"] == "in_progress" else {})


@router.get(_BATCH, summary="Describe a batch", responses=_ONE)
async def get_batch(request: Request, vector_store_id: str, batch_id: str) -> Response:
    return await _batch_reply(request, await _store(request, vector_store_id), batch_id)


@router.get(
    f"{_BATCH}/files",
    summary="List the files of a batch",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL, parameter("filter", "query", {"enum": list(STATES)})),
    responses=_LIST,
)
async def list_batch(request: Request, vector_store_id: str, batch_id: str) -> Response:
    services: Services = request.app.state.services
    store = await _store(request, vector_store_id)
    await asyncio.to_thread(services.vector_stores.batch, store, batch_id)
    return await _members_reply(request, store, batch_id)


@router.post(f"{_BATCH}/cancel", summary="Cancel a batch: files that wait are not read", responses=_CHANGED)
async def cancel_batch(request: Request, vector_store_id: str, batch_id: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    store = await _store(request, vector_store_id)
    _, job_id = await asyncio.to_thread(services.vector_stores.batch, store, batch_id)
    job = await _cancelled(services, job_id, request.state.owner)
    if job:
        await asyncio.to_thread(services.vector_stores.settle, store, "cancelled", batch_id)
    return await _batch_reply(request, store, batch_id)


async def _cancelled(services: Services, job_id: str, owner: str) -> bool:
    """Cancel a job, and return whether it has ended; one that is no longer known has."""
    try:
        job = await services.retrieval.jobs.cancel(job_id, owner)
    except RequestError:
        return True
    return (await services.retrieval.jobs.wait(job, 10.0)).has_ended


@router.post(
    f"{_STORE}/search",
    summary="Search a vector store",
    openapi_extra=Reads(StoreSearchBody),
    responses={200: {"model": dict[str, Any]}, **RETRIEVAL_ERRORS},
)
async def search_store(request: Request, vector_store_id: str) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, StoreSearchBody)
    queries = [body.query] if isinstance(body.query, str) else body.query
    threshold = body.ranking_options.score_threshold if body.ranking_options else 0.0
    passes = None if body.filters is None else parse_filter(body.filters)
    search = FileSearch((vector_store_id,), body.max_num_results, passes, threshold, "vector_store_id")
    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        scope = await scope_of(services, request.state.principal, search)
        chunks = await found_chunks(services, scope, queries)
    return JSONResponse(
        {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": [chunk.as_result(with_content=True) for chunk in chunks],
            "has_more": False,
            "next_page": None,
        }
    )
