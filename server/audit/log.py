"""Write the audit log: an append-only file that is rotated under a number at its size limit.

    audit.jsonl        current file        audit.jsonl.1, .2 …   rotated files, never written again
    audit.jsonl.head   number and hash of the last line; also the lock between processes

Every line is on the disk before ``append`` returns. Only the owner may read the files (0600). A line that a killed
process left unfinished is closed off by the next process; a last line that is complete but wrong stops the writing. A
log that does not end as its head says is continued with a line that records the break. Knows nothing of calls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from retrieval.storage.files import sync
from server.audit.chain import (
    FORMAT,
    MAX_LINE_BYTES,
    START,
    AuditRecord,
    Head,
    Level,
    Line,
    LinePosition,
    break_before,
    decode,
    digest_of,
    encode,
    open_private,
)
from server.audit.chain import AuditFailed as AuditFailed

log = logging.getLogger(__name__)
_OPEN: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_WINDOW: Final = MAX_LINE_BYTES + 2


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
        self._head = Head(path)
        # Inode and size of the current file, and of its last line, after our last write; a difference means that
        # another process wrote.
        self._seen = (-1, -1)
        self._line_bytes = 0
        self._next = START
        self._salt = ""

    @property
    def path(self) -> Path:
        return self._path

    def append(self, record: AuditRecord) -> int:
        """Append ``record`` and return the line's number.

        Raises:
            AuditFailed: the line is not on the disk.
        """
        return self.append_all([record])[0]

    def append_all(self, records: Sequence[AuditRecord]) -> list[int]:
        """Append the records with one wait for the disk, and return their lines' numbers.

        Raises:
            AuditFailed: the lines are not on the disk, of long batches perhaps some of the first.
        """
        try:
            with self._head.locked():
                self._catch_up()
                missing = self._head.missing()
                gap = [AuditRecord(event="gap", detail={"missing": missing})] if missing else []
                numbers = self._append([*gap, *records])[len(gap) :]
                if missing:
                    self._head.count_missing(0)
                return numbers
        except OSError as error:
            self._seen = (-1, -1)
            raise AuditFailed(f"{self._path}: {error.strerror or type(error).__name__}") from error

    def count_missing(self, number: int) -> None:
        """Note that lines could not be written; the next line that can be records it, and until then the head.

        Raises:
            AuditFailed: not even the head can be written.
        """
        try:
            with self._head.locked():
                self._head.count_missing(self._head.missing() + number)
        except OSError as error:
            raise AuditFailed(f"{self._path}: {error.strerror or type(error).__name__}") from error

    def close(self) -> None:
        self._head.close()
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._seen = (-1, -1)

    def _catch_up(self) -> None:
        """Find the end of the log, since another process may have written, rotated the file or died mid-write."""
        head = self._head.read()
        size = self._open_current()
        if head == self._next and self._is_as_left(size):
            return
        whole, fragment = self._tail(size)
        if whole is None:
            self._begin_file(head, size)
            return
        self._salt = _salt_of(self._path, self._file)
        self._next = whole.next
        # The head keeps its claim until the break is on the disk, so that a kill in between loses no trace of it.
        if (cause := break_before(head, whole, self._path)) or fragment:
            self._close_off(cause, head, fragment)

    def _open_current(self) -> int:
        """Open the current file if it is another one than before, and return its size, -1 if there is none."""
        try:
            inode = self._path.lstat().st_ino
        except FileNotFoundError:
            return -1
        if self._file < 0 or os.fstat(self._file).st_ino != inode:
            self._replace_file(open_private(self._path, _OPEN))
        return os.fstat(self._file).st_size

    def _is_as_left(self, size: int) -> bool:
        """Return whether the current file ends in the last line that this object wrote."""
        if size < 0 or (os.fstat(self._file).st_ino, size) != self._seen:
            return False
        return digest_of(os.pread(self._file, self._line_bytes, size - self._line_bytes - 1)) == self._next.prev

    def _tail(self, size: int) -> tuple[Line | None, bytes]:
        """Return the last line of the current file, and what a killed process left behind it."""
        if size <= 0:
            return None, b""
        window = os.pread(self._file, min(size, _WINDOW), max(0, size - _WINDOW))
        *whole, fragment = window.split(b"\n")
        if fragment and decode(fragment):
            _append(self._file, b"\n")  # only its line end was missing
            whole, fragment = [fragment], b""
        return (_known(self._path, whole[-1]) if whole else None), fragment

    def _close_off(self, cause: str, head: LinePosition | None, fragment: bytes) -> None:
        """Write the line that records the break, or that a killed process left ``fragment``."""
        before = self._next.prev
        detail: dict[str, Any] = {"torn_bytes": len(fragment), "before": before} if fragment else {}
        if cause:
            detail |= _break_detail(cause, head, self._next)
            log.error("audit log: a break is recorded: %s: %s", self._path, cause)
        else:
            log.warning("audit log: an unfinished line of %d bytes was closed off: %s", len(fragment), self._path)
        self._next = LinePosition(_later(self._next, head).seq, digest_of(fragment) if fragment else before)
        line = self._line(AuditRecord(event="break" if cause else "torn", detail=detail), self._next)
        self._write([line], ends_fragment=bool(fragment))

    def _begin_file(self, head: LinePosition | None, size: int) -> None:
        """Begin the current file, which is absent or has no complete line; nothing was recorded in it yet.

        Raises:
            AuditFailed: it is longer than one line can be, so it is no audit log.
        """
        if size >= _WINDOW:
            raise AuditFailed(f"{self._path}: is no audit log")
        last, file = _last_rotated(self._path)
        end = last.next if last is not None else START
        cause = break_before(head, last, file)
        more: dict[str, Any] = {"torn_bytes": size} if size > 0 else {}
        if cause:
            more["break"] = _break_detail(cause, head, end)
            log.error("audit log: a break is recorded: %s: %s", self._path, cause)
        if head is None and last is None:
            self._head.write(START)
            self._head.sync()
        if size < 0:
            self._create()
        else:
            os.ftruncate(self._file, 0)
        self._write_first(LinePosition(_later(end, head).seq, end.prev), more)

    def _create(self) -> None:
        self._replace_file(open_private(self._path, _OPEN | os.O_CREAT | os.O_EXCL))
        sync(self._path.parent)

    def _write_first(self, position: LinePosition, more: dict[str, Any]) -> None:
        self._salt = secrets.token_hex(16)
        self._next = position
        detail = {"format": FORMAT, "salt": self._salt, "level": self._level, **more}
        self._write([self._line(AuditRecord(event="open", detail=detail), self._next)])

    def _rotate(self) -> None:
        """Put the current file aside and begin the next.

        The head is made durable first, so that even after a power failure only lines of the newest file are behind it.
        """
        self._head.sync()
        numbers = [number for number, _ in rotated_files(self._path)]
        self._path.rename(self._path.with_name(f"{self._path.name}.{max(numbers, default=0) + 1}"))
        self._create()
        self._write_first(self._next, {})

    def _append(self, records: Sequence[AuditRecord]) -> list[int]:
        """Append a line for each record, as many at once as the current file takes; return their numbers."""
        numbers: list[int] = []
        lines: list[bytes] = []
        position, size = self._next, os.fstat(self._file).st_size
        for record in records:
            line = self._line(record, position)
            if size + len(line) > self._max_bytes:
                if lines:
                    self._write(lines)
                self._rotate()
                lines, position, size = [], self._next, os.fstat(self._file).st_size
                line = self._line(record, position)
            lines.append(line)
            numbers.append(position.seq)
            position, size = _after(position, line), size + len(line)
        if lines:
            self._write(lines)
        return numbers

    def _line(self, record: AuditRecord, position: LinePosition) -> bytes:
        return encode(record, position, self._now(), salt=self._salt, level=self._level) + b"\n"

    def _write(self, lines: Sequence[bytes], *, ends_fragment: bool = False) -> None:
        """Append lines durably and update the head.

        They continue the chain at ``_next`` and include their line ends.
        """
        _append(self._file, (b"\n" if ends_fragment else b"") + b"".join(lines))
        os.fsync(self._file)
        for line in lines:
            self._next = _after(self._next, line)
        self._head.write(self._next)
        status = os.fstat(self._file)
        self._seen, self._line_bytes = (status.st_ino, status.st_size), len(lines[-1]) - 1

    def _replace_file(self, descriptor: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor


def _after(position: LinePosition, line: bytes) -> LinePosition:
    return LinePosition(position.seq + 1, digest_of(line.removesuffix(b"\n")))


def rotated_files(path: Path) -> list[tuple[int, Path]]:
    """Return the rotated files of the log at ``path`` with their numbers, oldest first."""
    start = path.name + "."
    found = [
        (int(suffix), other)
        for other in path.parent.glob(f"{path.name}.*")
        if (suffix := other.name.removeprefix(start)).isdecimal() and suffix.isascii()
    ]
    return sorted(found)


def _last_rotated(path: Path) -> tuple[Line | None, Path]:
    """Return the last line of the newest rotated file, None if there is no such file, and where it is."""
    older = rotated_files(path)
    if not older:
        return None, path
    newest = older[-1][1]
    with newest.open("rb") as file:
        file.seek(max(0, newest.stat().st_size - _WINDOW))
        return _known(newest, file.read().rstrip(b"\n").rpartition(b"\n")[2]), newest


def _later(end: LinePosition, head: LinePosition | None) -> LinePosition:
    return end if head is None else max(end, head, key=lambda position: position.seq)


def _break_detail(cause: str, head: LinePosition | None, end: LinePosition) -> dict[str, Any]:
    """Return what a line records of a break: the line that the head names, and the last one that there is."""
    named = None if head is None else [head.seq - 1, head.prev]
    return {"cause": cause, "head": named, "last": [end.seq - 1, end.prev]}


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


OnFailure = Literal["refuse", "continue"]
# Limit of queued records: refused requests faster than the disk must not exhaust memory. More are counted as missing.
MAX_PENDING: Final = 10_000
_MAX_BATCH: Final = 256


class AuditRecorder:
    """Pass records to the audit log and apply the policy for failed writes.

    Records that wait while others are written share the next wait for the disk. A record that cannot be written is
    counted in the log's head, and by a line once one can be written.
    """

    def __init__(self, audit_log: AuditLog | None, on_failure: OnFailure) -> None:
        self._log = audit_log
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit") if audit_log else None
        self._waiting: deque[tuple[AuditRecord, Future[None]]] = deque()
        self._dropped = 0
        self._counting = threading.Lock()

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
            await asyncio.wrap_future(self._queued(record, self._thread))
        except AuditFailed as error:
            self._handle_failure(record, error)

    def note(self, record: AuditRecord) -> None:
        """Queue ``record`` without waiting for it: ``written`` waits. A failure is logged and counted."""
        if self._log is None or self._thread is None:
            return
        if len(self._waiting) >= MAX_PENDING:
            log.error("audit line dropped: event=%s cause=too many are waiting", record.event)
            with self._counting:
                self._dropped += 1
            return
        self._queued(record, self._thread).add_done_callback(partial(_log_failure, record))

    async def written(self) -> None:
        """Return when all records that were queued before are on the disk, or counted as missing there."""
        if self._thread is not None:
            await asyncio.wrap_future(self._thread.submit(self._write_waiting))

    async def close(self) -> None:
        """Write the ``stop`` record after all queued records and close the file."""
        if self._log is None or self._thread is None:
            return
        last = AuditRecord(event="stop")
        try:
            await asyncio.wrap_future(self._queued(last, self._thread))
        except AuditFailed as error:
            log.error("audit line not written: event=%s cause=%s", last.event, error.message)
        thread, self._thread = self._thread, None
        await asyncio.wrap_future(thread.submit(self._log.close))
        thread.shutdown(wait=False)

    def _queued(self, record: AuditRecord, thread: ThreadPoolExecutor) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append((record, done))
        thread.submit(self._write_waiting)
        return done

    def _write_waiting(self) -> None:
        """Write the records that wait, with one wait for the disk; on the log's thread.

        Each record has asked for one such run, so that none is left over.
        """
        assert self._log is not None
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
        with self._counting:
            missing, self._dropped = self._dropped, 0
        failures = _written(self._log, [record for record, _ in batch])
        missing += sum(failure is not None for failure in failures)
        if missing:
            try:
                self._log.count_missing(missing)
            except Exception as error:
                log.error("audit lines lost: number=%d cause=%s", missing, type(error).__name__)
        for (_, done), failure in zip(batch, failures, strict=True):
            if failure is not None:
                done.set_exception(failure)
            else:
                done.set_result(None)

    def _handle_failure(self, record: AuditRecord, error: AuditFailed) -> None:
        log.error("audit line not written: event=%s cause=%s", record.event, error.message)
        if self._on_failure == "refuse":
            raise error


def _written(audit_log: AuditLog, records: Sequence[AuditRecord]) -> list[Exception | None]:
    """Append records, one by one where they cannot be written together; return what failed, in their order."""
    try:
        if records:
            audit_log.append_all(records)
        return [None] * len(records)
    except Exception as error:
        if len(records) == 1:
            return [error]
        return [found for record in records for found in _written(audit_log, [record])]


def _log_failure(record: AuditRecord, done: Future[None]) -> None:
    if error := done.exception():
        cause = error.message if isinstance(error, AuditFailed) else type(error).__name__
        log.error("audit line not written: event=%s cause=%s", record.event, cause)
