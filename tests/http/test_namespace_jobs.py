"""Jobs that are stopped, killed, or searched beside, and what is refused of namespaces, against real servers."""

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


def test_a_file_that_cannot_be_read_is_told_without_places(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The message names the file as the client did; neither it nor the log has a path or the content."""
    caplog.set_level("DEBUG")
    site.create("refused")
    for filename, data, code in (
        ("cut.pdf", b"%PDF-1.4 zebrawort-secret", "document_unreadable"),
        ("noise.bin", bytes(range(256)) * 4, "document_unreadable"),
        ("empty words.txt", b"...", "document_unreadable"),
    ):
        job = site.ended(site.upload("refused", filename, data))
        assert (job["state"], job["error"]["code"]) == ("failed", code)
        assert job["error"]["message"].startswith(f"{filename}: ")
        assert "/" not in job["error"]["message"]
    status, _ = site.call("POST", "/v1/search", {"query": "zebrawort-secret", "namespaces": ["refused"]})
    assert status == 200
    site.add("refused", {"id": "zebrawort-secret-id", "text": "zebrawort-secret"})
    said = [record.getMessage() for record in caplog.records if record.name.startswith(("server", "retrieval"))]
    assert said and "zebrawort" not in "".join(said)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 422, "name"),
        ({"name": "Upper"}, 422, "name"),
        ({"name": "../x"}, 422, "name"),
        ({"name": "wrong", "encoder": "gpt"}, 404, "encoder"),
        ({"name": "wrong", "words": "lucene"}, 422, "words"),
        ({"name": "wrong", "chunk_size": 3}, 422, "chunk_size"),
        ({"name": "wrong", "chunk_overlap": 1900}, 422, "chunk_overlap"),
        ({"name": "wrong", "by_section": 1}, 422, "by_section"),
        ({"name": "wrong", "colour": 1}, 422, "colour"),
        ({"name": "wrong", "encoder": "none", "words": "none"}, 422, "encoder"),
    ],
)
def test_a_wrong_namespace_names_its_field(site: Site, body: dict[str, Any], status: int, param: str) -> None:
    """And is not made."""
    code, reply = site.call("POST", "/v1/namespaces", body)
    assert (code, reply["error"]["param"]) == (status, param), reply
    assert "wrong" not in [one["name"] for one in site.call("GET", "/v1/namespaces")[1]["data"]]


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("documents", {"documents": []}, 422, "documents"),
        ("documents", {"documents": [{"id": "a"}]}, 422, "documents[0]"),
        ("documents", {"documents": [{"id": "", "text": "x"}]}, 422, "documents[0].id"),
        ("documents", {"documents": [{"id": "sha256:00", "text": "x"}]}, 422, "documents[0].id"),
        ("documents", {"documents": [{"id": "a", "text": "x", "date": "soon"}]}, 422, "documents[0].date"),
        ("documents", {"documents": [{"id": "a", "text": "x", "url": "javascript:x"}]}, 422, "documents[0].url"),
        ("documents", {"documents": [{"id": "a", "text": "x", "doi": "1"}]}, 422, "documents[0].doi"),
        ("documents?colour=1", {"documents": [{"id": "a", "text": "x"}]}, 422, "colour"),
        ("documents?wait=61", {"documents": [{"id": "a", "text": "x"}]}, 422, "wait"),
        ("documents?wait=nan", {"documents": [{"id": "a", "text": "x"}]}, 422, "wait"),
        ("queries", {"term": " "}, 422, "term"),
        ("queries", {"term": "a", "limit": -1}, 422, "limit"),
        ("queries", {"term": "a", "date_from": "1/2/3"}, 422, "date_from"),
        ("queries", {"term": "a", "date_from": "20210101", "date_to": "20200101"}, 422, "date_from"),
        ("queries", {"term": "a", "arrowhead": {"egress": "all"}}, 422, "arrowhead.egress"),
        ("update", {"all": True}, 422, "all"),
        ("verify", {"all": True}, 422, "all"),
    ],
)
def test_a_wrong_change_names_its_field(site: Site, path: str, body: dict[str, Any], status: int, param: str) -> None:
    """And makes no job."""
    if site.call("GET", "/v1/namespaces/wrongs")[0] == 404:
        site.create("wrongs")
    code, reply = site.call("POST", f"/v1/namespaces/wrongs/{path}", body)
    assert (code, reply["error"]["param"]) == (status, param), reply
    assert site.call("POST", f"/v1/namespaces/nowhere/{path}", body)[0] in (404, 422)
    assert "wrongs" not in [job["namespace"] for job in site.call("GET", "/v1/jobs")[1]["data"]]


def test_an_upload_that_cannot_be_taken_is_refused(site: Site, data_dir: Path) -> None:
    """Names that lead elsewhere, nothing, too much, an unknown reader, and what a form of another site could send."""
    site.create("gate")
    for filename in ("", "../x", "a/b", ".hidden", "x" * 201, "nul\0"):
        status, reply = site.upload("gate", filename, b"x")
        assert (status, reply["error"]["param"]) == (422, "filename"), filename
    assert site.upload("gate", "a.txt", b"")[0] == 422
    assert site.upload("gate", "a.txt", b"x", reader="word")[1]["error"]["param"] == "reader"
    assert site.upload("gate", "a.txt", b"x", colour="red")[1]["error"]["param"] == "colour"
    status, reply = site.upload("gate", "a.txt", b"x" * 4_000_001)
    assert (status, "max_upload_bytes" in reply["error"]["message"]) == (413, True)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert site.send("POST", "/v1/namespaces/gate/files?filename=a.txt", b"x", kind)[0] == 403, kind
    assert site.call("POST", "/v1/namespaces", {"name": "gate"})[1]["error"]["code"] == "namespace_exists"
    assert site.upload("nowhere", "a.txt", b"x")[0] == 404
    site.done(site.send("POST", "/v1/namespaces/gate/files?filename=a.txt", b"A word.", "application/octet-stream"))
    assert not list(data_dir.glob(".uploads-*/*/*"))


@pytest.mark.parametrize(
    ("setting", "key"), [({"ARROWHEAD_RETRIEVAL__ALLOW_CHANGES": "false"}, ""), ({}, "a-long-key")]
)
def test_changes_are_refused_where_they_are_not_allowed(
    host_with: Serve, tmp_path: Path, setting: dict[str, str], key: str
) -> None:
    """On demand, and by default on an address that other machines reach; searching and listing go on."""
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns")} | setting
    settings |= {"ARROWHEAD_SERVER__API_KEYS": key, "ARROWHEAD_SERVER__HOST": "0.0.0.0"} if key else {}
    with host_with(settings) as running:
        site = Site(running.url.replace("0.0.0.0", "127.0.0.1"), key)
        for method, path, body in (
            ("POST", "/v1/namespaces", {"name": "x"}),
            ("DELETE", "/v1/namespaces/x", None),
            ("POST", "/v1/namespaces/x/documents", {"documents": [{"id": "a", "text": "b"}]}),
            ("DELETE", "/v1/namespaces/x/documents", {"ids": ["a"]}),
            ("PUT", "/v1/namespaces/x/files?filename=a.txt", {}),
            ("POST", "/v1/namespaces/x/queries", {"term": "a"}),
            ("POST", "/v1/namespaces/x/update", {}),
            ("POST", "/v1/namespaces/x/verify", {}),
        ):
            status, reply = site.call(method, path, body)
            assert (status, reply["error"]["code"]) == (403, "changes_not_allowed"), path
            assert "retrieval.allow_changes" in reply["error"]["message"]
        assert [one["name"] for one in site.call("GET", "/v1/namespaces")[1]["data"]] == ["notes"]


def test_jobs_are_those_of_the_key_that_asked(host_with: Serve, tmp_path: Path) -> None:
    """Another key neither sees nor stops them; namespaces are common."""
    first, second = "first-key-0", "second-key-0"
    settings = SETTINGS | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns"),
        "ARROWHEAD_SERVER__API_KEYS": f"{first},{second}",
    }
    with host_with(settings) as running:
        mine, theirs = Site(running.url, first), Site(running.url, second)
        mine.create("common")
        job = mine.add("common", {"id": "a", "text": "A word."})
        assert theirs.call("GET", f"/v1/jobs/{job['id']}")[1]["error"]["code"] == "job_not_found"
        assert theirs.call("DELETE", f"/v1/jobs/{job['id']}")[0] == 404
        assert theirs.call("GET", "/v1/jobs")[1]["data"] == []
        assert [one["id"] for one in mine.call("GET", "/v1/jobs")[1]["data"]] == [job["id"]]
        assert theirs.search(query="word")[0]["document_id"] == "a"
