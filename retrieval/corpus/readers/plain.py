"""Read plain text and Markdown, in UTF-8 or an encoding that is recognized with certainty."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.corpus.errors import DocumentTooLarge, DocumentUnreadable
from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    path_of,
    unreadable_file,
)
from retrieval.corpus.readers.encodings import UTF_8, decoded
from retrieval.formats.sources import Source
from retrieval.passages import Document

MAX_BYTES: Final = 64 * 2**20
MARKDOWN: Final = (".md", ".markdown", ".mkd")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORDS: Final = re.compile(r"\w")


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document, after a record of its encoding where that is another than UTF-8.

    In Markdown (by file name suffix) headings are sections; the first one of level 1 is the title.
    """
    with unreadable_file():
        data, size = [], 0
        for chunk in Source(path).chunks():
            size += len(chunk)
            if size > MAX_BYTES:
                raise DocumentTooLarge(f"{path}: larger than {MAX_BYTES} bytes")
            data.append(chunk)
    content_bytes = b"".join(data)
    content, encoding = decoded(content_bytes, path)
    if encoding != UTF_8:
        yield SkippedRecord(path.name, 0, f"not UTF-8: read as {encoding}; check that its letters are right")
    if not _WORDS.search(content):
        raise DocumentUnreadable(f"{path}: it holds no words")
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    text = TextBuilder()
    title = ""
    if path.name.lower().removesuffix(".gz").endswith(MARKDOWN):
        title = _markdown(content, text)
    else:
        text.add(content.strip("\n"))
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
    """Add the sections to ``text`` and return the title, "" where there is no heading of level 1."""
    path: list[str] = []
    lines: list[str] = []
    title, fence = "", ""

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
        title = title or (words if len(heading[1]) == 1 else "")
    close()
    return title


def _without_closing_marks(words: str) -> str:
    """Remove the marks that may end a heading, as in "# Title #"; those of a word ("C#") stay."""
    rest = words.rstrip("#")
    return rest.rstrip() if rest[-1:] in ("", " ", "\t") else words
