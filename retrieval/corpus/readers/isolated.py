"""Read a file of any kind in a child process, so that no file can hold its caller.

Checks between the steps of a reader would not do: a single call of a parser, a decompressor or a regular expression may
take hours on a file made for it. A process can be ended at any moment, and its memory can be bounded.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import retrieval
from retrieval.corpus.items import FileLimits, Item, ParsedDocument, ReadOptions, SkippedRecord, Span, Withdrawn
from retrieval.corpus.readers import pdf
from retrieval.errors import DOCUMENT_TOO_LARGE, CorpusError, DocumentUnreadable
from retrieval.passages import Document

_BLOCK: Final = 1 << 18
_MAX_LINE: Final = 512 * 2**20
_POLL_S: Final = 0.25
_GRACE_S: Final = 10.0
_OUT_OF_TIME: Final = (signal.SIGKILL, signal.SIGXCPU)
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); from {0} import main; main(sys.argv[2:])"
_CHILD: Final = "retrieval.corpus.readers.child"


@dataclass(frozen=True, slots=True)
class FileReading:
    """Hold a file being read: the name of its reader, and its items, which can be taken once."""

    kind: str
    items: Iterator[Item]


@contextmanager
def reading(
    path: Path, options: ReadOptions, cancelled: Callable[[], bool] = lambda: False, child: str = _CHILD
) -> Iterator[FileReading]:
    """Start reading a file, and end its process with the block.

    The items end early where ``cancelled`` returns True. ``child`` is the module whose ``main`` reads the file.

    Raises:
        DocumentUnreadable: the file has no known form, now or at a later item; a limit of time or memory was reached,
            now or at a later item.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DocumentUnreadable(f"{path}: cannot be read: {error.strerror}") from error
    process = _start(path, options, options.limits.processor_seconds(size), child)
    assert process.stdout is not None
    try:
        messages = _Messages(process, process.stdout, (path, options.limits), cancelled)
        kind = str(next(messages, {}).get("kind", options.kind))
        yield FileReading(kind, pdf.read(path, options, cancelled) if kind == "pdf" else map(_item, messages))
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _start(path: Path, options: ReadOptions, seconds: int, child: str) -> subprocess.Popen[bytes]:
    fields = {name: getattr(options, name) for name in ("kind", "retrieved", "licence", "provenance")}
    root = str(Path(retrieval.__file__).parents[1])
    program = [sys.executable, "-I", "-c", _PROGRAM.format(child), root]
    return subprocess.Popen(
        [*program, str(path), json.dumps(fields), str(options.limits.memory_bytes), str(seconds)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip


class _Messages(Iterator[dict[str, Any]]):
    """Take the messages of the child up to its last one; any other end is an error of the file."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output: IO[bytes],
        file: tuple[Path, FileLimits],
        cancelled: Callable[[], bool],
    ) -> None:
        self._process = process
        self._output = output
        self._path, self._limits = file
        self._cancelled = cancelled
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._done = False

    def __next__(self) -> dict[str, Any]:
        if self._done or not (self._lines or self._fill()):
            raise StopIteration
        message: dict[str, Any] = json.loads(self._lines.pop())
        if "error" in message:
            raise self._failure(message["error"], str(message["detail"]))
        if "end" in message:
            self._done = True
            raise StopIteration
        return message

    def _fill(self) -> bool:
        """Wait for one whole line or more; return False where the caller cancels."""
        size = sum(map(len, self._parts))
        until = time.monotonic() + self._limits.seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            while True:
                if not selector.select(_POLL_S):
                    if self._cancelled():
                        # What the child still sends is not read: its first message would be taken for an item.
                        self._done = True
                        return False
                    if time.monotonic() > until:
                        raise self._failure("time", "")
                    continue
                data = os.read(self._output.fileno(), _BLOCK)
                if not data:
                    self._ended()
                size += len(data)
                if size > _MAX_LINE:
                    raise self._failure("memory", "")
                if b"\n" in data:
                    *lines, rest = b"".join((*self._parts, data)).split(b"\n")
                    self._lines, self._parts = lines[::-1], [rest]
                    return True
                self._parts.append(data)

    def _ended(self) -> NoReturn:
        ended = self._process.wait(_GRACE_S)
        raise self._failure("time" if -ended in _OUT_OF_TIME else "reader", f"it ended with {ended}")

    def _failure(self, kind: str, detail: str) -> CorpusError:
        match kind:
            case "unreadable":
                return DocumentUnreadable(detail)
            case "large":
                return DocumentUnreadable(detail, DOCUMENT_TOO_LARGE)
            case "memory":
                limit = f"{self._limits.memory_bytes} bytes of memory"
                return DocumentUnreadable(f"{self._path}: reading it needs more than {limit}", DOCUMENT_TOO_LARGE)
            case "time":
                limit = f"more than {self._limits.seconds:g} s for one document"
                share = f"{self._limits.seconds_per_mib:g} s a MiB beyond that in all"
                return DocumentUnreadable(
                    f"{self._path}: reading it took too long: {limit}, or {share}", DOCUMENT_TOO_LARGE
                )
            case _:
                return DocumentUnreadable(f"{self._path}: its reader broke ({detail})")


def _item(message: dict[str, Any]) -> Item:
    if (found := message.get("document")) is not None:
        document = found["document"]
        tuples = {name: tuple(value) for name, value in document.items() if isinstance(value, list)}
        spans = tuple(Span(**span) for span in found["spans"])
        return ParsedDocument(Document(**(document | tuples)), found["text"], spans, found["line"], found["whole"])
    if (found := message.get("withdrawn")) is not None:
        return Withdrawn(**found)
    return SkippedRecord(**message["skipped"])
