"""Write the audit log: an append-only file that is rotated under a number at its size limit.

    audit.jsonl        current file        audit.jsonl.1, .2 …   rotated files, never written again
    audit.jsonl.head   number and hash of the last line; also the lock between processes

Every line is on the disk before ``append`` returns. Only the owner may read the files (0600). A line that a killed
process left unfinished is closed off by the next process; a last line that is complete but wrong stops the writing.
Knows nothing of calls.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from models.errors import ArrowheadError
from retrieval.storage.durable import sync
from server.audit.entry import (
    FORMAT,
    GENESIS,
    MAX_LINE_BYTES,
    AuditRecord,
    Level,
    Line,
    LinePosition,
    decode,
    digest_of,
    encode,
)

log = logging.getLogger(__name__)
_OPEN: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WINDOW: Final = MAX_LINE_BYTES + 2


class AuditFailed(ArrowheadError):
    """Signal that the log cannot be written, or must not be continued as it is."""

    hint = "`arrowhead audit verify` says what is wrong with the log; audit.path names another one"


class AuditLog:
    """Append hash-chained lines to the audit log.

    Safe between processes; within one process, calls must not overlap. A line that would exceed ``max_bytes`` begins a
    new file.
    """

    def __init__(
        self, path: Path, *, level: Level, max_bytes: int, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._path = path
        self._level: Level = level
        self._max_bytes = max_bytes
        self._now = now
        self._file = -1
        self._head = -1
        # Inode and size of the current file after our last write; a difference means that another process wrote.
        self._seen = (-1, -1)
        self._next = LinePosition(1, GENESIS)
        self._salt = ""

    @property
    def path(self) -> Path:
        return self._path

    def append(self, record: AuditRecord) -> int:
        """Append ``record`` and return the line's number.

        Raises:
            AuditFailed: the line is not on the disk.
        """
        try:
            with self._locked():
                self._catch_up()
                line = self._line(record)
                if os.fstat(self._file).st_size + len(line) > self._max_bytes:
                    self._rotate()
                    line = self._line(record)
                return self._write(line)
        except OSError as error:
            self._seen = (-1, -1)
            raise AuditFailed(f"{self._path}: {error.strerror or type(error).__name__}") from error

    def close(self) -> None:
        for descriptor in (self._file, self._head):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._head = -1
        self._seen = (-1, -1)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._head < 0:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._head = _opened(head_path(self._path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(self._head, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        """Find the end of the log, since another process may have written, rotated the file or died mid-write."""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            self._begin(_last_place(self._path, self._head_place()))
            return
        if (status.st_ino, status.st_size) == self._seen:
            return
        if self._file < 0 or os.fstat(self._file).st_ino != status.st_ino:
            self._replace_file(_opened(self._path, _OPEN))
        if status.st_size == 0:
            self._write_first(_last_place(self._path, self._head_place()), {})
            return
        self._read_end(os.fstat(self._file).st_size)

    def _read_end(self, size: int) -> None:
        window = os.pread(self._file, min(size, _WINDOW), max(0, size - _WINDOW))
        *whole, fragment = window.split(b"\n")
        if fragment and decode(fragment):
            _append(self._file, b"\n")  # only its line end was missing
            whole, fragment = [fragment], b""
        if not whole:
            self._start_over(size)
            return
        self._salt = _salt_of(self._path, self._file)
        self._next = _known(self._path, whole[-1]).next
        self._note_size()
        if fragment:
            self._close_off(fragment)

    def _close_off(self, fragment: bytes) -> None:
        detail = {"torn_bytes": len(fragment), "before": self._next.prev}
        self._next = LinePosition(self._next.seq, digest_of(fragment))
        log.warning("audit log: an unfinished line of %d bytes was closed off: %s", len(fragment), self._path)
        self._write(b"\n" + self._line(AuditRecord(event="torn", detail=detail)))

    def _start_over(self, size: int) -> None:
        """Empty the file and begin it again, since not even its first line is complete.

        Nothing was recorded in it yet.

        Raises:
            AuditFailed: the file is longer than one line can be, so it is no audit log.
        """
        if size >= _WINDOW:
            raise AuditFailed(f"{self._path}: is no audit log")
        os.ftruncate(self._file, 0)
        self._write_first(_last_place(self._path, self._head_place()), {"torn_bytes": size})

    def _begin(self, place: LinePosition) -> None:
        self._replace_file(_opened(self._path, _OPEN | os.O_CREAT | os.O_EXCL))
        sync(self._path.parent)
        self._write_first(place, {})

    def _write_first(self, place: LinePosition, more: dict[str, object]) -> None:
        self._salt = secrets.token_hex(16)
        self._next = place
        detail = {"format": FORMAT, "salt": self._salt, "level": self._level, **more}
        self._write(self._line(AuditRecord(event="open", detail=detail)))

    def _rotate(self) -> None:
        numbers = [number for number, _ in rotated_files(self._path)]
        self._path.rename(self._path.with_name(f"{self._path.name}.{max(numbers, default=0) + 1}"))
        self._begin(self._next)

    def _line(self, record: AuditRecord) -> bytes:
        return encode(record, self._next, self._now(), salt=self._salt, level=self._level) + b"\n"

    def _write(self, line: bytes) -> int:
        """Append ``line`` durably, update the head and return the line's number.

        ``line`` continues the chain at ``_next`` and includes its line end.
        """
        seq = self._next.seq
        _append(self._file, line)
        os.fsync(self._file)
        self._next = LinePosition(seq + 1, digest_of(line.strip(b"\n")))
        os.pwrite(self._head, f"{seq:020d} {self._next.prev}\n".encode("ascii"), 0)
        self._note_size()
        return seq

    def _note_size(self) -> None:
        status = os.fstat(self._file)
        self._seen = (status.st_ino, status.st_size)

    def _replace_file(self, descriptor: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor

    def _head_place(self) -> LinePosition:
        return parse_head(os.pread(self._head, 200, 0)) or LinePosition(1, GENESIS)


def head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def rotated_files(path: Path) -> list[tuple[int, Path]]:
    """Return the rotated files of the log at ``path`` with their numbers, oldest first."""
    start = path.name + "."
    found = [
        (int(suffix), other)
        for other in path.parent.glob(f"{path.name}.*")
        if (suffix := other.name.removeprefix(start)).isdecimal() and suffix.isascii()
    ]
    return sorted(found)


def parse_head(content: bytes) -> LinePosition | None:
    """Return the position of the line after the last one; None for an empty or unreadable head."""
    number, _, digest = content.decode("ascii", "replace").strip().partition(" ")
    if not number.isdecimal() or len(digest) != len(GENESIS):
        return None
    return LinePosition(int(number) + 1, digest)


def _last_place(path: Path, by_head: LinePosition) -> LinePosition:
    """Return the position of a new file's first line: after the newest rotated file or the head, the later of both."""
    older = rotated_files(path)
    if not older:
        return by_head
    newest = older[-1][1]
    with newest.open("rb") as file:
        file.seek(max(0, newest.stat().st_size - _WINDOW))
        last = _known(newest, file.read().rstrip(b"\n").rpartition(b"\n")[2])
    return max(last.next, by_head, key=lambda place: place.seq)


def _known(path: Path, line: bytes) -> Line:
    found = decode(line)
    if found is None:
        raise AuditFailed(f"{path}: the last line is not as it was written; move the log away to begin a new one")
    return found


def _salt_of(path: Path, descriptor: int) -> str:
    first = decode(os.pread(descriptor, _WINDOW, 0).partition(b"\n")[0])
    if first is None or first.event != "open":
        raise AuditFailed(f"{path}: the first line is not as it was written; move the log away to begin a new one")
    return str(first.data["detail"]["salt"])


def _append(descriptor: int, data: bytes) -> None:
    """Append all of ``data`` or nothing.

    A full disk can take a part of a line, which is then truncated.
    """
    before = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, data)
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    if written != len(data):
        os.ftruncate(descriptor, before)
        raise OSError(28, "No space left on device")


def _opened(path: Path, flags: int) -> int:
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


OnFailure = Literal["refuse", "continue"]
# Limit of queued records without a waiting caller: refused requests faster than the disk must not exhaust memory.
_MAX_PENDING: Final = 1000


class AuditRecorder:
    """Pass records to the audit log and apply the policy for failed writes."""

    def __init__(self, audit_log: AuditLog | None, on_failure: OnFailure) -> None:
        self._log = audit_log
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit") if audit_log else None
        self._pending = 0

    def begin(self, record: AuditRecord) -> None:
        """Write the first line in the calling thread.

        Raises:
            AuditFailed: the line cannot be written, and ``on_failure`` is ``refuse``.
        """
        if self._log is None:
            return
        try:
            self._log.append(record)
        except AuditFailed as error:
            self._handle_failure(record, error)

    async def record(self, record: AuditRecord) -> None:
        """Write ``record`` and return when the line is on the disk.

        Raises:
            AuditFailed: the line cannot be written, and ``on_failure`` is ``refuse``.
        """
        if self._log is None:
            return
        try:
            if self._thread is None:
                raise AuditFailed(f"{self._log.path}: is closed")
            await asyncio.wrap_future(self._thread.submit(self._log.append, record))
        except AuditFailed as error:
            self._handle_failure(record, error)

    def note(self, record: AuditRecord) -> None:
        """Queue ``record`` without waiting for it; a failure or a full queue is only logged."""
        if self._log is None or self._thread is None:
            return
        if self._pending >= _MAX_PENDING:
            log.error("audit line dropped: event=%s cause=too many are waiting", record.event)
            return
        self._pending += 1
        loop = asyncio.get_running_loop()
        future = self._thread.submit(self._log.append, record)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._noted, record, done))

    async def close(self) -> None:
        """Write the ``stop`` record after all queued records and close the file."""
        if self._log is None or self._thread is None:
            return
        last = AuditRecord(event="stop")
        try:
            await asyncio.wrap_future(self._thread.submit(self._log.append, last))
        except AuditFailed as error:
            log.error("audit line not written: event=%s cause=%s", last.event, error.message)
        thread, self._thread = self._thread, None
        await asyncio.wrap_future(thread.submit(self._log.close))
        thread.shutdown(wait=False)

    def _noted(self, record: AuditRecord, done: Future[int]) -> None:
        self._pending -= 1
        if error := done.exception():
            cause = error.message if isinstance(error, AuditFailed) else type(error).__name__
            log.error("audit line not written: event=%s cause=%s", record.event, cause)

    def _handle_failure(self, record: AuditRecord, error: AuditFailed) -> None:
        log.error("audit line not written: event=%s cause=%s", record.event, error.message)
        if self._on_failure == "refuse":
            raise error
