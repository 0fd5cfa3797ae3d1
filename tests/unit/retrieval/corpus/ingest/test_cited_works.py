"""What a PDF cites, from a GROBID that answers, is busy, is down, or talks nonsense."""

from __future__ import annotations

import email
import email.policy
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import pdf
from grobid_server import TEI, GrobidServer, serve_grobid

from retrieval.corpus.ingest.add import add_file, remove
from retrieval.corpus.ingest.cited_works import CitedWorks, Grobid, keep_cited_works, parse_tei
from retrieval.corpus.namespaces.originals import CitedWork, Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import DocumentUnreadable
from retrieval.storage.files import digest_file

WORKS = (
    CitedWork(
        title="Protamine and heparin",
        authors=("Quoll AB", "Numbat"),
        container="Neurology",
        year=2018,
        doi="10.1000/x.1",
        pmid="30446595",
        raw="Quoll AB, Numbat. Protamine and heparin. Neurology 91 (2018).",
    ),
    CitedWork(title="A book of wombats", authors=("Bilby",), year=1999),
)


@pytest.fixture
def grobid() -> Iterator[GrobidServer]:
    with serve_grobid() as server:
        yield server


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path / "namespaces", backends(WordEncoder()))
    found.create("ns", NamespaceSettings(encoder="words", words="none", keywords=False))
    return found


@pytest.fixture
def paper(tmp_path: Path, namespaces: Namespaces) -> Path:
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf("Protamine reverses heparin."))
    add_file(namespaces, "ns", path)
    return path


def service(server: GrobidServer, timeout_s: float = 20.0) -> Grobid:
    return Grobid(url=server.url, timeout_s=timeout_s, wait_s=0.01)


def kept(namespaces: Namespaces, path: Path) -> tuple[CitedWork, ...] | None:
    with namespaces.using("ns") as namespace:
        return Originals(namespace.folder).cited_works(f"sha256:{digest_file(path).sha256}")


def test_the_works_of_a_pdf_are_asked_for_once_and_kept(
    grobid: GrobidServer, namespaces: Namespaces, paper: Path
) -> None:
    """By GROBID's form; the file's own description in the header is none of them, nor is an empty entry."""
    assert keep_cited_works(namespaces, "ns", paper, service(grobid)) == CitedWorks(2)
    assert keep_cited_works(namespaces, "ns", paper, service(grobid)) == CitedWorks(2)
    assert kept(namespaces, paper) == WORKS
    assert [work.url for work in WORKS] == ["https://doi.org/10.1000/x.1", ""]
    ((path, kind, body),) = grobid.asked
    assert path == "/api/processReferences"
    form = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=email.policy.HTTP)
    parts = {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
        for part in form.iter_parts()
    }
    assert parts["input"] == paper.read_bytes() and parts["includeRawCitations"] == b"1"


def test_works_go_with_their_document(grobid: GrobidServer, namespaces: Namespaces, paper: Path) -> None:
    """And stay while others go."""
    keep_cited_works(namespaces, "ns", paper, service(grobid))
    other = paper.with_name("other.pdf")
    other.write_bytes(pdf("Warfarin is slow."))
    add_file(namespaces, "ns", other)
    remove(namespaces, "ns", ["other.pdf"])
    assert kept(namespaces, paper) == WORKS
    remove(namespaces, "ns", ["paper.pdf"])
    assert kept(namespaces, paper) is None


@pytest.mark.parametrize(
    ("answers", "count", "fault", "num_asked"),
    [
        ([(204, "")], 0, "", 1),
        ([(503, ""), (503, ""), (200, TEI)], 2, "", 3),
        ([(503, "")], 0, "it is busy", 3),
        ([(500, "[BAD_INPUT_DATA]")], 0, "it answered 500", 1),
        ([(200, "<html>no</html>")], 0, "no TEI", 1),
        ([(200, TEI[:300])], 0, "no TEI", 1),
        ([(200, "<!DOCTYPE a [<!ENTITY b 'c'>]><TEI xmlns='http://www.tei-c.org/ns/1.0'/>")], 0, "declares", 1),
    ],
)
def test_a_service_that_does_not_answer_is_told(
    grobid: GrobidServer, namespaces: Namespaces, paper: Path, answers: list[tuple[int, str]], count: int, fault: str,
    num_asked: int,
) -> None:  # fmt: skip
    """It is asked again only while it is busy; a fault is not kept, so that the next import asks again."""
    grobid.answers = answers
    found = keep_cited_works(namespaces, "ns", paper, service(grobid))
    assert (found.count, fault in found.fault, bool(found.fault)) == (count, True, bool(fault))
    assert len(grobid.asked) == num_asked
    assert (kept(namespaces, paper) is None) == bool(fault)


def test_a_service_that_is_down_or_slow_is_told_in_time(
    grobid: GrobidServer, namespaces: Namespaces, paper: Path
) -> None:
    """With its address."""
    grobid.is_slow = True
    began = time.monotonic()
    slow = keep_cited_works(namespaces, "ns", paper, service(grobid, timeout_s=0.3))
    assert "timed out after 0.3 s" in slow.fault and grobid.url in slow.fault and time.monotonic() - began < 10
    down = keep_cited_works(namespaces, "ns", paper, Grobid(url="http://127.0.0.1:9"))
    assert "http://127.0.0.1:9 cannot be reached" in down.fault


def test_a_file_that_is_no_pdf_is_not_sent(grobid: GrobidServer, namespaces: Namespaces, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("A note.")
    add_file(namespaces, "ns", note)
    assert keep_cited_works(namespaces, "ns", note, service(grobid)) == CitedWorks()
    assert grobid.asked == []


def test_tei_of_another_kind_is_refused() -> None:
    with pytest.raises(DocumentUnreadable, match="no TEI but"):
        parse_tei(b"<TEI/>")
