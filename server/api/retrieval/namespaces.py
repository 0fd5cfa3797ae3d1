"""Serve ``/v1/namespaces``: list, create and delete. Changes of their content are in ``changes``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from retrieval.corpus.chunking import Chunking
from retrieval.corpus.ingest.pubmed_sync import queries_of
from retrieval.corpus.namespaces.registry import TITLE, Description, Namespaces, Sample
from retrieval.corpus.namespaces.settings import NO_WORDS, NamespaceSettings
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceInvalid, NamespaceUnknown
from server.api.declarations import CHANGE_ERRORS, Reads, Reply, errors
from server.api.http_io import read_body
from server.api.retrieval.schemas import NamespaceBody, NoBody, TitleBody
from server.auth.authentication import Principal, require_change
from server.auth.namespace_scopes import owner_metadata
from server.errors import CHANGES_REFUSED, RequestError
from server.evidence.passages import Retrieval
from server.jobs.followed_folders import follows_object
from server.settings.server import is_loopback
from server.wiring.services import Services

router = APIRouter(tags=["Namespaces"])
_NAME_OF_TITLE: Final = 50
_MAX_OF_A_TITLE: Final = 100
_FIELDS = {"size": "chunk_size", "overlap": "chunk_overlap"}


def require_changes(request: Request) -> None:
    """Check that the request may change namespaces.

    Raises:
        RequestError: namespaces are not changed over HTTP, or this key may not change namespaces; the server stops.
    """
    services: Services = request.app.state.services
    services.admission.check()
    if not changes_allowed(services):
        if services.settings.retrieval.allow_changes is None:
            raise RequestError(
                "namespaces are not changed over HTTP on an address that other machines reach", CHANGES_REFUSED
            )
        raise RequestError("namespaces are not changed over HTTP on this server", CHANGES_REFUSED)
    require_change(request.state.principal)


def changes_allowed(services: Services) -> bool:
    """Return whether namespaces may be changed over HTTP, by keys that may."""
    allowed = services.settings.retrieval.allow_changes
    return is_loopback(services.settings.server.host) if allowed is None else allowed


class FollowsReply(Reply):
    """Describe the folder of this server that a namespace follows; only operators are told its whole path."""

    folder: str
    files: int
    waiting: int
    checked: int | None
    problem: str | None


class Namespace(Reply):
    """Describe a namespace; ``sample``: it comes with the package and is not changed."""

    object: Literal["namespace"]
    name: str
    title: str = ""
    sample: bool = False
    follows: FollowsReply | None = None


class NamespaceList(Reply):
    """List the namespaces that the key may read."""

    object: Literal["list"]
    data: list[Namespace]


@router.get("/v1/namespaces", summary="List all namespaces", responses={200: {"model": NamespaceList}, **errors(429)})
async def list_namespaces(request: Request) -> Response:
    services: Services = request.app.state.services
    async with services.admitted(request.state.owner):
        busy = await services.retrieval.jobs.busy()
        found = await services.retrieval.run(lambda: _describe_all(services, request.state.principal, busy))
    return JSONResponse({"object": "list", "data": found})


@router.get(
    "/v1/namespaces/{name}",
    summary="Describe one namespace with its stored queries",
    responses={200: {"model": Namespace}, **errors(404, 422, 429)},
)
async def get_namespace(request: Request, name: str) -> Response:
    """Return the namespace with its stored PubMed queries."""
    services: Services = request.app.state.services
    async with services.admitted(request.state.owner):
        busy = await services.retrieval.jobs.busy()
        work = services.retrieval.run(lambda: _describe_fully(services, request.state.principal, name, busy))
        return JSONResponse(await work)


@router.post(
    "/v1/namespaces",
    summary="Create a namespace",
    status_code=201,
    openapi_extra=Reads(NamespaceBody),
    responses={201: {"model": Namespace}, **CHANGE_ERRORS},
)
async def create_namespace(request: Request) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    body = await read_body(request, NamespaceBody)
    if body.name is None and not any(map(str.isalnum, body.title)):
        raise RequestError("name: a name, or a title with words in it, is needed", param="name")
    settings = _settings_of(services, body)
    retrieval = services.retrieval
    notes = owner_metadata(request.state.principal) | ({TITLE: body.title} if body.title else {})
    name = await retrieval.run(lambda: _created(retrieval.namespaces, body, settings, notes))
    busy = await retrieval.jobs.busy()
    described = await retrieval.run(lambda: _describe(services, request.state.principal, name, busy))
    return JSONResponse(described, status_code=201)


@router.patch(
    "/v1/namespaces/{name}",
    summary="Give a namespace another title",
    openapi_extra=Reads(TitleBody),
    responses={200: {"model": Namespace}, **CHANGE_ERRORS},
)
async def change_namespace(request: Request, name: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    body = await read_body(request, TitleBody)
    retrieval = services.retrieval

    def work() -> None:
        services.access.require(request.state.principal, name)
        retrieval.namespaces.note(name, TITLE, body.title)

    await retrieval.run(work)
    busy = await retrieval.jobs.busy()
    return JSONResponse(await retrieval.run(lambda: _describe(services, request.state.principal, name, busy)))


@router.post(
    "/v1/sample",
    summary="Bring back the notes that come with the package",
    openapi_extra=Reads(NoBody),
    responses={200: {"model": Namespace}, **CHANGE_ERRORS},
)
async def restore_sample(request: Request) -> Response:
    """Return the namespace of the notes, which ``DELETE /v1/namespaces/notes`` removes."""
    services: Services = request.app.state.services
    require_changes(request)
    await read_body(request, NoBody)
    sample = await services.retrieval.run(lambda: services.access.set_sample(request.state.principal, True))
    return JSONResponse(_sample_object(sample))


@router.delete(
    "/v1/namespaces/{name}",
    summary="Delete a namespace with its content",
    responses={200: {"model": Namespace}, **errors(404, 409, 422)},
)
async def delete_namespace(request: Request, name: str) -> Response:
    services: Services = request.app.state.services
    require_changes(request)
    retrieval = services.retrieval
    await retrieval.run(lambda: services.access.require(request.state.principal, name))
    if services.folders.state(name) is not None:
        raise NamespaceInvalid(
            f"{name} follows a folder of this server: take it out of retrieval.folders, and start the server again",
            param="name",
        )
    if name in await retrieval.jobs.busy():
        raise NamespaceBusy(f"namespace {name} has jobs that run or wait: cancel them first", param="name")

    def work() -> None:
        if services.access.has_sample(request.state.principal, name):
            services.access.set_sample(request.state.principal, False)
        else:
            retrieval.namespaces.delete(name)

    await retrieval.run(work)
    return JSONResponse({"object": "namespace", "name": name, "deleted": True})


def _created(namespaces: Namespaces, body: NamespaceBody, settings: NamespaceSettings, notes: Mapping[str, str]) -> str:
    """Create the namespace and return its name: the one that was given, else the first free one of the title.

    Raises:
        NamespaceInvalid, NamespaceBusy
        CorpusError: ``NAMESPACE_EXISTS``, also where there are too many of one title.
    """
    today = datetime.now(UTC).date().isoformat()
    if body.name is not None:
        namespaces.create(body.name, settings, today, notes)
        return body.name
    stem = name_of_title(body.title)
    for number in range(1, _MAX_OF_A_TITLE + 1):
        name = stem if number == 1 else f"{stem}-{number}"
        if namespaces.is_sample(name):
            continue
        try:
            namespaces.create(name, settings, today, notes)
        except CorpusError as error:
            if not NAMESPACE_EXISTS.is_of(error):
                raise
        else:
            return name
    raise CorpusError(
        f"title: there are {_MAX_OF_A_TITLE} namespaces of this title: choose another", NAMESPACE_EXISTS, param="title"
    )


def name_of_title(title: str) -> str:
    """Return a name from the letters of a title that a name may have; "collection" where it has none."""
    letters = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall("[a-z0-9]+", letters))[:_NAME_OF_TITLE].strip("-") or "collection"


def _settings_of(services: Services, body: NamespaceBody) -> NamespaceSettings:
    """Return the settings of a new namespace.

    Raises:
        RequestError: a field is wrong; ``param`` names it.
        ENCODER_UNKNOWN: the server has no such encoder.
        UnsupportedParam: the encoder is remote and token vectors are requested.
    """
    encoder = services.settings.retrieval.encoder if body.encoder is None else body.encoder
    encoder = "" if encoder == "none" else encoder
    if encoder:
        try:
            services.encoders.check(encoder)
        except RequestError as error:
            raise RequestError(error.message, error.fault, param="encoder") from error
        if body.tokens:
            services.encoders.check_tokens(encoder, '"tokens": false')
    if not (encoder or body.words != NO_WORDS):
        raise RequestError("encoder: without vectors and words nothing could be found", param="encoder")
    try:
        chunking = Chunking(size=body.chunk_size, overlap=body.chunk_overlap, by_section=body.by_section)
        return NamespaceSettings(encoder=encoder, words=body.words, tokens=body.tokens, chunking=chunking)
    except NamespaceInvalid as error:
        param = _FIELDS.get(error.param or "", error.param)
        raise RequestError(f"{param}: {error.message}", param=param) from error


def _describe_all(services: Services, principal: Principal, busy: frozenset[str]) -> list[dict[str, Any]]:
    found = []
    sample = services.retrieval.namespaces.sample
    if sample is not None and services.access.has_sample(principal, sample.name):
        found.append(_sample_object(sample))
    for name in services.access.names(principal):
        with suppress(NamespaceUnknown):  # deleted since
            found.append(_describe(services, principal, name, busy))
    return found


def _describe(services: Services, principal: Principal, name: str, busy: frozenset[str]) -> dict[str, Any]:
    found = services.retrieval.namespaces.describe(name)
    return _namespace_object(services.retrieval, found, busy) | _follows(services, principal, name)


def _follows(services: Services, principal: Principal, name: str) -> dict[str, Any]:
    state = services.folders.state(name)
    return {"follows": state and follows_object(state, with_path=principal.is_operator)}


def _describe_fully(services: Services, principal: Principal, name: str, busy: frozenset[str]) -> dict[str, Any]:
    services.access.require(principal, name)
    retrieval = services.retrieval
    sample = retrieval.namespaces.sample
    if sample is not None and services.access.has_sample(principal, name):
        return _sample_object(sample)
    found = retrieval.namespaces.describe(name)
    queries = [] if found.damage else queries_of(retrieval.namespaces, name)
    records = [asdict(saved.query) | {"day": saved.day, "count": saved.count} for saved in queries]
    described = _namespace_object(retrieval, found, busy) | _follows(services, principal, name)
    return described | {"queries": records}


def _sample_object(sample: Sample) -> dict[str, Any]:
    """Return the object of the package's notes without opening them, which may take seconds for the first time."""
    fields = {
        "title": "",
        "sample": True,
        "keywords": True,
        "documents": sample.documents,
        "damage": None,
        "changing": False,
    }
    return {"object": "namespace", "name": sample.name, **fields}


def _namespace_object(retrieval: Retrieval, found: Description, busy: frozenset[str]) -> dict[str, Any]:
    """Return the namespace's object.

    A damaged namespace has only the facts of its folder; ``damage`` is the reason. ``busy`` was determined before the
    namespace was read: one that is not "changing" is shown with all that its jobs have written.
    """
    fields: dict[str, Any] = {
        "object": "namespace",
        "name": found.name,
        "title": found.title,
        "sample": False,
        "created": found.created,
        "bytes": found.bytes_disk,
        "storage": dict(found.storage),
        "damage": retrieval.uploads.conceal(found.damage) or None,
        "changing": found.name in busy,
    }
    if settings := found.settings:
        fields |= {
            "encoder": settings.encoder or "none",
            "words": settings.words,
            "keywords": "words" in settings.targets,
        }
        fields |= {"tokens": settings.tokens, "recall": found.recall}
        fields["encoders"] = [{"encoder": one, "recall": found.recalls.get(one)} for one in settings.encoder_ids]
        chunking = settings.chunking
        fields |= {"chunk_size": chunking.size, "chunk_overlap": chunking.overlap, "by_section": chunking.by_section}
    if counts := found.counts:
        fields |= {"documents": counts.documents, "passages": counts.passages, "twins": counts.twins}
        targets = found.settings.targets if found.settings else ()
        fields["waiting"] = {target: counts.pending[target] for target in targets}
    return fields
