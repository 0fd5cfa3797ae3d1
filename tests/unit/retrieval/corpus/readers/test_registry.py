"""Plain texts, and the guess which reader a file needs."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import docx
import pytest
from corpus_files import CHAPTER, jats, json_lines, parsed_documents, pdf, slices
from gateway_records import FULL_TEXT
from ncbi_files import pubmed_record, pubmed_set, saved

from retrieval.corpus.readers import plain
from retrieval.corpus.readers.guess import FORMS
from retrieval.corpus.readers.office.package import ARCHIVE
from retrieval.corpus.readers.registry import READERS, guess_reader, reader
from retrieval.errors import DocumentUnreadable


def test_markdown_headings_are_sections_but_not_in_code(tmp_path: Path) -> None:
    """The first heading of level 1 is the title and no section of its own."""
    text = "# Notes\n\nStart.\n\n## Doses\n5 mg\n### Child\n2 mg\n```sh\n# no heading\n```\n## End ##\nDone.\n"
    (found,) = parsed_documents(list(plain.read(saved(tmp_path / "notes.md", text))))
    assert found.document.title == "Notes"
    assert slices(found) == [
        ("", "Start."),
        ("Doses", "5 mg"),
        ("Doses > Child", "2 mg\n```sh\n# no heading\n```"),
        ("End", "Done."),
    ]


def test_without_a_heading_of_level_one_the_first_is_the_title(tmp_path: Path) -> None:
    """It stays a section."""
    (found,) = parsed_documents(list(plain.read(saved(tmp_path / "paper.md", "## Doses\n5 mg\n## End\nDone.\n"))))
    assert found.document.title == "Doses"


@pytest.mark.parametrize("data", [b"\xff\xfea", b"\x7fELF\x01\xff\x02", b"a\0b", b"\n \n", b"\xa4"])
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    """Half of a character, a program, NULs, nothing, a sign."""
    with pytest.raises(DocumentUnreadable):
        list(plain.read(saved(tmp_path / "a.txt", data)))


def test_a_text_keeps_its_case_and_its_file_is_its_id(tmp_path: Path) -> None:
    """CR LF is read as LF, a byte order mark is dropped."""
    (found,) = parsed_documents(list(plain.read(saved(tmp_path / "Note.txt", b"\xef\xbb\xbfTP53\r\nand IL-6"))))
    assert found.text == "TP53\nand IL-6"
    assert found.document.document_id.startswith("sha256:")
    assert found.document.title == "Note"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (pubmed_set(pubmed_record()), "pubmed"),
        (f'<?xml version="1.0"?>\n<!DOCTYPE x PUBLIC "a" "b">\n<!-- c -->{FULL_TEXT}', "pmc"),
        (f"<pmc-articleset>{jats()}</pmc-articleset>", "pmc"),
        (CHAPTER, "statpearls"),
        ('{"1": {"d": "2007", "t": "T", "a": "A", "m": ""}}', "pubmed-json"),
        (json_lines({"id": "Anatomy_Gray_0", "title": "A", "content": "c"}), "medrag"),
        ("Just some words about {JSON} and <b>markup</b>.", "text"),
        ("# Heading\n", "text"),
        ("[1] Doe J. A paper.", "text"),
        ("[[a link]] and {{a template}}", "text"),
        ("<div align=center>Markdown</div>", "text"),
        (json_lines({"_id": "1", "title": "T", "text": "Words"}), "beir"),
        ('{"_id": "1", "title": "T", "text": "' + "word " * 20_000 + '"}', "beir"),
        ('[{"source": "PMC", "documents": []}]', "bioc"),
        ('<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd"><collection></collection>', "bioc"),
        ('{"paper_id": "x", "metadata": {}, "body_text": []}', "cord19"),
        ("pmid,title,abstract\n1,T,A\n", "table"),
        ("\nPMID- 1\nTI  - T\n", "nbib"),
        ("TY  - JOUR\nTI  - T\nER  - \n", "ris"),
        ("@article{a1,\n  title = {T}\n}\n", "bib"),
        ("@alice and @bob {wrote, together}", "text"),
        ("<!DOCTYPE html><html></html>", "html"),
        ("\n<HTML><body>", "html"),
        (pdf("Hello"), "pdf"),
    ],
)
def test_a_reader_is_guessed_by_content(tmp_path: Path, content: str | bytes, kind: str) -> None:
    """Whatever the file's name says, packed or not."""
    data = content.encode() if isinstance(content, str) else content
    path = tmp_path / "download.bin"
    path.write_bytes(data)
    assert guess_reader(path) == kind
    reader(kind)
    if kind != "pdf":
        path.write_bytes(gzip.compress(data))
        assert guess_reader(path) == kind


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", '{"a": 1}', "JSON of an unknown kind. The forms that are read: PubMed XML; "),
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', "JSON of an unknown kind"),
        ("a.json", '["a", "b"]', "JSON of an unknown kind"),
        ("a.xml", "<TEI><text/></TEI>", r"XML of an unknown kind \(<TEI>\)"),
        ("a.csv", "name,dose\naspirin,5\n", "one of the columns abstract, text"),
        ("a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3\n", "a Git LFS pointer"),
        ("a.pdf", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3\n", "git lfs pull"),
    ],
)
def test_what_would_be_quoted_as_text_and_is_none_is_refused(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    """With the forms that are read."""
    with pytest.raises(DocumentUnreadable, match=reason):
        guess_reader(saved(tmp_path / name, content))


def test_a_pointer_is_no_text_for_any_reader(tmp_path: Path) -> None:
    """A named reader does not read it either."""
    path = saved(tmp_path / "a.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3\n")
    with pytest.raises(DocumentUnreadable, match="a Git LFS pointer"):
        list(reader("text")(path))


def test_every_reader_is_among_the_forms_that_a_refusal_lists() -> None:
    """In words."""
    assert FORMS.keys() == {*READERS, ARCHIVE}


def test_a_word_document_is_told_from_another_archive(tmp_path: Path) -> None:
    """Both are zip archives."""
    docx.Document().save(str(tmp_path / "a.bin"))
    assert guess_reader(tmp_path / "a.bin") == "docx"
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.pdf", b"%PDF-1.4 not packed")
    assert guess_reader(tmp_path / "b.zip") == ARCHIVE
    with zipfile.ZipFile(tmp_path / "c.odt", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
    with pytest.raises(DocumentUnreadable, match="of another program: save it as PDF, Word or Excel"):
        guess_reader(tmp_path / "c.odt")


@pytest.mark.parametrize(
    ("begin", "remedy"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as .docx"),
        (b"\x89PNG\r\n\x1a\n", "OCR"),
        (b"\xff\xd8\xff\xe0", "OCR"),
    ],
)
def test_a_file_of_an_old_office_and_a_picture_are_refused_with_the_remedy(
    tmp_path: Path, begin: bytes, remedy: str
) -> None:
    path = tmp_path / "file.doc"
    path.write_bytes(begin + bytes(600))
    with pytest.raises(DocumentUnreadable, match=remedy):
        guess_reader(path)


@pytest.mark.parametrize("data", [b"", b"\0\1\2\3", b"<!DOCTYPE html><html></html>", b"\x89PNG\r\n\x1a\n" + b"\0" * 64])
def test_what_no_reader_takes_is_said(tmp_path: Path, data: bytes) -> None:
    """Empty, binary, a web page."""
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    with pytest.raises(DocumentUnreadable):
        guess_reader(path)
    with pytest.raises(DocumentUnreadable):
        guess_reader(tmp_path / "missing")
