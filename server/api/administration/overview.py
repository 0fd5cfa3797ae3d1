"""Serve ``/v1/admin/overview``: where calls go, jobs of all keys, storage and models; and ``DELETE /v1/admin/jobs/ID``.

Texts of questions and documents are in none of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from retrieval.errors import NamespaceUnknown
from retrieval.ncbi.calls.urls import NcbiSite
from server.api.declarations import Reply, errors
from server.auth.authentication import OPERATOR, require_administration
from server.egress.policy import NOTHING_LEFT, EgressPolicy
from server.errors import JOB_UNKNOWN, RequestError
from server.evidence.collections import collections
from server.jobs.queue import JobStatus
from server.settings.loading import audit_path, gateway_dir, graphs_dir, models_dir, namespaces_dir
from server.settings.schema import Settings
from server.types import id_of_digest
from server.wiring.models import find_cards
from server.wiring.services import Services

router = APIRouter(tags=["Administration"])
_MAX_JOBS: Final = 100
_SHOWN_OF_JOB: Final = ("id", "kind", "namespace", "state", "cancelling", "created", "started", "finished")


class Overview(Reply):
    """Describe what the server uses; sizes are bytes, ``key_id`` is "" for the operator."""

    object: Literal["overview"]
    egress: dict[str, Any]
    queue: dict[str, int]
    jobs: list[dict[str, Any]]
    storage: list[dict[str, Any]]
    free_bytes: int
    namespaces: list[dict[str, Any]]
    models: list[dict[str, Any]]


class AdministeredJob(Reply):
    """Describe a job of any key."""

    id: str
    state: str


@router.get(
    "/v1/admin/overview",
    summary="Describe egress, jobs of all keys, storage and models",
    responses={200: {"model": Overview}, **errors(429)},
)
async def get_overview(request: Request) -> Response:
    """Return the state of the server for its administrators; names and sizes of all namespaces are in it."""
    services: Services = request.app.state.services
    require_administration(request.state.principal)
    jobs = await services.retrieval.jobs.of(None)
    namespaces = await services.retrieval.run(lambda: _namespaces(services))
    of_disk = await services.compute(request.state.owner, lambda: _of_disk(services))
    fields: dict[str, Any] = {
        "object": "overview",
        "egress": _egress(services),
        "queue": {"running": services.in_flight, "waiting": services.admission.waiting},
        "jobs": [_job(job) for job in jobs[:_MAX_JOBS]],
        **of_disk,
        "namespaces": namespaces,
    }
    return JSONResponse(fields, headers={"Cache-Control": "no-store"})


@router.delete(
    "/v1/admin/jobs/{job_id}",
    summary="Cancel a job of any key",
    responses={200: {"model": AdministeredJob}, **errors(404)},
)
async def cancel_job(request: Request, job_id: str) -> Response:
    services: Services = request.app.state.services
    require_administration(request.state.principal)
    jobs = services.retrieval.jobs
    found = next((job for job in await jobs.of(None) if job.id == job_id), None)
    if found is None:
        raise RequestError("there is no such job, or it is no longer kept", JOB_UNKNOWN)
    return JSONResponse(_job(await jobs.cancel(job_id, found.spec.owner)))


def _egress(services: Services) -> dict[str, Any]:
    egress = services.egress
    policy = egress.policy if egress else EgressPolicy.of(services.settings.egress)
    site = egress.site_of("ncbi") if egress else NcbiSite()
    return {
        "mode": policy.mode,
        "profile": policy.profile,
        "allows": list(policy.allowed),
        "hosts": [{"host": host, "for": purpose} for host, purpose in hosts(services.settings, site)],
        "left": egress.left_by("") if egress else NOTHING_LEFT,
    }


def hosts(of: Settings, site: NcbiSite) -> list[tuple[str, str]]:
    """Return the hosts that a server calls, with what for; those of ``site`` only where the mode permits calls."""
    found: list[tuple[str, str]] = []
    if of.egress.mode != "off":
        service = of.egress.service_host
        addresses = (site.eutils_url, site.blast_url)
        fetched = (one.download for one in collections() if one.download)
        found += [(service, "egress")] if service else [(_host(url), "ncbi") for url in (*addresses, *fetched)]
    of_services = (
        (of.graph.spoke_url, "graph"),
        (of.model.url, "model"),
        *((url, "encoder") for url in of.retrieval.remote_encoders.values()),
        (of.state.url.get_secret_value() if of.state.url else None, "state"),
        (of.tracing.endpoint, "tracing"),
        (of.model.hub_url if of.model.allow_download else None, "hub"),
    )
    found += [(_host(url), purpose) for url, purpose in of_services if url]
    return list(dict.fromkeys(found))


def _host(url: str) -> str:
    """Return host and port of an address, without user and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _job(job: JobStatus) -> dict[str, Any]:
    told = job.as_dict()
    error = (told["error"] or {}).get("code")
    return {name: told[name] for name in _SHOWN_OF_JOB} | {"key_id": id_of_digest(job.spec.owner), "error": error}


def _of_disk(services: Services) -> dict[str, Any]:
    return {**disk_use(services.settings), "models": list(_models(services))}


def disk_use(settings: Settings) -> dict[str, Any]:
    """Return the sizes of the data folders, and what is free where the namespaces lie."""
    folders = {
        "namespaces": namespaces_dir(settings),
        "models": models_dir(settings),
        "gateway": gateway_dir(settings),
        "graphs": graphs_dir(settings),
        "audit": audit_path(settings),
    }
    place = next(path for path in (folders["namespaces"], *folders["namespaces"].parents) if path.exists())
    storage = [{"name": name, "bytes": _size(path)} for name, path in folders.items()]
    return {"storage": storage, "free_bytes": shutil.disk_usage(place).free}


def _size(path: Path) -> int:
    """Return the bytes of a file or of all files in a folder, without those that go away meanwhile."""
    size = 0
    for file in _files(path):
        try:
            size += file.lstat().st_size
        except OSError:
            continue
    return size


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in names)


def _namespaces(services: Services) -> list[dict[str, Any]]:
    found = []
    for name in services.access.names(OPERATOR):
        try:
            told = services.retrieval.namespaces.describe(name)
        except NamespaceUnknown:  # deleted since
            continue
        found.append(
            {
                "name": name,
                "title": told.title,
                "documents": told.counts.documents if told.counts else None,
                "bytes": told.bytes_disk,
                "key_id": id_of_digest(services.access.owner(name)),
            }
        )
    return found


def _models(services: Services) -> Iterator[dict[str, Any]]:
    """Yield the served model, the others that are installed, the encoders and the verifier."""
    served, chosen = services.lifecycle.card, services.settings.retrieval
    yield {"name": served.name, "use": "served", "licence": served.licence}
    for card in find_cards(services.settings):
        if card.name != served.name:
            yield {"name": card.name, "use": "installed", "licence": card.licence}
    for name in chosen.encoder_names:
        yield {"name": name, "use": "encoder", "licence": ""}
    if chosen.cross_encoder:
        yield {"name": chosen.cross_encoder, "use": "cross_encoder", "licence": ""}
    yield {"name": services.settings.verifier.model or "", "use": "verifier", "licence": ""}
