"""The egress service on a Unix socket and on loopback, without audit log: places, bodies, keys, and how it listens."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from ncbi_server import Answer, NcbiServer, Seen
from shipped_data import give_store
from waiting import until

from retrieval.errors import EGRESS_SERVICE_UNAVAILABLE, NcbiError
from retrieval.ncbi.client.service import ServiceClient
from retrieval.observer import NullObserver
from retrieval.types import NcbiCall
from server.observability.metrics import Metrics, watch_service
from server.serving.egress_service import (
    ServiceServer,
    ServiceState,
    create_egress_app,
    listener_of,
    require_protection,
    run_egress_service,
    service_config,
)
from server.settings.loading import SettingsInvalid
from server.settings.schema import Settings
from server.wiring.ncbi import build_egress_service, service_client

KEY = "0123456789abcdef" * 3
FOUND = json.dumps({"header": {}, "esearchresult": {"count": "1", "idlist": ["5699"]}}).encode()
CALL = {"endpoint": "esearch", "params": {"db": "gene", "term": "LMP10"}, "request_id": "a", "key_id": "1a2b3c4d"}


def _answer(seen: Seen) -> Answer:
    return Answer(body=FOUND, hang=seen.params["term"] == "HANG", headers={"Content-Type": "application/json"})


def _search(term: str) -> NcbiCall:
    return NcbiCall("esearch", "gene", {"db": "gene", "term": term})


def _settings(ncbi: str, folder: Path, service: dict[str, Any], key: str | None = None) -> Settings:
    values: dict[str, Any] = {
        "egress": {"mode": "ncbi"} | ({"service_key": key} if key else {}),
        "egress_service": service,
        "ncbi": {"eutils_url": ncbi, "blast_url": ncbi, "email": "a@example.org"},
        "audit": {"path": folder / "audit.jsonl"},
        "gateway": {"data_dir": give_store(folder / "gateway")},
    }
    return Settings(**values)


@dataclass
class Running:
    """A service in this process over a loopback NCBI, which is this machine: nothing is recorded for it."""

    state: ServiceState
    url: str
    ncbi: NcbiServer

    def client(self, key: str | None = None) -> ServiceClient:
        egress: dict[str, Any] = {"mode": "ncbi", "service_url": self.url} | ({"service_key": key} if key else {})
        return service_client(Settings(egress=egress), NullObserver())  # type: ignore[arg-type]


@asynccontextmanager
async def _running(folder: Path, service: dict[str, Any], key: str | None = None) -> AsyncIterator[Running]:
    async with NcbiServer(_answer) as ncbi:
        settings = _settings(ncbi.url, folder, service, key)
        require_protection(settings)
        metrics = Metrics()
        state = ServiceState(build_egress_service(settings, metrics), metrics, key or "", 1)
        watch_service(metrics, state)
        listening: AbstractContextManager[Any] = listener_of(settings.egress_service)
        with listening as listener:
            server = ServiceServer(service_config(state, settings.egress_service), state)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
            path = settings.egress_service.socket
            url = f"unix:{path}" if path else f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Running(state, url, ncbi)
            server.should_exit = True
            await serving


async def test_a_unix_socket_needs_no_key(tmp_path: Path) -> None:
    """Its owner and group may connect; one that a killed process left is replaced, and it is gone at the end."""
    path = tmp_path / "egress.sock"
    path.touch()
    async with _running(tmp_path, {"socket": path}) as running:
        assert stat.S_ISSOCK(path.stat().st_mode) and path.stat().st_mode & 0o777 == 0o660
        client = running.client()
        reply = await client.fetch(_search("LMP10"))
        await client.aclose()
        assert (reply.status, reply.body) == (200, FOUND.decode())
    assert not path.exists()


async def test_what_waits_is_bounded_and_ends_with_its_caller(tmp_path: Path) -> None:
    """One place here: the next call is refused, until the first is given up by the one who waits for it."""
    async with _running(tmp_path, {"port": 0}, KEY) as running:
        client = running.client(KEY)
        first = asyncio.create_task(client.fetch(_search("HANG")))
        while not running.ncbi.seen:  # noqa: ASYNC110  # the double has no event for it
            await asyncio.sleep(0.01)
        with pytest.raises(NcbiError, match="is busy", check=EGRESS_SERVICE_UNAVAILABLE.is_of):
            await client.fetch(_search("LMP10"))
        first.cancel()
        await until(lambda: not running.state.in_flight)
        assert "5699" in (await client.fetch(_search("LMP10"))).body
        await client.aclose()
        assert running.state.refused["busy"] == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoint": "efetch.fcgi"},
        {"params": {"db": "gene", "api_key": "mine"}},
        {"params": {"db": "gene", "Email": "me"}},
        {"params": {"CMD": "Delete"}},
        {"params": {"a b": "c"}},
        {"params": {"term": "x" * 70_000}},
        {"params": {"term": 1}},
        {"key_id": "a whole key"},
        {"request_id": "two words"},
        {"question": "my patient coughs"},
    ],
)
async def test_a_body_that_is_no_call_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    """Without saying what it held; an identity of the caller's is not sent on."""
    async with _served(tmp_path) as client:
        refused = await client.post("/v1/calls", json=CALL | changed, headers={"authorization": f"Bearer {KEY}"})
    assert (refused.status_code, refused.json()) == (400, {"error": {"message": "the body is no call"}})


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Over the application alone, whose NCBI cannot be reached."""
    metrics = Metrics()
    ncbi = build_egress_service(_settings("http://127.0.0.1:9", folder, {}, KEY), metrics)
    state = ServiceState(ncbi, metrics, KEY, 4)
    watch_service(metrics, state)
    transport = httpx.ASGITransport(app=create_egress_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        yield client
    for closer in reversed(ncbi.closers):
        await closer()


async def test_every_route_but_health_asks_for_the_key(tmp_path: Path) -> None:
    """Whatever is sent in its place; with it, the state and the metrics are there."""
    async with _served(tmp_path) as client:
        assert (await client.get("/health")).status_code == 200
        wrong: list[Any] = ["", "Bearer ", f"Basic {KEY}", "Bearer é".encode()]
        for sent in ({"authorization": each} for each in wrong):
            for method, path in (("GET", "/ready"), ("GET", "/metrics"), ("POST", "/v1/calls")):
                assert (await client.request(method, path, headers=sent)).status_code == 403
        right = {"authorization": f"Bearer {KEY}"}
        ready, metrics = await client.get("/ready", headers=right), await client.get("/metrics", headers=right)
    assert (ready.status_code, ready.json()["status"], ready.json()["egress_profile"]) == (200, "ready", "open")
    assert 'arrowhead_egress_service_refusals_total{cause="key"} 12.0' in metrics.text
    assert KEY not in metrics.text and KEY not in ready.text


@pytest.mark.parametrize(
    ("service", "key", "fault"),
    [
        ({"host": "0.0.0.0"}, KEY, "unencrypted"),
        ({"host": "127.0.0.1"}, None, "anyone could use"),
        ({"host": "egress.lab", "certificate": "a.pem", "certificate_key": "a.key"}, None, "anyone could use"),
    ],
)
def test_an_open_address_is_refused(tmp_path: Path, service: dict[str, Any], key: str | None, fault: str) -> None:
    with pytest.raises(SettingsInvalid, match=fault):
        run_egress_service(_settings("http://127.0.0.1:9", tmp_path, service, key))


@pytest.mark.parametrize(
    ("egress", "fault"),
    [
        ({"service_url": "http://egress.lab:8770"}, "unencrypted"),
        ({"service_url": "unix:egress.sock"}, "unix:/PATH"),
        ({"service_url": "https://egress.lab/calls"}, "without a path"),
        ({"service_key": "short"}, "at least 32"),
        ({"service_certificate": "a.pem"}, "service_certificate_key"),
    ],
)
def test_settings_that_would_leak_or_fail_are_refused(egress: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Settings(egress=egress)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"ncbi": {"eutils_url": "http://127.0.0.1:9", "email": "a@example.org"}},
        {"graph": {"spoke_url": "https://spoke.example.org"}},
    ],
)
def test_a_server_with_a_service_sends_nothing_itself(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="egress service"):
        Settings(egress={"mode": "ncbi", "service_url": "unix:/run/egress.sock"}, **other)  # type: ignore[arg-type]
