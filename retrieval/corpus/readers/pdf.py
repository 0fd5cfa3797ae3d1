"""Read the text of PDFs, and their pages as pictures or words, in a child process within limits of time and memory.

pypdf opens the file, pypdfium2 reads the text layer and draws pages, tesseract recognizes them: see ``pdf_child``; what
of the layer is text, ``pdf_layout`` tells.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from retrieval.corpus.items import NO_OPTIONS, Item, PdfLimits, ReadOptions, SkippedRecord, TextBuilder, sha256_of
from retrieval.corpus.readers import pdf_child
from retrieval.corpus.readers.pdf_layout import PdfLine, PdfPage, in_columns, page_texts, title_of
from retrieval.errors import DOCUMENT_TOO_LARGE, DOCUMENT_UNKNOWN, CorpusError, DocumentUnreadable
from retrieval.formats.english import printed_text
from retrieval.passages import Document

MIN_WIDTH: Final = 50
MAX_WIDTH: Final = 3000
_MAX_PIXELS: Final = 16_000_000
_MAX_PAGE_BYTES: Final = 64 * 2**20
_MAX_CHARS: Final = 500_000
_OCR_TEMPORARY_BYTES: Final = 256 * 2**20
BY_OCR: Final = "text recognized by OCR"
# Titles that programs put into a PDF where its author gave none: these, and the name of the file that it was made from.
_NO_TITLE: Final = re.compile(
    r"(?:untitled|title|document|microsoft (?:word|powerpoint|excel) - .*"
    r"|\S+\.(?:docx?|pptx?|xlsx?|odt|rtf|dvi|tex|pdf|indd|qxd))?",
    re.IGNORECASE,
)
_MAX_LINE: Final = 16 * 2**20
_GRACE_S: Final = 10.0
# A wider gap, in heights of letters, is one between columns.
_SAME_RUN: Final = 0.7
_OUT_OF_TIME: Final = (signal.SIGKILL, signal.SIGXCPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """Limit one page: seconds to draw or read it, to recognize its characters, and bytes of address space."""

    seconds: float = 20.0
    ocr_seconds: float = 60.0
    memory_bytes: int = 1536 * 2**20


@dataclass(frozen=True, slots=True)
class PageWord:
    """Hold a word of a page with its box.

    Coordinates are points (1/72 inch) from the top left corner of the page as it is shown; ``line`` counts from 0.
    """

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    line: int


@dataclass(frozen=True, slots=True)
class PageText:
    """Hold the words of a page in reading order, its size in points, and the number of pages of the document."""

    pages: int
    width: float
    height: float
    words: tuple[PageWord, ...]


@dataclass(frozen=True, slots=True)
class RecognizedPage:
    """Hold the text that was recognized on a page, or the reason ``bad`` why none was."""

    page: int
    text: str = ""
    bad: str = ""


_PAGE_LIMITS: Final = PageLimits()


def draw_page(path: Path, page: int, width: int, limits: PageLimits = _PAGE_LIMITS) -> bytes:
    """Return a page as a PNG of ``width`` pixels; one that would have more than 16 million is drawn smaller.

    Raises:
        DOCUMENT_UNKNOWN: there is no such page.
        DocumentUnreadable: the PDF is damaged or locked; a limit was reached.
    """
    return _run_page_task(path, ("draw", str(page), str(width), str(_MAX_PIXELS)), limits)


def page_words(path: Path, page: int, limits: PageLimits = _PAGE_LIMITS) -> PageText:
    """Return the words of a page's text layer, none where it has no text layer.

    Raises:
        DOCUMENT_UNKNOWN, DocumentUnreadable: as ``draw_page``.
    """
    found = json.loads(_run_page_task(path, ("words", str(page), str(_MAX_CHARS)), limits))
    words = _in_reading_order([PageWord(**word) for word in found["words"]])
    return PageText(found["pages"], found["width"], found["height"], words)


def _in_reading_order(words: Sequence[PageWord]) -> tuple[PageWord, ...]:
    """Return the words as ``page_texts`` reads them, with the lines counted in this order."""
    runs: list[list[PageWord]] = []
    for word in words:
        last = runs[-1][-1] if runs else None
        size = word.y1 - word.y0
        if last is not None and last.line == word.line and -size <= word.x0 - last.x1 <= _SAME_RUN * size:
            runs[-1].append(word)
        else:
            runs.append([word])
    lines = [
        PdfLine(" ".join(w.text for w in run), run[0].x0, run[-1].x1, run[0].y1, run[0].y1 - run[0].y0) for run in runs
    ]
    order = in_columns(lines)
    if order == list(range(len(lines))):
        return tuple(words)
    return tuple(replace(word, line=number) for number, place in enumerate(order) for word in runs[place])


def recognize_pages(
    path: Path, pages: Sequence[int], languages: str, limits: PageLimits = _PAGE_LIMITS
) -> Iterator[RecognizedPage]:
    """Yield the text on pictures of pages, as tesseract reads it; ``languages`` are its names, as "eng+deu".

    Raises:
        DocumentUnreadable: tesseract or one of the languages is not installed, or the PDF is damaged; a limit was
            reached.
    """
    for page in pages:  # one process each: the limits are those of one page
        task = ("recognize", languages, str(limits.ocr_seconds), str(page))
        for line in _run_page_task(path, task, limits, limits.ocr_seconds + limits.seconds).splitlines():
            found = json.loads(line)
            if "page" in found:
                yield RecognizedPage(**found)


def _run_page_task(path: Path, task: Sequence[str], limits: PageLimits, seconds: float | None = None) -> bytes:
    """Return the output of the child."""
    seconds = limits.seconds if seconds is None else seconds
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        kept = {name: os.environ[name] for name in ("PATH", "TESSDATA_PREFIX") if name in os.environ}
        program = [
            sys.executable, "-I", str(Path(pdf_child.__file__)), task[0], str(path.resolve()),
            str(limits.memory_bytes), str(max(1, int(seconds))),
            str(_OCR_TEMPORARY_BYTES if task[0] == "recognize" else 0), *task[1:],
        ]  # fmt: skip
        child = subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "TMPDIR": folder, "OMP_THREAD_LIMIT": "1", **kept}, start_new_session=True,
        )  # fmt: skip
        try:
            out, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _page_failure(path, {"error": "time"}, limits, seconds) from None
        finally:
            _end(child)
    if child.returncode == 0 and len(out) <= _MAX_PAGE_BYTES:
        return out
    raise _page_refusal(path, child.returncode, out, limits, seconds)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process, where it still runs, and those that it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _page_refusal(path: Path, status: int, out: bytes, limits: PageLimits, seconds: float) -> CorpusError:
    """Return the error for the exit status of a child whose output is no result."""
    reply: Mapping[str, Any] = {"error": "time" if -status in _OUT_OF_TIME else "damaged", "detail": "its reader broke"}
    if status == pdf_child.FAILED:
        reply = json.loads(out)
    elif status == 0:
        reply = {"error": "large", "detail": f"a page of more than {_MAX_PAGE_BYTES} bytes"}
    return _page_failure(path, reply, limits, seconds)


def _page_failure(path: Path, reply: Mapping[str, Any], limits: PageLimits, seconds: float) -> CorpusError:
    detail = str(reply.get("detail", ""))
    match reply["error"]:
        case "page":
            return CorpusError(f"there is no such page: {detail}", DOCUMENT_UNKNOWN, param="page")
        case "memory":
            return DocumentUnreadable(
                f"{path}: the page needs more than {limits.memory_bytes} bytes of memory", DOCUMENT_TOO_LARGE
            )
        case "time":
            return DocumentUnreadable(f"{path}: the page took more than {seconds:g} s", DOCUMENT_TOO_LARGE)
        case "large":
            return DocumentUnreadable(f"{path}: {detail}", DOCUMENT_TOO_LARGE)
        case "ocr":
            return DocumentUnreadable(f"{path}: characters cannot be recognized: {detail}", param="ocr")
        case _:
            return DocumentUnreadable(f"{path}: the page cannot be shown ({detail})")


def read(
    path: Path, options: ReadOptions = NO_OPTIONS, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Item]:
    """Yield one document with a part for each page with text, after the pages that have none or cannot be read.

    These are yielded as ``SkippedRecord``, with the page number as the line. With ``options.ocr`` the text of pages
    without a text layer is recognized; its section is ``BY_OCR``. Nothing is yielded where ``cancelled`` returns True.

    Raises:
        DocumentUnreadable: encrypted, damaged, or images of pages without text; the message says which; over the limits
            of ``options.pdf``.
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
        title=_title(path, found),
        source="pdf",
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
    )
    yield text.reading(document)


def _title(path: Path, found: _Pages) -> str:
    """Return the title of a PDF's properties, else the one that its first page shows, else the file's name."""
    if not _NO_TITLE.fullmatch(found.title) and found.title.casefold() != path.stem.casefold():
        return found.title
    return (title_of(found.lines[1]) if 1 in found.lines else "") or path.stem


@dataclass(slots=True)
class _Pages:
    """Hold what the pages of a PDF have, by their numbers: text, none, or a reason why it cannot be read."""

    title: str = ""
    lines: dict[int, PdfPage] = field(default_factory=dict)
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
            page = PdfPage(float(line["height"]), tuple(PdfLine(*drawn) for drawn in line["lines"]))
            if page.lines:
                found.lines[int(line["page"])] = page
            else:
                found.empty.append(int(line["page"]))
            chars += sum(len(drawn.text) for drawn in page.lines)
            if chars > limits.chars:
                raise DocumentUnreadable(f"{path}: more than {limits.chars} characters of text", DOCUMENT_TOO_LARGE)
    texts = page_texts(found.lines)
    found.texts = {number: text for number, text in texts.items() if text}
    found.empty += [number for number, text in texts.items() if not text]
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
            found.texts[page.page] = printed_text(page.text.strip())
            found.recognized.add(page.page)
    found.empty = [page for page in found.empty if page not in found.texts and page not in found.bad]


def _remedy(ocr: str) -> str:
    if ocr:
        return "nor did recognition of characters (OCR) find any"
    return (
        "add it again with ocr=eng (or another language of tesseract) for recognition of characters (OCR); files of a "
        "followed folder are read so by retrieval.folders_ocr"
    )


def _lines(path: Path, limits: PdfLimits) -> Iterator[dict[str, Any]]:
    """Yield the child's output up to ``end`` or ``error``; any other end is an error of the document."""
    child = subprocess.Popen(
        [sys.executable, "-I", str(Path(pdf_child.__file__)), "text", str(path.resolve()), str(limits.memory_bytes),
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
            raise DocumentUnreadable(
                f"{path}: reading it needs more than {limits.memory_bytes} bytes of memory", DOCUMENT_TOO_LARGE
            )
        case "time":
            raise DocumentUnreadable(f"{path}: reading it took more than {limits.seconds:g} s", DOCUMENT_TOO_LARGE)
        case "large":
            raise DocumentUnreadable(f"{path}: {detail}", DOCUMENT_TOO_LARGE)
        case _:
            raise DocumentUnreadable(f"{path}: the PDF is damaged ({detail})")
