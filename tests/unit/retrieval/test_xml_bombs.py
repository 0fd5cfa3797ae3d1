"""Five hostile documents against every place that takes XML: nothing is read, nothing fetched, nothing blown up."""

from __future__ import annotations

import gzip
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from corpus_files import CHAPTER, jats
from ncbi_files import items, pubmed_record, pubmed_set, saved

from models.errors import ArrowheadError
from retrieval.corpus.readers.registry import READERS, guess_reader
from retrieval.errors import NCBI_MALFORMED, DocumentUnreadable, NcbiError
from retrieval.ncbi.calls.urls import parse_call_url
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.types import RawReply

SECRET = "the-secret-of-another-file"
_MOST_BYTES = 128 * 2**20
_LAUGHS = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
DECLARED = {
    "a file": '[<!ENTITY x SYSTEM "file://{secret}">]',
    "an address": '[<!ENTITY x SYSTEM "http://127.0.0.1:{port}/x">]',
    "a document type elsewhere": 'SYSTEM "http://127.0.0.1:{port}/x.dtd"',
    "a parameter entity": '[<!ENTITY % p SYSTEM "http://127.0.0.1:{port}/p.dtd"> %p;]',
    "a billion laughs": f"[{_LAUGHS}<!ENTITY x '&a11;'>]",
    "one long entity": "[<!ENTITY x '" + "y" * 100_000 + "'>]",
}
GENE_SUMMARY = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=gene&id=1"


def _chapter(text: str) -> str:
    return CHAPTER[CHAPTER.index("<book-part-wrapper") :].replace("First step", text)


def _read(reader: str) -> Callable[[Path], object]:
    return lambda path: list(READERS[reader](path))


def _reply(path: Path) -> object:
    raw = RawReply(body=path.read_text(), content_type="text/xml", status=200, num_bytes=path.stat().st_size)
    return parse_reply(parse_call_url(GENE_SUMMARY), raw)


# What takes XML: its root element, a document of it with some text, and how it is read.
TAKERS: dict[str, tuple[str, Callable[[str], str], Callable[[Path], object]]] = {
    "reader of PubMed": ("PubmedArticleSet", lambda t: pubmed_set(pubmed_record(title=t)), _read("pubmed")),
    "reader of PMC": ("article", lambda t: jats(body=f"<p>{t}</p>"), _read("pmc")),
    "reader of StatPearls": ("book-part-wrapper", _chapter, _read("statpearls")),
    "reader of BioC": (
        "collection",
        lambda t: f"<collection><document><id>1</id><passage><text>{t}</text></passage></document></collection>",
        _read("bioc"),
    ),
    "reader of HTML": ("html", lambda t: f"<html><body><p>{t}</p></body></html>", _read("html")),
    "import of PubMed": (
        "PubmedArticleSet",
        lambda t: pubmed_set(pubmed_record(title=t)),
        lambda path: list(items("pubmed", path)),
    ),
    "import of PMC": ("article", lambda t: jats(body=f"<p>{t}</p>"), lambda path: list(items("pmc", path))),
    "reply of NCBI": (
        "eSearchResult",
        lambda t: f"<eSearchResult><Count>1</Count><IdList><Id>{t}</Id></IdList></eSearchResult>",
        _reply,
    ),
}


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """Where nobody may come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        yield listener


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("bomb", DECLARED)
def test_what_a_document_declares_is_not_followed(tmp_path: Path, trap: socket.socket, taker: str, bomb: str) -> None:
    """It is refused, or read without it."""
    root, build, read = TAKERS[taker]
    secret = saved(tmp_path / "secret.txt", SECRET)
    declared = DECLARED[bomb].replace("{secret}", str(secret)).replace("{port}", str(trap.getsockname()[1]))
    text = "&x;" * (2000 if bomb == "one long entity" else 1) if "ENTITY x" in declared else "plain"
    path = saved(tmp_path / "file.xml", f'<?xml version="1.0"?>\n<!DOCTYPE {root} {declared}>\n{build(text)}')
    tracemalloc.start()
    try:
        found = repr(read(path))
    except (ArrowheadError, ValueError) as error:
        found = str(error)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert SECRET not in found
    assert most < _MOST_BYTES
    with pytest.raises(TimeoutError):
        trap.accept()


def _bomb(bomb: str, root: str, content: str) -> str:
    declared = DECLARED[bomb].replace("{secret}", "/etc/hostname").replace("{port}", "9")
    return f'<?xml version="1.0"?>\n<!-- a comment -->\n<!DOCTYPE {root} {declared}>\n{content}'


INTERNAL = [name for name in DECLARED if "[" in DECLARED[name]]
FORMS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": str.encode,
    "UTF-8 with a mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.replace("?>", ' encoding="UTF-16LE"?>', 1).encode("utf-16-le"),
    "gzip": lambda text: gzip.compress(text.encode()),
    "behind a long comment": lambda text: text.replace("a comment", "x" * 300_000, 1).encode(),
}


@pytest.mark.parametrize(
    ("reader", "form"), [*((name, "UTF-8") for name in READERS), *(("pmc", name) for name in FORMS)]
)
@pytest.mark.parametrize("bomb", INTERNAL)
def test_every_reader_refuses_declarations(tmp_path: Path, bomb: str, reader: str, form: str) -> None:
    """Whatever reader is chosen for whatever XML, the one for plain text too, and in each encoding."""
    path = tmp_path / "file.xml"
    path.write_bytes(FORMS[form](_bomb(bomb, "article", jats(body="<p>&x;</p>"))))

    with pytest.raises(DocumentUnreadable):
        list(READERS[reader](path))
    with pytest.raises(DocumentUnreadable):
        guess_reader(path)


@pytest.mark.parametrize("bomb", INTERNAL)
def test_replies_that_declare_entities_are_refused(tmp_path: Path, bomb: str) -> None:
    """Not read without them."""
    root, build, read = TAKERS["reply of NCBI"]
    path = saved(tmp_path / "file.xml", _bomb(bomb, root, build("x")))
    with pytest.raises((ArrowheadError, ValueError), match="declares"):
        read(path)


def test_summaries_behind_a_declaration_are_refused() -> None:
    """Each summary is parsed by itself, so the declaration before them must be looked for first."""
    summary = '<eSummaryResult><DocumentSummary uid="1"><Name>x</Name></DocumentSummary></eSummaryResult>'
    body = _bomb("a billion laughs", "eSummaryResult", summary)
    with pytest.raises(NcbiError, match="declares entities", check=NCBI_MALFORMED.is_of):
        parse_reply(parse_call_url(GENE_SUMMARY), RawReply(200, "text/xml", body, len(body)))


def test_a_blast_reply_with_declarations_is_refused() -> None:
    """Before Biopython sees it."""
    with pytest.raises(NcbiError, match="declares entities", check=NCBI_MALFORMED.is_of):
        parse_blast(_bomb("a file", "BlastOutput", "<BlastOutput></BlastOutput>"))


@pytest.mark.parametrize("taker", TAKERS)
def test_the_documents_without_a_bomb_are_taken(tmp_path: Path, taker: str) -> None:
    """Or nothing was tested."""
    root, build, read = TAKERS[taker]
    path = saved(tmp_path / "file.xml", f'<?xml version="1.0"?>\n{build("zebrawort")}')

    assert root in path.read_text()
    assert "zebrawort" in repr(read(path))
