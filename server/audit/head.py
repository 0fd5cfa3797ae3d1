"""Keep the head of the audit log: number and hash of the last line, in a file that is also the lock between processes.

A line is on the disk before the head names it, so after a kill the head may be behind, by lines that chain on from the
one it names. Anything else is a break: lines were cut off, replaced or written without the lock, or the head is gone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from models.errors import ArrowheadError
from retrieval.storage.files import make_folder
from server.audit.entry import GENESIS, MAX_LINE_BYTES, START, Line, LinePosition, closes_off, decode, goes_on

log = logging.getLogger(__name__)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MAX_BYTES: Final = 200
# Times that another process may replace the file between our opening and locking it.
_TRIES: Final = 5


class AuditFailed(ArrowheadError):
    """Signal that the log cannot be written, or must not be continued as it is."""

    hint = "`arrowhead audit verify` says what is wrong with the log; audit.path names another one"


class Head:
    """Read and write the head of the log at ``log_path``, under the lock that ``locked`` holds."""

    def __init__(self, log_path: Path) -> None:
        self._path = head_path(log_path)
        self._file = -1

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the log, in this process and between processes.

        Raises:
            AuditFailed: the file is no ordinary file, or is replaced again and again.
            OSError: the file cannot be opened.
        """
        self._lock()
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self) -> LinePosition | None:
        """Return the position of the line after the last one; None for an empty or unreadable head."""
        return parse_head(os.pread(self._file, _MAX_BYTES, 0))

    def write(self, place: LinePosition) -> None:
        """Name the line before ``place`` as the last one."""
        os.pwrite(self._file, f"{place.seq - 1:020d} {place.prev}\n".encode("ascii"), 0)

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _lock(self) -> None:
        for _ in range(_TRIES):
            if self._file < 0:
                make_folder(self._path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = open_private(self._path, flags)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if self._is_named():
                return
            # Its name was removed or given to another file, which other processes lock now.
            self.close()
        raise AuditFailed(f"{self._path}: is replaced again and again")

    def _is_named(self) -> bool:
        try:
            return os.path.samestat(self._path.lstat(), os.fstat(self._file))
        except FileNotFoundError:
            return False


def head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def parse_head(content: bytes) -> LinePosition | None:
    """Return the position of the line after the last one; None for an empty or unreadable head."""
    number, _, digest = content.decode("ascii", "replace").strip().partition(" ")
    if not number.isdecimal() or len(digest) != len(GENESIS):
        return None
    return LinePosition(int(number) + 1, digest)


def break_before(head: LinePosition | None, last: Line | None, file: Path) -> str:
    """Return how the log differs from its head, "" where it does not or as a kill leaves it.

    ``last``: the last line that there is, None for none; ``file``: where it is.
    """
    if head is None:
        return "" if last is None else "the head was missing or unreadable, so that lines may have been cut off"
    end = last.next if last is not None else START
    if head == end:
        return ""
    if head.seq > end.seq:
        return f"lines {end.seq} to {head.seq - 1} were missing"
    if head.seq == end.seq:
        return f"line {head.seq - 1} was not the one that was written last"
    return "" if _chains_on(file, head) else f"the lines after line {head.seq - 1} did not follow from it"


def _chains_on(file: Path, head: LinePosition) -> bool:
    """Return whether every line of the file after the one that the head names follows from it."""
    expected: LinePosition | None = None
    fragment: bytes | None = None
    with file.open("rb") as lines:
        while text := lines.readline(MAX_LINE_BYTES).removesuffix(b"\n"):
            line = decode(text)
            if expected is None:
                expected = line.next if line is not None and _is_last_or_next(line, head) else None
            elif line is None and fragment is None:
                fragment = text
            elif line is None or not _in_place(line, fragment, expected):
                return False
            else:
                expected, fragment = line.next, None
    return expected is not None


def _in_place(line: Line, fragment: bytes | None, before: LinePosition) -> bool:
    return goes_on(line, before) if fragment is None else closes_off(line, fragment, before)


def _is_last_or_next(line: Line, head: LinePosition) -> bool:
    """Return whether the head names this line or the one before it, which the line may record as lost."""
    return head in (line.next, line.place) or (line.broken or {}).get("head") == [head.seq - 1, head.prev]


def open_private(path: Path, flags: int) -> int:
    """Open an ordinary file that its owner alone can read.

    Raises:
        AuditFailed: it is no ordinary file.
    """
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    try:
        if not stat.S_ISREG(status.st_mode):
            raise AuditFailed(f"{path}: is no ordinary file")
        if status.st_mode & _OTHERS:
            os.fchmod(descriptor, 0o600)
            log.warning("audit log: others could read %s; now the owner alone can", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
