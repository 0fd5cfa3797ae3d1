"""Namespaces over HTTP, from their making to their end, against real server processes."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from http_calls import Site
from ncbi_files import pubmed_record, pubmed_set

SETTINGS = {"ARROWHEAD_RETRIEVAL__ENCODER": "hashing", "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap"}
Serve = Callable[..., AbstractContextManager[Any]]


class _Pubmed(BaseHTTPRequestHandler):
    """Three articles for any term; SLOW is found after a while, DOWN never."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if query.get("term") == "SLOW":
            _ended.wait(60)
        if "efetch" in self.path:
            body = pubmed_set(*(pubmed_record(pmid, title=f"On quoll {pmid}.") for pmid in query["id"].split(",")))
        else:
            ids = _found[: int(query["retmax"])]
            found = {"count": str(len(_found)), "retmax": "9999", "retstart": "0", "idlist": ids}
            body = json.dumps({"header": {"type": "esearch", "version": "0.3"}, "esearchresult": found})
        self.send_response(503 if query.get("term") == "DOWN" else 200)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


_found = ["101", "102", "103"]
_ended = threading.Event()


@pytest.fixture(scope="module")
def pubmed() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pubmed)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    _ended.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora") / "namespaces"


@pytest.fixture(scope="module")
def running(serve_with: Serve, pubmed: str, data_dir: Path) -> Iterator[Any]:
    settings = SETTINGS | {
        "ARROWHEAD_NCBI__EUTILS_URL": pubmed,
        "ARROWHEAD_NCBI__RETRIES": "0",
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(data_dir),
        "ARROWHEAD_RETRIEVAL__MAX_UPLOAD_BYTES": "4000000",
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
        "ARROWHEAD_LOG__LEVEL": "DEBUG",
    }
    with serve_with(settings) as server:
        yield server


@pytest.fixture
def site(running: Any) -> Site:
    return Site(running.url)


def pdf(text: str) -> bytes:
    """One page with one line, written by hand."""
    drawn = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode("latin-1"))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(drawn) + drawn + b"\nendstream",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 3 0 R >> >> >>",
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


def snippets(first: int, many: int) -> bytes:
    """Lines of a cut textbook, each a document."""
    rows = (
        {"id": f"Book_{n}", "title": "Book", "content": f"Gene G{n} codes for protein P{n}."}
        for n in range(first, first + many)
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_a_namespace_from_its_making_to_its_end(site: Site, data_dir: Path) -> None:
    """Documents as JSON, Markdown and PDF come in, are found by every retriever, are checked, go, and it with them."""
    site.create("life", chunk_size=500)
    job = site.add("life", {"id": "note-1", "title": "Note", "text": "Wombats dig burrows.", "date": "2020-02"})
    assert (job["kind"], job["result"]["added"]) == ("documents", 1)
    site.done(site.upload("life", "zoo notes.md", b"# Marsupials\n\nKoalas sleep.\n\n## Diet\n\nEucalyptus leaves."))
    site.done(site.upload("life", "quokka.pdf", pdf("Quokkas live on Rottnest Island.")))

    for retriever in ("dense", "bm25", "pes2", "hybrid"):
        for query, title in (("wombats burrows", "Note"), ("eucalyptus", "Marsupials"), ("quokkas rottnest", "quokka")):
            found = site.search(query=query, namespaces=["life"], retriever=retriever, k=1)
            assert [one["title"] for one in found] == [title], (retriever, query)
    dated = site.search(query="wombats koalas quokkas", namespaces=["life"], filter={"date_from": "2020-01-01"})
    assert [one["document_id"] for one in dated] == ["note-1"]
    (page,) = site.search(query="rottnest", namespaces=["life"], k=1)
    assert (page["page"], page["source"]) == (1, "pdf")

    _, told = site.call("GET", "/v1/namespaces/life")
    assert (told["documents"], told["encoder"], told["chunk_size"]) == (3, "hashing", 500)
    assert told["waiting"] == {"vectors": 0, "words": 0, "keywords": 0}
    site.done(site.call("POST", "/v1/namespaces/life/update", {}))
    report = site.done(site.call("POST", "/v1/namespaces/life/verify?wait=30", {}))["result"]
    assert (report["whole"], report["documents"]) == (True, 3)
    removed = site.done(site.call("DELETE", "/v1/namespaces/life/documents", {"ids": ["note-1", "no-such"]}))
    assert removed["result"]["withdrawn"] == 1
    assert all(one["document_id"] != "note-1" for one in site.search(query="wombats", namespaces=["life"]))

    assert site.call("DELETE", "/v1/namespaces/life") == (
        200,
        {"object": "namespace", "name": "life", "deleted": True},
    )
    assert site.call("GET", "/v1/namespaces/life")[0] == 404
    assert not list(data_dir.glob(".uploads-*/*/*")), "files of finished jobs are left"


def test_a_changed_file_takes_the_place_of_the_old_one(site: Site) -> None:
    """By its name; the same content again costs nothing."""
    site.create("files")
    site.done(site.upload("files", "a.txt", b"The first version speaks of numbats."))
    again = site.done(site.upload("files", "a.txt", b"The first version speaks of numbats."))
    assert again["result"]["already"] is True
    site.done(site.upload("files", "a.txt", b"The second version speaks of bilbies."))
    _, told = site.call("GET", "/v1/namespaces/files")
    assert told["documents"] == 1
    (found,) = site.search(query="bilbies", namespaces=["files"])
    assert "second" in found["text"]


def test_a_pubmed_query_fills_a_namespace_and_its_update_fetches_what_is_new(site: Site) -> None:
    """The job tells what it cost and what left this machine; the namespace remembers the query."""
    site.create("papers")
    body = {"term": "quoll", "date_from": "2000-01-31", "limit": 2}
    (told,) = site.done(site.call("POST", "/v1/namespaces/papers/queries", body))["result"]["queries"]
    assert (told["counted"], told["listed"], told["added"]["added"]) == (3, 2, 2)
    assert {one["document_id"] for one in site.search(query="quoll", namespaces=["papers"])} == {"PMID:101", "PMID:102"}
    _, namespace = site.call("GET", "/v1/namespaces/papers")
    (saved,) = namespace["queries"]
    assert (saved["term"], saved["date_from"], saved["limit"], saved["count"]) == ("quoll", "2000/01/31", 2, 3)

    _found.insert(0, "104")
    job = site.done(site.call("POST", "/v1/namespaces/papers/update", {"arrowhead": {"egress": "off"}}))
    (told,) = job["result"]["queries"]
    assert (told["known"], told["added"]["added"]) == (1, 1)
    assert job["result"]["left"] == "no data left this machine"


def test_egress_rules_hold_for_queries(site: Site) -> None:
    """A request cannot raise the mode; an NCBI that fails is told as such, and nothing else is lost."""
    site.create("rules")
    asked = {"term": "quoll", "arrowhead": {"egress": "ncbi"}}
    status, reply = site.call("POST", "/v1/namespaces/rules/queries", asked)
    assert (status, reply["error"]["code"]) == (403, "egress_not_allowed")
    job = site.ended(site.call("POST", "/v1/namespaces/rules/queries", {"term": "DOWN"}))
    assert (job["state"], job["error"]["code"], job["result"]) == ("failed", "ncbi_error", None)
    assert job["progress"]["left"] == "no data left this machine"
    status, reply = site.call("POST", "/v1/namespaces/rules/queries?wait=30", {"term": "DOWN"})
    assert (status, reply["error"]["code"]) == (502, "ncbi_error")


def test_a_query_tells_what_left_the_machine(serve_with: Serve, pubmed: str, tmp_path: Path) -> None:
    """By host and class; prose stays where the profile keeps it, and the job says so."""
    host = "ncbi.example"  # looked up as this machine, by the test run's network block; for the server it is another
    settings = SETTINGS | {
        "NETWORK_BLOCK_HOSTS": host,
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns"),
        "ARROWHEAD_GATEWAY__DATA_DIR": str(tmp_path / "gateway"),
        "ARROWHEAD_NCBI__CACHE_PATH": str(tmp_path / "cache.sqlite"),
        "ARROWHEAD_NCBI__EUTILS_URL": pubmed.replace("127.0.0.1", host),
        "ARROWHEAD_NCBI__BLAST_URL": pubmed.replace("127.0.0.1", host),
        "ARROWHEAD_NCBI__EMAIL": "someone@example.org",
        "ARROWHEAD_EGRESS__MODE": "ncbi",
        "ARROWHEAD_EGRESS__PROFILE": "hospital",
        "ARROWHEAD_AUDIT__PATH": str(tmp_path / "audit.jsonl"),
    }
    with serve_with(settings) as running:
        site = Site(running.url)
        site.create("abroad")
        job = site.done(site.call("POST", "/v1/namespaces/abroad/queries", {"term": "BRCA1"}))
        assert job["result"]["left"] == f"left this machine: id, symbol to {host}"
        prose = {"term": "my patient coughs since Tuesday"}
        job = site.ended(site.call("POST", "/v1/namespaces/abroad/queries", prose))
        assert (job["state"], job["error"]["code"]) == ("failed", "egress_refused")
        assert job["progress"]["left"] == "no data left this machine; withheld: free_text"
        kept = {"term": "BRCA1", "arrowhead": {"egress": "off"}}
        job = site.done(site.call("POST", "/v1/namespaces/abroad/queries", kept))
        assert job["result"]["left"] == "no data left this machine"
        assert "patient" not in running.log()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {line["request_id"][:4] for line in lines if line["event"] == "send"} == {"job-"}


def test_a_query_that_waits_for_its_reply_can_be_cancelled(site: Site) -> None:
    """At once; the namespace is free for the next change."""
    site.create("patience")
    _, job = site.call("POST", "/v1/namespaces/patience/queries", {"term": "SLOW"})
    while site.call("GET", f"/v1/jobs/{job['id']}")[1]["state"] == "queued":
        time.sleep(0.01)
    status, reply = site.call("DELETE", "/v1/namespaces/patience")
    assert (status, reply["error"]["code"]) == (409, "namespace_busy")
    cancelled = site.ended(site.call("DELETE", f"/v1/jobs/{job['id']}"))
    assert (cancelled["state"], cancelled["error"]) == ("cancelled", None)
    assert site.call("DELETE", "/v1/namespaces/patience")[0] == 200


def test_two_uploads_at_once_are_both_there(site: Site) -> None:
    """The second waits for the first; documents keep their numbers."""
    site.create("pair")
    answers: list[tuple[int, Any]] = []

    def send(first: int) -> None:
        answers.append(site.upload("pair", f"book{first}.jsonl", snippets(first, 600)))

    threads = [threading.Thread(target=send, args=(first,)) for first in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [202, 202]
    for answer in answers:
        site.done(answer)
    _, told = site.call("GET", "/v1/namespaces/pair")
    assert (told["documents"], told["waiting"]) == (1200, {"vectors": 0, "words": 0, "keywords": 0})


def test_a_job_can_be_cancelled_and_taken_up_again(site: Site) -> None:
    """One that waits ends at once, one that runs between two steps; what is there is whole."""
    site.create("stopped")
    data = snippets(0, 8000)
    running = site.upload("stopped", "big.jsonl", data)
    waiting = site.upload("stopped", "small.jsonl", snippets(20_000, 2))
    assert waiting[1]["state"] == "queued"
    assert site.call("DELETE", f"/v1/jobs/{waiting[1]['id']}")[1]["state"] == "cancelled"
    assert site.call("DELETE", f"/v1/jobs/{running[1]['id']}")[0] in (200, 202)
    assert site.ended(running)["state"] == "cancelled"
    assert site.done(site.call("POST", "/v1/namespaces/stopped/verify", {}))["result"]["whole"]
    site.done(site.upload("stopped", "big.jsonl", data))
    _, told = site.call("GET", "/v1/namespaces/stopped")
    assert told["documents"] == 8000
    kinds = [job["kind"] for job in site.call("GET", "/v1/jobs")[1]["data"] if job["namespace"] == "stopped"]
    assert kinds == ["file", "verify", "file", "file"]


def test_searches_while_a_job_writes_find_what_was_there(site: Site) -> None:
    """Forty at once, from the first document on; none fails, none loses a passage that was found before."""
    site.create("growing")
    site.create("fresh")
    site.add("growing", {"id": "first", "text": "The thylacine is extinct."})
    jobs = [site.upload(name, "more.jsonl", snippets(0, 3000)) for name in ("growing", "fresh")]
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
    """kill -9 in the middle of a file: its documents are whole, the next change catches up, its copy is swept away."""
    folder = tmp_path / "namespaces"
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder)}
    data = snippets(0, 6000)
    with serve_with(settings) as running:
        site = Site(running.url)
        site.create("killed")
        site.add("killed", {"id": "first", "text": "The thylacine is extinct."})
        _, job = site.upload("killed", "book.jsonl", data)
        while (site.call("GET", f"/v1/jobs/{job['id']}")[1]["progress"] or {"read": 0})["read"] == 0:
            time.sleep(0.01)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(20)
    assert list(folder.glob(".uploads-*/*/book.jsonl"))

    with serve_with(settings) as running:
        site = Site(running.url)
        assert site.call("GET", f"/v1/jobs/{job['id']}")[0] == 404
        _, before = site.call("GET", "/v1/namespaces/killed")
        assert (before["damage"], before["documents"] > 1) == (None, True)
        assert site.search(query="thylacine extinct", retriever="bm25", k=1)[0]["document_id"] == "first"
        site.done(site.call("POST", "/v1/namespaces/killed/update", {}))
        report = site.done(site.call("POST", "/v1/namespaces/killed/verify", {}))["result"]
        assert (report["whole"], report["faults"]) == (True, [])
        assert report["pending"] == {"vectors": 0, "words": 0, "keywords": 0}
        site.done(site.upload("killed", "book.jsonl", data))
        assert site.call("GET", "/v1/namespaces/killed")[1]["documents"] == 6001
        assert not list(folder.glob(".uploads-*/*/book.jsonl"))
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
            assert (status, reply["error"]["code"]) == (429, "queue_full")
        while site.call("POST", "/v1/search", {"query": "file"})[0] == 429:
            time.sleep(0.01)
        while list(folder.glob(".uploads-*/*/a.txt")):
            time.sleep(0.01)
        assert site.call("GET", "/v1/jobs")[1]["data"] == []


def test_a_server_ends_in_the_middle_of_its_jobs(serve_with: Serve, pubmed: str, tmp_path: Path) -> None:
    """One that waits for NCBI and one that writes; files that were sent are gone, the namespaces are whole."""
    folder = tmp_path / "namespaces"
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder), "ARROWHEAD_NCBI__EUTILS_URL": pubmed}
    with serve_with(settings) as running:
        site = Site(running.url)
        for name in ("asks", "writes"):
            site.create(name)
        jobs = [site.call("POST", "/v1/namespaces/asks/queries", {"term": "SLOW"})]
        jobs += [site.upload("writes", "book.jsonl", snippets(0, 6000)) for _ in range(2)]
        while site.call("GET", f"/v1/jobs/{jobs[1][1]['id']}")[1]["state"] == "queued":
            time.sleep(0.01)
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(20)
        assert "Traceback" not in running.log()
    assert not list(folder.glob(".uploads-*"))
    with serve_with(settings) as running:
        site = Site(running.url)
        site.done(site.call("POST", "/v1/namespaces/writes/update", {}))
        assert site.done(site.call("POST", "/v1/namespaces/writes/verify", {}))["result"]["whole"]


def test_a_file_that_cannot_be_read_is_told_without_places(site: Site, running: Any) -> None:
    """The message names the file as the client did; neither it nor the log has a path or the content."""
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
    assert "zebrawort" not in running.log()


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 422, "name"),
        ({"name": "Upper"}, 422, "name"),
        ({"name": "../x"}, 422, "name"),
        ({"name": "wrong", "encoder": "gpt"}, 404, "encoder"),
        ({"name": "wrong", "words": "lucene"}, 422, "words"),
        ({"name": "wrong", "keywords": "yes"}, 422, "keywords"),
        ({"name": "wrong", "chunk_size": 3}, 422, "chunk_size"),
        ({"name": "wrong", "chunk_overlap": 1900}, 422, "chunk_overlap"),
        ({"name": "wrong", "by_section": 1}, 422, "by_section"),
        ({"name": "wrong", "colour": 1}, 422, "colour"),
        ({"name": "wrong", "encoder": "none", "words": "none", "keywords": False}, 422, "encoder"),
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
    serve_with: Serve, tmp_path: Path, setting: dict[str, str], key: str
) -> None:
    """On demand, and by default on an address that other machines reach; searching and listing go on."""
    settings = SETTINGS | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns")} | setting
    flags: tuple[str, ...] = ("--host", "0.0.0.0") if key else ()
    settings |= {"ARROWHEAD_SERVER__API_KEYS": key} if key else {}
    with serve_with(settings, *flags) as running:
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
        assert site.call("GET", "/v1/namespaces") == (200, {"object": "list", "data": []})


def test_jobs_are_those_of_the_key_that_asked(serve_with: Serve, tmp_path: Path) -> None:
    """Another key neither sees nor stops them; namespaces are common."""
    first, second = "first-key-0", "second-key-0"
    settings = SETTINGS | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns"),
        "ARROWHEAD_SERVER__API_KEYS": f"{first},{second}",
    }
    with serve_with(settings) as running:
        mine, theirs = Site(running.url, first), Site(running.url, second)
        mine.create("common")
        job = mine.add("common", {"id": "a", "text": "A word."})
        assert theirs.call("GET", f"/v1/jobs/{job['id']}")[1]["error"]["code"] == "job_not_found"
        assert theirs.call("DELETE", f"/v1/jobs/{job['id']}")[0] == 404
        assert theirs.call("GET", "/v1/jobs")[1]["data"] == []
        assert [one["id"] for one in mine.call("GET", "/v1/jobs")[1]["data"]] == [job["id"]]
        assert theirs.search(query="word")[0]["document_id"] == "a"
