"""The documents of a namespace over HTTP: listed, opened, shown page by page, removed by name."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from corpus_files import pdf, slow_pdf
from http_calls import Site, fetch, namespace_settings

Serve = Callable[..., AbstractContextManager[Any]]
PAPER = "A paper (1).pdf"


@pytest.fixture(scope="module")
def running(host_with: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with host_with(namespace_settings(tmp_path_factory.mktemp("corpora") / "namespaces")) as server:
        yield server


@pytest.fixture(scope="module")
def site(running: Any) -> Site:
    site = Site(running.url)
    site.create("lib")
    site.add("lib", *({"id": f"note/{n}", "title": f"Note {n}", "text": f"Words of note {n}."} for n in range(5)))
    content = pdf("TP53 is a gene.", "BRCA1 is on the second page.", "")
    site.done(site.upload("lib", PAPER, content, wait=60))
    return site


def test_pages_that_take_hours_hold_back_no_search(serve_with: Serve, tmp_path: Path) -> None:
    """A small file whose pages are asked for at once, more than there are search threads: others search meanwhile."""
    settings = namespace_settings(tmp_path / "namespaces") | {
        "ARROWHEAD_SERVER__API_KEYS": "first-key-0,second-key-0",
        "ARROWHEAD_SERVER__SHUTDOWN_GRACE_S": "0.5",
    }
    with serve_with(settings) as running:
        first, second = Site(running.url, "first-key-0"), Site(running.url, "second-key-0")
        first.create("slow")
        first.done(first.upload("slow", "slow.pdf", slow_pdf(12, kind="tiles"), wait=60))
        ended: list[int] = []

        def ask(page: int) -> None:
            with contextlib.suppress(OSError, ValueError):
                ended.append(first.call("GET", f"/v1/namespaces/slow/documents/slow.pdf/pages/{page}.png")[0])

        for page in range(1, 13):
            threading.Thread(target=ask, args=(page,), daemon=True).start()
        time.sleep(1)
        found = [second.search(query="Slow page", namespaces=["slow"]) for _ in range(5)]
        shown = second.call("POST", "/v1/render", {"texts": ["**bold**"]})[0]

        assert all(found) and shown == 200
        assert len(ended) < 12


def test_documents_are_listed_by_page_and_searched_by_name(site: Site) -> None:
    """The newest first; a page tells where the next begins."""
    _, first = site.call("GET", "/v1/namespaces/lib/documents?limit=4")
    assert (first["total"], first["data"][0]["name"], first["data"][0]["title"]) == (6, PAPER, "A paper (1)")
    assert (first["data"][0]["passages"], first["data"][0]["pages"], first["data"][0]["has_file"]) == (2, 2, True)
    _, rest = site.call("GET", f"/v1/namespaces/lib/documents?limit=4&before={first['next']}")
    assert ([one["id"] for one in rest["data"]], rest["next"]) == (["note/1", "note/0"], None)
    _, found = site.call("GET", "/v1/namespaces/lib/documents?query=PAPER%20.pdf")
    assert ([one["name"] for one in found["data"]], found["total"]) == ([PAPER], 1)
    _, found = site.call("GET", "/v1/namespaces/lib/documents?query=note%203")
    assert [one["id"] for one in found["data"]] == ["note/3"]


def test_a_document_is_opened_with_page_and_section_of_each_passage(site: Site) -> None:
    """By its file name or its id, which may have a slash."""
    _, opened = site.call("GET", f"/v1/namespaces/lib/documents/{quote(PAPER)}")
    assert [(one["page"], one["text"]) for one in opened["data"]] == [
        (1, "TP53 is a gene."),
        (2, "BRCA1 is on the second page."),
    ]
    _, again = site.call("GET", f"/v1/namespaces/lib/documents/{opened['id']}?limit=1&offset=1")
    assert ([one["page"] for one in again["data"]], again["has_more"]) == ([2], False)
    _, note = site.call("GET", "/v1/namespaces/lib/documents/note%2F2")
    assert (note["id"], note["has_file"], len(note["data"])) == ("note/2", False, 1)


def test_a_page_is_drawn_and_its_words_have_places(site: Site) -> None:
    """A browser that has the picture is told so."""
    place = f"/v1/namespaces/lib/documents/{quote(PAPER)}"
    shown = fetch(f"{site.url}{place}/pages/2.png?width=300")
    status, picture, headers = shown.status, shown.body, shown.headers
    assert (status, headers["Content-Type"], picture[:8]) == (200, "image/png", b"\x89PNG\r\n\x1a\n")
    assert fetch(f"{site.url}{place}/pages/2.png?width=300", headers={"If-None-Match": headers["ETag"]}).status == 304
    _, text = site.call("GET", f"{place}/pages/2/text")
    assert ([word["text"] for word in text["words"]][:2], text["pages"], text["has_text"]) == (["BRCA1", "is"], 3, True)
    _, empty = site.call("GET", f"{place}/pages/3/text")
    assert (empty["words"], empty["has_text"]) == ([], False)
    file = fetch(f"{site.url}{place}/file")
    assert (file.status, file.body[:5], file.headers["Content-Type"]) == (200, b"%PDF-", "application/pdf")
    assert file.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("path", "status", "param"),
    [
        ("documents/nothing", 404, "document"),
        ("documents/note%2F1/pages/1.png", 404, "document"),
        (f"documents/{quote(PAPER)}/pages/9.png", 404, "page"),
        (f"documents/{quote(PAPER)}/pages/0.png", 422, "page"),
        (f"documents/{quote(PAPER)}/pages/1.png?width=99999", 422, "width"),
        (f"documents/{quote(PAPER)}/pages/x/text", 422, "page"),
        ("documents?limit=0", 422, "limit"),
        ("documents?before=x", 422, "before"),
        ("documents?sort=name", 422, "sort"),
        ("documents/..%2F..%2Fetc%2Fpasswd/file", 404, "document"),
    ],
)
def test_what_is_not_there_or_wrong_is_named(site: Site, path: str, status: int, param: str) -> None:
    """With the field."""
    found, reply = site.call("GET", f"/v1/namespaces/lib/{path}")
    assert (found, reply["error"]["param"]) == (status, param), reply


def test_a_namespace_that_is_not_there_is_named(site: Site) -> None:
    """As everywhere."""
    assert site.call("GET", "/v1/namespaces/none/documents")[0] == 404


def test_a_file_is_replaced_and_removed_by_its_name(site: Site) -> None:
    """Removing it twice is an error, and its pages are gone with it."""
    for words in ("old words", "new words"):
        site.done(site.upload("lib", "b.pdf", pdf(words), wait=60))
    _, opened = site.call("GET", "/v1/namespaces/lib/documents/b.pdf")
    assert [one["text"] for one in opened["data"]] == ["new words"]
    assert site.done(site.call("DELETE", "/v1/namespaces/lib/documents/b.pdf"))["result"]["withdrawn"] == 1
    status, reply = site.call("DELETE", "/v1/namespaces/lib/documents/b.pdf")
    assert (status, reply["error"]["code"]) == (404, "document_not_found")
    assert fetch(f"{site.url}/v1/namespaces/lib/documents/b.pdf/pages/1.png").status == 404


def test_an_upload_without_text_says_what_would_help(site: Site) -> None:
    """Languages are checked before the file is taken."""
    status, reply = site.upload("lib", "c.pdf", pdf("", ""), wait=60)
    assert status == 422 and "ocr=eng" in reply["error"]["message"]
    assert site.upload("lib", "c.pdf", pdf("words"), ocr="e/../g")[1]["error"]["param"] == "ocr"


def test_what_was_not_read_is_told_by_document_and_by_file(site: Site) -> None:
    """A page without text makes its document one that is read in part; a file that is none is listed until it is."""
    site.create("odd")
    site.done(site.upload("odd", PAPER, pdf("TP53 is a gene.", ""), wait=60))
    site.done(site.upload("odd", "b.md", b"# On fever\n\nwords", wait=60))
    assert site.upload("odd", "c.pdf", b"%PDF-1.4 nothing", wait=60)[0] == 422
    _, listed = site.call("GET", "/v1/namespaces/odd/documents")
    shown = [(one["title"], one["status"], one["unread"]) for one in listed["data"]]
    assert shown == [("On fever", "ready", 0), ("A paper (1)", "partly_read", 1)]
    _, unread = site.call("GET", "/v1/namespaces/odd/unread")
    page, file = unread["data"]
    assert (page["file"], page["line"], page["reason"].partition(";")[0]) == (PAPER, None, "page 2: no text")
    assert (file["file"], file["line"], unread["total"]) == ("c.pdf", None, 2)
    assert file["reason"].startswith("the PDF is damaged")

    site.done(site.upload("odd", "c.pdf", pdf("It is whole now."), wait=60))
    assert [one["file"] for one in site.call("GET", "/v1/namespaces/odd/unread")[1]["data"]] == [PAPER]
    assert site.call("DELETE", "/v1/namespaces/odd/unread")[1]["data"] == []
    _, listed = site.call("GET", "/v1/namespaces/odd/documents")
    assert {one["status"] for one in listed["data"]} == {"ready"}


def test_the_storage_of_a_namespace_is_told_by_its_parts(site: Site) -> None:
    """Originals, texts and indices are all of it."""
    _, found = site.call("GET", "/v1/namespaces/lib")
    assert found["storage"].keys() == {"originals", "texts", "indices"}
    assert all(found["storage"].values()) and sum(found["storage"].values()) == found["bytes"]
