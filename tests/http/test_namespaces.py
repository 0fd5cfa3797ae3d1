"""Namespaces over HTTP, from their making to their end, against a real server process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from corpus_files import pdf
from http_calls import Site, snippets
from ncbi_files import pubmed_record, pubmed_set
from pubmed_server import Pubmed, serve_pubmed
from waiting import wait_until

SETTINGS = {"ARROWHEAD_RETRIEVAL__ENCODERS": "hashing", "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap"}
Serve = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="module")
def pubmed() -> Iterator[Pubmed]:
    with serve_pubmed() as server:
        yield server


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora") / "namespaces"


@pytest.fixture(scope="module")
def running(host_with: Serve, pubmed: Pubmed, data_dir: Path) -> Iterator[Any]:
    settings = SETTINGS | {
        "ARROWHEAD_NCBI__EUTILS_URL": pubmed.url,
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(data_dir),
        "ARROWHEAD_RETRIEVAL__MAX_UPLOAD_BYTES": "4000000",
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
        "ARROWHEAD_LOG__LEVEL": "DEBUG",
    }
    with host_with(settings) as server:
        yield server


@pytest.fixture
def site(running: Any) -> Site:
    return Site(running.url)


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
    assert told["waiting"] == {"vectors": 0, "words": 0}
    site.done(site.call("POST", "/v1/namespaces/life/update", {}))
    report = site.done(site.call("POST", "/v1/namespaces/life/verify?wait=30", {}))["result"]
    assert (report["whole"], report["documents"]) == (True, 3)
    status, refused = site.call("DELETE", "/v1/namespaces/life/documents", {"ids": ["note-1", "no-such"]})
    assert (status, refused["error"]["code"]) == (404, "document_not_found")
    removed = site.done(site.call("DELETE", "/v1/namespaces/life/documents", {"ids": ["note-1"]}))
    assert removed["result"]["withdrawn"] == 1
    assert all(one["document_id"] != "note-1" for one in site.search(query="wombats", namespaces=["life"]))

    assert site.call("DELETE", "/v1/namespaces/life") == (200, {"object": "namespace", "name": "life", "deleted": True})
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


def test_a_pubmed_query_fills_a_namespace_and_its_update_fetches_what_is_new(site: Site, pubmed: Pubmed) -> None:
    """The job tells what it cost and what left this machine; the namespace remembers the query."""
    site.create("papers")
    body = {"term": "quoll", "date_from": "2000-01-31", "limit": 2}
    (told,) = site.done(site.call("POST", "/v1/namespaces/papers/queries", body))["result"]["queries"]
    assert (told["counted"], told["listed"], told["added"]["added"]) == (3, 2, 2)
    assert {one["document_id"] for one in site.search(query="quoll", namespaces=["papers"])} == {"PMID:101", "PMID:102"}
    _, namespace = site.call("GET", "/v1/namespaces/papers")
    (saved,) = namespace["queries"]
    assert (saved["term"], saved["date_from"], saved["limit"], saved["count"]) == ("quoll", "2000/01/31", 2, 3)

    pubmed.found.insert(0, "104")
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


def test_each_file_has_its_result(site: Site) -> None:
    """A file that is cut keeps what came before and says so; the jobs of the others are none the worse."""
    site.create("batch")
    cut = pubmed_set(pubmed_record("71"), pubmed_record("72"))[:-200].encode()
    deep = b"<pmc-articleset>" + b"<a>" * 200_000
    files = {"good.txt": b"Words of a note.", "cut.xml": cut, "deep.xml": deep, "fine.txt": b"Other words."}
    jobs = [site.ended(site.upload("batch", name, data)) for name, data in files.items()]
    assert [
        (job["state"], job["result"]["file"], job["result"]["outcome"], job["result"]["added"]) for job in jobs
    ] == [
        ("done", "good.txt", "added", 1),
        ("failed", "cut.xml", "partial", 1),
        ("failed", "deep.xml", "refused", 0),
        ("done", "fine.txt", "added", 1),
    ]
    assert "it is cut" in jobs[1]["error"]["message"]
    assert "nested more than 200 deep" in jobs[2]["error"]["message"]
    whole = pubmed_set(pubmed_record("71"), pubmed_record("72")).encode()
    again = site.done(site.upload("batch", "cut.xml", whole))["result"]
    assert (again["outcome"], again["added"], again["unchanged"]) == ("added", 1, 1)


def test_a_query_tells_what_left_the_machine(serve_with: Serve, pubmed: Pubmed, tmp_path: Path) -> None:
    """By host and class; prose stays where the profile keeps it, and the job says so."""
    host = "ncbi.example"  # looked up as this machine, by the test run's network block; for the server it is another
    settings = SETTINGS | {
        "NETWORK_BLOCK_HOSTS": host,
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns"),
        "ARROWHEAD_GATEWAY__DATA_DIR": str(tmp_path / "gateway"),
        "ARROWHEAD_NCBI__CACHE_PATH": str(tmp_path / "cache.sqlite"),
        "ARROWHEAD_NCBI__EUTILS_URL": pubmed.url.replace("127.0.0.1", host),
        "ARROWHEAD_NCBI__BLAST_URL": pubmed.url.replace("127.0.0.1", host),
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
    assert (told["documents"], told["waiting"]) == (1200, {"vectors": 0, "words": 0})


def test_a_title_in_any_script_makes_the_name(site: Site) -> None:
    """A name that is taken gets a number; the title can be changed, and needs words."""
    made = [site.call("POST", "/v1/namespaces", {"title": title})[1] for title in ("Über  Herz\n", "Uber Herz", "心脏")]
    assert [(one["name"], one["title"]) for one in made] == [
        ("uber-herz", "Über Herz"), ("uber-herz-2", "Uber Herz"), ("collection", "心脏")
    ]  # fmt: skip
    assert site.call("PATCH", "/v1/namespaces/collection", {"title": "Heart"})[1]["title"] == "Heart"
    assert site.call("POST", "/v1/namespaces", {"title": "…"})[0] == 422
    for one in made:
        assert site.call("DELETE", f"/v1/namespaces/{one['name']}")[0] == 200


def test_the_sample_is_removed_and_brought_back(site: Site) -> None:
    """It is not changed, and is read by its name beside other namespaces."""
    assert site.call("GET", "/v1/namespaces/notes/documents?limit=1")[1]["total"] > 90
    assert site.call("PATCH", "/v1/namespaces/notes", {"title": "Mine"})[0] == 422
    assert site.call("DELETE", "/v1/namespaces/notes")[0] == 200
    assert site.call("GET", "/v1/namespaces/notes")[0] == 404
    assert site.call("POST", "/v1/sample", {})[1]["sample"] is True
    assert site.call("GET", "/v1/namespaces/notes")[1]["documents"] > 90


def test_a_followed_folder_is_told_and_its_namespace_goes_with_the_setting_alone(
    host_with: Serve, tmp_path: Path
) -> None:
    """The namespace is made with the title of the folder; one that is not there is a problem, not an end."""
    folder = tmp_path / "my papers"
    folder.mkdir()
    (folder / "a.md").write_text("# On wombats\n\nWombats dig burrows.")
    settings = SETTINGS | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "namespaces"),
        "ARROWHEAD_RETRIEVAL__FOLDERS": f"papers={folder},gone={tmp_path}/gone",
    }
    with host_with(settings) as server:
        site = Site(server.url)
        wait_until(lambda: site.call("GET", "/v1/namespaces/papers")[1].get("documents"), "the file is read")
        _, found = site.call("GET", "/v1/namespaces/papers")
        assert (found.get("title"), (found.get("follows") or {}).get("folder")) == ("my papers", str(folder)), found
        assert (found["follows"]["files"], found["follows"]["problem"]) == (1, None)
        (listed,) = site.call("GET", "/v1/namespaces/papers/documents")[1]["data"]
        assert (listed["title"], listed["name"]) == ("On wombats", "a.md")
        assert "cannot be read" in site.call("GET", "/v1/namespaces/gone")[1]["follows"]["problem"]
        status, refused = site.call("DELETE", "/v1/namespaces/papers")
        assert (status, "retrieval.folders" in refused["error"]["message"]) == (422, True)
        site.create("own")
        assert site.call("GET", "/v1/namespaces/own")[1]["follows"] is None
