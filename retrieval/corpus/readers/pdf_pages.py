"""Draw pages of a PDF, read their words with their places, and recognize characters on pictures of pages.

pypdfium2 and tesseract work in a process of their own, within limits of time, memory and size: see ``pdf_pages_child``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.errors import CorpusError, DocumentTooLarge, DocumentUnknown, DocumentUnreadable
from retrieval.corpus.readers import pdf_pages_child

MIN_WIDTH: Final = 50
MAX_WIDTH: Final = 3000
_MAX_PIXELS: Final = 16_000_000
_MAX_BYTES: Final = 64 * 2**20
_MAX_CHARS: Final = 500_000
_OUT_OF_TIME: Final = (signal.SIGKILL, signal.SIGXCPU)
_OCR_TEMPORARY_BYTES: Final = 256 * 2**20


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


_LIMITS: Final = PageLimits()


def draw_page(path: Path, page: int, width: int, limits: PageLimits = _LIMITS) -> bytes:
    """Return a page as a PNG of ``width`` pixels; one that would have more than 16 million is drawn smaller.

    Raises:
        DocumentUnknown: there is no such page.
        DocumentUnreadable: the PDF is damaged or locked.
        DocumentTooLarge: a limit was reached.
    """
    return _run(path, ("draw", str(page), str(width), str(_MAX_PIXELS)), limits)


def page_words(path: Path, page: int, limits: PageLimits = _LIMITS) -> PageText:
    """Return the words of a page's text layer, none where it has no text layer.

    Raises:
        DocumentUnknown, DocumentUnreadable, DocumentTooLarge: as ``draw_page``.
    """
    found = json.loads(_run(path, ("words", str(page), str(_MAX_CHARS)), limits))
    words = tuple(PageWord(**word) for word in found["words"])
    return PageText(found["pages"], found["width"], found["height"], words)


def recognize_pages(
    path: Path, pages: Sequence[int], languages: str, limits: PageLimits = _LIMITS
) -> Iterator[RecognizedPage]:
    """Yield the text on pictures of pages, as tesseract reads it; ``languages`` are its names, as "eng+deu".

    Raises:
        DocumentUnreadable: tesseract or one of the languages is not installed, or the PDF is damaged.
        DocumentTooLarge: a limit was reached.
    """
    for page in pages:  # one process each: the limits are those of one page
        task = ("recognize", languages, str(limits.ocr_seconds), str(page))
        for line in _run(path, task, limits, limits.ocr_seconds + limits.seconds).splitlines():
            found = json.loads(line)
            if "page" in found:
                yield RecognizedPage(**found)


def _run(path: Path, task: Sequence[str], limits: PageLimits, seconds: float | None = None) -> bytes:
    """Return the output of the child."""
    seconds = limits.seconds if seconds is None else seconds
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        kept = {name: os.environ[name] for name in ("PATH", "TESSDATA_PREFIX") if name in os.environ}
        program = [
            sys.executable, "-I", str(Path(pdf_pages_child.__file__)), task[0], str(path.resolve()),
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
            raise _failure(path, {"error": "time"}, limits, seconds) from None
        finally:
            _end(child)
    if child.returncode == 0 and len(out) <= _MAX_BYTES:
        return out
    raise _refusal(path, child.returncode, out, limits, seconds)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process, where it still runs, and those that it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _refusal(path: Path, status: int, out: bytes, limits: PageLimits, seconds: float) -> CorpusError:
    """Return the error for the exit status of a child whose output is no result."""
    told: Mapping[str, Any] = {"error": "time" if -status in _OUT_OF_TIME else "damaged", "detail": "its reader broke"}
    if status == pdf_pages_child.FAILED:
        told = json.loads(out)
    elif status == 0:
        told = {"error": "large", "detail": f"a page of more than {_MAX_BYTES} bytes"}
    return _failure(path, told, limits, seconds)


def _failure(path: Path, told: Mapping[str, Any], limits: PageLimits, seconds: float) -> CorpusError:
    detail = str(told.get("detail", ""))
    match told["error"]:
        case "page":
            return DocumentUnknown(f"there is no such page: {detail}", param="page")
        case "memory":
            return DocumentTooLarge(f"{path}: the page needs more than {limits.memory_bytes} bytes of memory")
        case "time":
            return DocumentTooLarge(f"{path}: the page took more than {seconds:g} s")
        case "large":
            return DocumentTooLarge(f"{path}: {detail}")
        case "ocr":
            return DocumentUnreadable(f"{path}: characters cannot be recognized: {detail}", param="ocr")
        case _:
            return DocumentUnreadable(f"{path}: the page cannot be shown ({detail})")
