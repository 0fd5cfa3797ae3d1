"""What administrators see of a server: where its calls go, jobs and namespaces of all keys, storage, models."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from in_process import OPERATOR, Site, served

from retrieval.ncbi.calls.urls import NcbiSite
from server.api.administration.overview import disk_use, hosts
from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey
from server.jobs.queue import Job, JobSpec, Outcome
from server.settings.schema import Settings
from server.types import key_digest, key_id

OVERVIEW = "/v1/admin/overview"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("overview")
    async with served(folder, {"server": {"api_keys": (OPERATOR,)}}) as made:
        made.keys["anna"] = FileKeyStore(folder / "keys.json").create(NewKey(name="anna"))[0]
        yield made


async def overview(site: Site) -> dict[str, Any]:
    status, told = await site.json("GET", OVERVIEW, "operator")
    assert status == 200
    return dict(told)


async def test_namespaces_of_every_key_are_told_with_their_size(site: Site) -> None:
    """Names, sizes and owners; the operator's have none."""
    for who, name in (("anna", "annas"), ("operator", "shared")):
        assert (await site.json("POST", "/v1/namespaces", who, {"name": name, "title": f"Of {who}"}))[0] == 201
    told = (await overview(site))["namespaces"]

    assert [(one["name"], one["title"], one["documents"], one["key_id"]) for one in told] == [
        ("annas", "Of anna", 0, key_id(site.keys["anna"])), ("shared", "Of operator", 0, ""),
    ]  # fmt: skip
    assert all(one["bytes"] > 0 for one in told)


async def test_a_job_of_another_key_is_seen_and_stopped(site: Site) -> None:
    """With the key that began it, and nothing of what it works on but the namespace."""
    stop = threading.Event()

    def work(job: Job) -> Outcome:
        job.on_cancel(stop.set)
        stop.wait(60)
        return Outcome({}, cancelled=True)

    jobs = site.app.state.services.retrieval.jobs
    job = await jobs.submit(JobSpec("file", "annas", key_digest(site.keys["anna"])), work)
    (told,) = (await overview(site))["jobs"]
    assert (told["id"], told["kind"], told["namespace"]) == (job.id, "file", "annas")
    assert told["key_id"] == key_id(site.keys["anna"]) and told["state"] in ("queued", "running")
    status, cancelled = await site.json("DELETE", f"/v1/admin/jobs/{job.id}", "operator")
    assert (status, cancelled["id"]) == (200, job.id)
    assert (await jobs.wait(job, 60)).state == "cancelled"
    status, told = await site.json("DELETE", "/v1/admin/jobs/job-0", "operator")
    assert (status, told["error"]["code"]) == (404, "job_not_found")


async def test_storage_is_counted(site: Site) -> None:
    """Of each folder with all below it; what does not exist has no bytes."""
    settings = site.app.state.services.settings
    (settings.graph.data_dir / "deep").mkdir(parents=True, exist_ok=True)
    before = {one["name"]: one["bytes"] for one in disk_use(settings)["storage"]}
    (settings.graph.data_dir / "deep" / "file").write_bytes(b"x" * 1000)
    told = await overview(site)

    after = {one["name"]: one["bytes"] for one in told["storage"]}
    assert after["graphs"] == before["graphs"] + 1000
    assert after["models"] == 0 and told["free_bytes"] > 0


async def test_the_served_model_and_its_helpers_are_named(site: Site) -> None:
    told = (await overview(site))["models"]
    assert [(one["name"], one["use"]) for one in told] == [
        ("scripted", "served"), ("hashing", "encoder"), ("", "verifier"),
    ]  # fmt: skip


async def test_a_server_that_sends_nothing_calls_no_host(site: Site) -> None:
    told = (await overview(site))["egress"]
    assert (told["mode"], told["hosts"], told["left"]) == ("off", [], "no data left this machine")


async def test_every_host_is_named_with_what_for() -> None:
    """Without user and password of an address; those of NCBI where the mode permits calls."""
    settings = Settings.model_validate(
        {
            "egress": {"mode": "local-first"},
            "ncbi": {"email": "a@b.example"},
            "tracing": {"endpoint": "http://127.0.0.1:4318"},
            "graph": {"spoke_url": "https://spoke.example"},
            "state": {"url": "postgresql://user:secret@db.example:5432/arrowhead?sslmode=verify-full"},
        }
    )
    assert hosts(settings, NcbiSite()) == [
        ("eutils.ncbi.nlm.nih.gov", "ncbi"), ("blast.ncbi.nlm.nih.gov", "ncbi"),
        ("ftp.ncbi.nlm.nih.gov", "ncbi"), ("spoke.example", "graph"), ("db.example:5432", "state"),
        ("127.0.0.1:4318", "tracing"),
    ]  # fmt: skip
    service = {"mode": "local-first", "service_url": "https://egress.example", "service_key": "k" * 32}
    settings = Settings.model_validate({"egress": service, "ncbi": {"email": "a@b.example"}})
    assert hosts(settings, NcbiSite()) == [("egress.example", "egress")]
