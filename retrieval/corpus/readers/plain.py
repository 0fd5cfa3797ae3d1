"""Read plain text and Markdown, in UTF-8 or an encoding that is recognized with certainty."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, SkippedRecord, TextBuilder, path_of, unreadable_file
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable
from retrieval.formats.english import printed_text
from retrieval.formats.sources import Source
from retrieval.passages import Document

UTF_8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Text has tabs, line ends and form feeds; any other control character means that it was decoded wrongly or is no text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
# In use for texts of these fields; rare ones would be guessed for common texts with an odd letter (5 µg).
_CANDIDATES: Final = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "mac_roman",
    "utf_16_le", "utf_16_be", "cp932", "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
# Where several are as likely, this one is the usual one.
_WESTERN: Final = "cp1252"
_TIE: Final = 0.02
_SAMPLE: Final = 256 * 1024
MAX_BYTES: Final = 64 * 2**20
MARKDOWN: Final = (".md", ".markdown", ".mkd")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORDS: Final = re.compile(r"\w")


class UndecodedText(ValueError):
    """Report bytes that are no text in any encoding that is recognized."""


def decoded(data: bytes, path: Path) -> tuple[str, str]:
    """Return the text of a file with the name of its encoding.

    Raises:
        DocumentUnreadable: it is no text, or its encoding is not recognized.
    """
    try:
        return decode_text(data)
    except UndecodedText as error:
        raise DocumentUnreadable(f"{path}: {error}") from None


def decode_text(data: bytes) -> tuple[str, str]:
    """Return the text with the name of its encoding: UTF-8, that of a byte order mark, or the most likely one.

    Raises:
        UndecodedText: the bytes are no text, or their encoding is not recognized.
    """
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    try:
        text, name = data.decode(marked or UTF_8), UTF_8 if marked in ("", "utf-8-sig") else marked
    except UnicodeDecodeError as error:
        if marked:
            raise UndecodedText(f"not valid {marked.upper()} at byte {error.start}") from None
        text, name = _guessed(data, error.start)
    if "\0" in text:
        raise UndecodedText("it holds NUL characters")
    if name != UTF_8 and _CONTROL.search(text):
        raise UndecodedText(f"read as {name} it holds control characters")
    return text, name


def _guessed(data: bytes, bad: int) -> tuple[str, str]:
    import charset_normalizer

    # The sample has the first byte that is not UTF-8, which tells the encoding best.
    start = max(0, bad - _SAMPLE // 2)
    found = charset_normalizer.from_bytes(data[start : start + _SAMPLE], cp_isolation=list(_CANDIDATES))
    best = found.best()
    if best is None:
        raise UndecodedText(f"not valid UTF-8 at byte {bad}, and no other encoding is likely: save it as UTF-8")
    likely = [one for one in found if _WESTERN in one.could_be_from_charset and one.chaos <= best.chaos + _TIE]
    name = _WESTERN if likely else best.encoding
    try:
        return data.decode(name), name
    except (UnicodeDecodeError, LookupError):
        raise UndecodedText(f"not valid UTF-8 at byte {bad}, nor {name} throughout: save it as UTF-8") from None


def file_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed where it is gzip.

    Raises:
        DocumentUnreadable: it has more than 64 MiB.
    """
    data, size = [], 0
    for chunk in Source(path).chunks():
        size += len(chunk)
        if size > MAX_BYTES:
            raise DocumentUnreadable(f"{path}: larger than {MAX_BYTES} bytes", DOCUMENT_TOO_LARGE)
        data.append(chunk)
    return b"".join(data)


def read_decoded(path: Path) -> tuple[str, str]:
    """Return the text of a file, its lines ended by LF, with the name of its encoding.

    Raises:
        DocumentUnreadable: as ``decoded`` and ``file_bytes``.
    """
    text, encoding = decoded(file_bytes(path), path)
    return _with_line_ends(text), encoding


def _with_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document, after a record of its encoding where that is another than UTF-8.

    In Markdown (by file name suffix) headings are sections; the first one of level 1, else the first, is the title. In
    plain text, words that a line end breaks are joined and ligatures are letters: programs that take text from pages
    leave them.
    """
    with unreadable_file():
        content_bytes = file_bytes(path)
    content, encoding = decoded(content_bytes, path)
    if encoding != UTF_8:
        yield SkippedRecord(path.name, 0, f"not UTF-8: read as {encoding}; check that its letters are right")
    if not _WORDS.search(content):
        raise DocumentUnreadable(f"{path}: it holds no words")
    content = _with_line_ends(content)
    text = TextBuilder()
    title = ""
    if path.name.lower().removesuffix(".gz").endswith(MARKDOWN):
        title = _markdown(content, text)
    else:
        text.add(printed_text(content.strip("\n")))
    document = Document(
        document_id=f"sha256:{hashlib.sha256(content_bytes).hexdigest()}",
        title=title or path.stem,
        source="text",
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
    )
    yield text.reading(document)


def _markdown(content: str, text: TextBuilder) -> str:
    """Add the sections to ``text`` and return the title: the first heading of level 1, else the first heading."""
    path: list[str] = []
    lines: list[str] = []
    title, first, fence = "", "", ""

    def close() -> None:
        text.add("\n".join(lines).strip("\n"), path_of(path[1:] if path[:1] == [title] else path))
        lines.clear()

    for line in content.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and not line[mark.end() :].strip())):
            fence = "" if fence else mark[1]
        heading = None if fence or mark else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        close()
        words = _without_closing_marks((heading[2] or "").strip())
        del path[len(heading[1]) - 1 :]
        path.extend([""] * (len(heading[1]) - 1 - len(path)))
        path.append(words)
        title, first = title or (words if len(heading[1]) == 1 else ""), first or words
    close()
    return title or first


def _without_closing_marks(words: str) -> str:
    """Remove the marks that may end a heading, as in "# Title #"; those of a word ("C#") stay."""
    rest = words.rstrip("#")
    return rest.rstrip() if rest[-1:] in ("", " ", "\t") else words
