"""Read PDFs with a text layer in a child process, within limits of time and memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from retrieval.corpus.errors import DocumentTooLarge, DocumentUnreadable
from retrieval.corpus.items import NO_OPTIONS, Item, PdfLimits, ReadOptions, SkippedRecord, TextBuilder, sha256_of
from retrieval.corpus.readers import pdf_child
from retrieval.passages import Document

_MAX_LINE: Final = 16 * 2**20
_GRACE_S: Final = 10.0
_OUT_OF_TIME: Final = (signal.SIGKILL, signal.SIGXCPU)


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document with a part for each page with text, after the pages that cannot be read.

    These are yielded as ``Passed``, with the page number as the line.

    Raises:
        DocumentUnreadable: encrypted, damaged, or images of pages without text; the message says which.
        DocumentTooLarge: over the limits of ``options.pdf``.
    """
    digest = sha256_of(path)
    text, title, bad = TextBuilder(), "", list[SkippedRecord]()
    for line in _lines(path, options.pdf):
        if "error" in line:
            _fail(path, line, options.pdf)
        if "pages" in line:
            title = " ".join(str(line.get("title") or "").split())
        elif "bad" in line:
            bad.append(
                SkippedRecord(path.name, int(line["page"]), f"page {line['page']} cannot be read ({line['bad']})")
            )
        elif "page" in line:
            text.add(str(line["text"]).strip(), page=int(line["page"]))
            if len(text) > options.pdf.chars:
                raise DocumentTooLarge(f"{path}: more than {options.pdf.chars} characters of text")
    if not len(text):
        if bad:
            _fail(path, {"error": "damaged", "detail": bad[0].reason}, options.pdf)
        raise DocumentUnreadable(
            f"{path}: no text on any page: it holds pictures of pages, and needs recognition of characters (OCR) first"
        )
    yield from bad
    document = Document(
        document_id=f"sha256:{digest}",
        title=title or path.stem,
        source="pdf",
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
    )
    yield text.reading(document)


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
