"""Read PDFs with a text layer in a child process, within limits of time and memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from retrieval.corpus.errors import DocumentTooLarge, DocumentUnreadable
from retrieval.corpus.items import NO_OPTIONS, Item, PdfLimits, ReadOptions, SkippedRecord, TextBuilder, sha256_of
from retrieval.corpus.readers import pdf_child
from retrieval.corpus.readers.pdf_pages import PageLimits, recognize_pages
from retrieval.passages import Document

BY_OCR: Final = "text recognized by OCR"
# Titles that programs put into a PDF where its author gave none.
_NO_TITLE: Final = frozenset(("", "untitled", "title", "document"))
_MAX_LINE: Final = 16 * 2**20
_GRACE_S: Final = 10.0
_OUT_OF_TIME: Final = (signal.SIGKILL, signal.SIGXCPU)


def read(
    path: Path, options: ReadOptions = NO_OPTIONS, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Item]:
    """Yield one document with a part for each page with text, after the pages that have none or cannot be read.

    These are yielded as ``SkippedRecord``, with the page number as the line. With ``options.ocr`` the text of pages
    without a text layer is recognized; its section is ``BY_OCR``. Nothing is yielded where ``cancelled`` returns True.

    Raises:
        DocumentUnreadable: encrypted, damaged, or images of pages without text; the message says which.
        DocumentTooLarge: over the limits of ``options.pdf``.
    """
    digest = sha256_of(path)
    found = _layer(path, options.pdf)
    if options.ocr:
        _recognize(path, options, found, cancelled)
    if cancelled():
        return
    text = TextBuilder()
    for page in sorted(found.texts):
        text.add(found.texts[page], BY_OCR if page in found.recognized else "", page)
    if not len(text):
        if found.bad:
            first = min(found.bad)
            _fail(path, {"error": "damaged", "detail": f"page {first}: {found.bad[first]}"}, options.pdf)
        raise DocumentUnreadable(f"{path}: no text on any page: it holds pictures of pages; {_remedy(options.ocr)}")
    for page, reason in sorted(
        (found.bad | {page: f"no text; {_remedy(options.ocr)}" for page in found.empty}).items()
    ):
        yield SkippedRecord(path.name, page, f"page {page}: {reason}")
    document = Document(
        document_id=f"sha256:{digest}",
        title=found.title if found.title.casefold() not in _NO_TITLE else path.stem,
        source="pdf",
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
    )
    yield text.reading(document)


@dataclass(slots=True)
class _Pages:
    """Hold what the pages of a PDF have, by their numbers: text, none, or a reason why it cannot be read."""

    title: str = ""
    texts: dict[int, str] = field(default_factory=dict)
    empty: list[int] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    recognized: set[int] = field(default_factory=set)


def _layer(path: Path, limits: PdfLimits) -> _Pages:
    """Read the text layer of all pages."""
    found, chars = _Pages(), 0
    for line in _lines(path, limits):
        if "error" in line:
            _fail(path, line, limits)
        if "pages" in line:
            found.title = " ".join(str(line.get("title") or "").split())
        elif "bad" in line:
            found.bad[int(line["page"])] = f"cannot be read ({line['bad']})"
        elif "page" in line:
            text = str(line["text"]).strip()
            if text:
                found.texts[int(line["page"])] = text
            else:
                found.empty.append(int(line["page"]))
            chars += len(text)
            if chars > limits.chars:
                raise DocumentTooLarge(f"{path}: more than {limits.chars} characters of text")
    return found


def _recognize(path: Path, options: ReadOptions, found: _Pages, cancelled: Callable[[], bool]) -> None:
    """Add the recognized text of the pages without a text layer."""
    limits = PageLimits(memory_bytes=options.limits.memory_bytes)
    for page in recognize_pages(path, tuple(found.empty), options.ocr, limits):
        if cancelled():
            return
        if page.bad:
            found.bad[page.page] = f"no text layer, and recognition of characters failed ({page.bad})"
        elif page.text.strip():
            found.texts[page.page] = page.text.strip()
            found.recognized.add(page.page)
    found.empty = [page for page in found.empty if page not in found.texts and page not in found.bad]


def _remedy(ocr: str) -> str:
    if ocr:
        return "nor did recognition of characters (OCR) find any"
    return "add it again with ocr=eng (or another language of tesseract) for recognition of characters (OCR)"


def _lines(path: Path, limits: PdfLimits) -> Iterator[dict[str, Any]]:
    """Yield the child's output up to ``end`` or ``error``; any other end is an error of the document."""
    child = subprocess.Popen(
        [sys.executable, "-I", str(Path(pdf_child.__file__)), str(path.resolve()), str(limits.memory_bytes),
         str(max(1, int(limits.seconds))), str(limits.pages)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert child.stdout is not None
    watchdog = threading.Timer(limits.seconds, child.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        while data := child.stdout.readline(_MAX_LINE):
            if not data.endswith(b"\n"):
                _fail(path, {"error": "large", "detail": f"a page of more than {_MAX_LINE} bytes"}, limits)
            line = json.loads(data)
            if "end" in line:
                return
            yield line
            if "error" in line:
                return
        ended = child.wait(_GRACE_S)
        _fail(path, {"error": "time" if -ended in _OUT_OF_TIME else "damaged", "detail": "its reader broke"}, limits)
    finally:
        watchdog.cancel()
        child.kill()
        child.stdout.close()
        child.wait()


def _fail(path: Path, line: dict[str, Any], limits: PdfLimits) -> NoReturn:
    kind, detail = line["error"], str(line.get("detail", ""))
    match kind:
        case "encrypted":
            raise DocumentUnreadable(f"{path}: the PDF is encrypted: {detail}")
        case "memory":
            raise DocumentTooLarge(f"{path}: reading it needs more than {limits.memory_bytes} bytes of memory")
        case "time":
            raise DocumentTooLarge(f"{path}: reading it took more than {limits.seconds:g} s")
        case "large":
            raise DocumentTooLarge(f"{path}: {detail}")
        case _:
            raise DocumentUnreadable(f"{path}: the PDF is damaged ({detail})")
