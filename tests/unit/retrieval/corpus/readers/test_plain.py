"""Encodings of text files."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.corpus.items import ParsedDocument, SkippedRecord
from retrieval.corpus.readers import plain
from retrieval.corpus.readers.plain import UndecodedText, decode_text
from retrieval.errors import DocumentUnreadable

GERMAN = "Die Größe der Füße überraschte die Ärzte in Köln; 5 µg genügten für die Wirkung."
RUSSIAN = "Наблюдение пациентов показало снижение давления у большинства исследованных больных."


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        (GERMAN, "utf-8", "utf-8"),
        (GERMAN, "utf-8-sig", "utf-8"),
        (GERMAN, "latin-1", "cp1252"),
        (f"“{GERMAN}” – naïve", "cp1252", "cp1252"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "utf-16", "utf-16"),
    ],
)
def test_a_text_in_a_common_encoding_is_read(text: str, encoding: str, named: str) -> None:
    """Its letters are right, and the encoding is named."""
    assert decode_text(text.encode(encoding)) == (text, named)


@pytest.mark.parametrize("data", [b"\xff\xfea\x00b", b"a\0b", bytes(range(128, 256)) * 40, b"\x7fELF\x02\xff\x00" * 9])
def test_bytes_without_words_are_refused(data: bytes) -> None:
    """Half of a character, NULs, all bytes in a row, a program."""
    with pytest.raises(UndecodedText):
        decode_text(data)


def test_another_encoding_is_told(tmp_path: Path) -> None:
    """Beside the document, as nobody can be sure of a guess; a refusal has the place of the first bad byte."""
    path = tmp_path / "a.txt"
    path.write_bytes(GERMAN.encode("latin-1"))
    told, document = plain.read(path)
    assert isinstance(told, SkippedRecord) and "cp1252" in told.reason
    assert isinstance(document, ParsedDocument) and document.text == GERMAN
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DocumentUnreadable, match="UTF-16 at byte"):
        list(plain.read(path))


def test_words_that_a_line_end_breaks_are_whole_in_plain_text_alone(tmp_path: Path) -> None:
    """As programs leave them that take text from pages; Markdown stays as written."""
    broken = "Interac-\ntions of ami-\nodarone are well-\nknown."
    for name, text in (("a.txt", "Interactions\nof amiodarone\nare well-known."), ("a.md", broken)):
        path = tmp_path / name
        path.write_text(broken)
        (found,) = plain.read(path)
        assert isinstance(found, ParsedDocument) and found.text == text
