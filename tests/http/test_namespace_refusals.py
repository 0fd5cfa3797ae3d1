"""What is refused of namespaces over HTTP, and how it is said, against real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import SETTINGS, Site, namespace_settings

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
