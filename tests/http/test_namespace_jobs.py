"""Jobs that are stopped, killed, or searched beside, against real servers."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from http_calls import SETTINGS, Site, namespace_settings, snippets
from pubmed_server import serve_pubmed

Serve = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora") / "namespaces"


@pytest.fixture(scope="module")
def running(host_with: Serve, data_dir: Path) -> Iterator[Any]:
    with host_with(namespace_settings(data_dir)) as server:
        yield server


@pytest.fixture
def site(running: Any) -> Site:
    return Site(running.url)


def test_a_job_can_be_cancelled_and_taken_up_again(site: Site) -> None:
    """One that waits ends at once, one that runs between two steps; what is there is whole."""
    site.create("stopped")
    data = snippets(0, 3000)
    running = site.upload("stopped", "big.jsonl", data)
    waiting = site.upload("stopped", "small.jsonl", snippets(20_000, 2))
    assert waiting[1]["state"] == "queued"
    assert site.call("DELETE", f"/v1/jobs/{waiting[1]['id']}")[1]["state"] == "cancelled"
    assert site.call("DELETE", f"/v1/jobs/{running[1]['id']}")[0] in (200, 202)
    assert site.ended(running)["state"] == "cancelled"
    assert site.done(site.call("POST", "/v1/namespaces/stopped/verify", {}))["result"]["whole"]
    site.done(site.upload("stopped", "big.jsonl", data))
    _, told = site.call("GET", "/v1/namespaces/stopped")
    assert told["documents"] == 3000
    kinds = [job["kind"] for job in site.call("GET", "/v1/jobs")[1]["data"] if job["namespace"] == "stopped"]
    assert kinds == ["file", "verify", "file", "file"]


def test_searches_while_a_job_writes_find_what_was_there(site: Site) -> None:
    """Forty at once, from the first document on; none fails, none loses a passage that was found before."""
    site.create("growing")
    site.create("fresh")
    site.add("growing", {"id": "first", "text": "The thylacine is extinct."})
    jobs = [site.upload(name, "more.jsonl", snippets(0, 1500)) for name in ("growing", "fresh")]
    failures: list[Any] = []

    def ask(retriever: str) -> None:
        for name, expected in (("growing", ["first"]), ("fresh", None)):
            body = {"query": "thylacine extinct", "namespaces": [name], "retriever": retriever, "k": 1}
            status, reply = site.call("POST", "/v1/search", body)
            found = [one["document_id"] for one in reply["data"]] if status == 200 else []
            if status != 200 or (expected and found != expected):
                failures.append((name, retriever, status, reply))

    while jobs:
        threads = [threading.Thread(target=ask, args=(("dense", "bm25", "pes2", "hybrid")[n % 4],)) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        jobs = [
            job for job in jobs if site.call("GET", f"/v1/jobs/{job[1]['id']}")[1]["state"] in ("queued", "running")
        ]


def test_a_killed_server_leaves_a_whole_namespace(serve_with: Serve, tmp_path: Path) -> None:
    """kill -9 in the middle of a file, a second job waiting: the next start goes on with both, and sweeps up."""
    folder = tmp_path / "namespaces"
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder)}
    data = snippets(0, 3000)
    with serve_with(settings) as running:
        site = Site(running.url)
        site.create("killed")
        site.add("killed", {"id": "first", "text": "The thylacine is extinct."})
        _, job = site.upload("killed", "book.jsonl", data)
        _, waiting = site.call(
            "POST", "/v1/namespaces/killed/documents?wait=0", {"documents": [{"id": "last", "text": "So is the dodo."}]}
        )
        while (site.call("GET", f"/v1/jobs/{job['id']}")[1]["progress"] or {"read": 0})["read"] == 0:
            time.sleep(0.01)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(120)
    assert list(folder.glob(".jobs/*/upload/book.jsonl"))
    (folder / ".gone.build-killed" / "deleted").mkdir(parents=True)
    (folder / ".gone.lock").touch()

    with serve_with(settings) as running:
        site = Site(running.url)
        assert not (folder / ".gone.build-killed").exists()
        assert site.call("GET", f"/v1/jobs/{job['id']}")[0] == 200
        _, before = site.call("GET", "/v1/namespaces/killed")
        assert (before["damage"], before["documents"] > 1) == (None, True)
        assert site.search(query="thylacine extinct", retriever="bm25", k=1)[0]["document_id"] == "first"
        for accepted in (job, waiting):
            assert site.done((202, accepted))["state"] == "done"
        assert site.call("GET", "/v1/namespaces/killed")[1]["documents"] == 3002
        report = site.done(site.call("POST", "/v1/namespaces/killed/verify", {}))["result"]
        assert (report["whole"], report["faults"]) == (True, [])
        assert report["pending"] == {"vectors": 0, "words": 0}
        assert not list(folder.glob(".jobs/*/upload"))
    assert not list(folder.glob(".uploads-*"))


def test_a_client_that_goes_away_gives_its_place_back(serve_with: Serve, tmp_path: Path) -> None:
    """Half a file holds the only place as long as its client is there, and leaves nothing behind."""
    folder = tmp_path / "namespaces"
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder), "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "1"}
    with serve_with(settings) as running:
        site = Site(running.url)
        site.create("half")
        address = urlsplit(running.url)
        path = "/v1/namespaces/half/files?filename=a.txt"
        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head.encode() + b"Half a file.")
            while not list(folder.glob(".uploads-*/*/a.txt")):
                time.sleep(0.01)
            status, reply = site.call("POST", "/v1/search", {"query": "file"})
            assert (status, reply["error"]["code"]) == (429, "server_overloaded")
        while site.call("POST", "/v1/search", {"query": "file"})[0] == 429:
            time.sleep(0.01)
        while list(folder.glob(".uploads-*/*/a.txt")):
            time.sleep(0.01)
        assert site.call("GET", "/v1/jobs")[1]["data"] == []


def test_a_server_ends_in_the_middle_of_its_jobs(serve_with: Serve, tmp_path: Path) -> None:
    """One that waits for NCBI and one that writes; the next start goes on with them, the namespaces are whole."""
    folder = tmp_path / "namespaces"
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder)}
    with serve_pubmed() as pubmed, serve_with(settings | {"ARROWHEAD_NCBI__EUTILS_URL": pubmed.url}) as running:
        site = Site(running.url)
        for name in ("asks", "writes"):
            site.create(name)
        jobs = [site.call("POST", "/v1/namespaces/asks/queries", {"term": "SLOW"})]
        jobs += [site.upload("writes", "book.jsonl", snippets(0, 3000)) for _ in range(2)]
        while site.call("GET", f"/v1/jobs/{jobs[1][1]['id']}")[1]["state"] == "queued":
            time.sleep(0.01)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0
        assert "Traceback" not in running.log()
    assert not list(folder.glob(".uploads-*"))
    with serve_with(settings) as running:
        site = Site(running.url)
        assert [site.done(job)["result"]["file"] for job in jobs[1:]] == ["book.jsonl"] * 2
        assert site.call("GET", "/v1/namespaces/writes")[1]["documents"] == 3000
        assert site.done(site.call("POST", "/v1/namespaces/writes/verify", {}))["result"]["whole"]
