"""Encode and decode the lines of the audit log, and keep its head: number and hash of the last line, in a file.

A line is one JSON object. ``hash`` is the SHA-256 of the object's own text without that field, ``prev`` that of the
whole previous line, so that a changed, lost or moved line breaks the chain. The chain proves nothing against an
attacker who can write a new log from its first line on; for that, store the last line's hash elsewhere.

The head's file is also the lock between processes. A line is on the disk before the head names it, so after a kill the
head may be behind, by lines that chain on from the one it names. Anything else is a break: lines were cut off, replaced
or written without the lock, or the head is gone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from models.errors import ArrowheadError, Fault
from retrieval.storage.files import make_folder

log = logging.getLogger(__name__)
FORMAT: Final = 1
# ``prev`` of the very first line.
GENESIS: Final = "0" * 64
# A line holds one call, whose size the table of calls bounds; a longer line is not ours.
MAX_LINE_BYTES: Final = 256 * 1024
_VALUE_DIGITS: Final = 16
_TAIL_CHARS: Final = len(',"hash":""}') + 64
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MAX_BYTES: Final = 200
# Number and hash of the last line, with its line end.
_POSITION_BYTES: Final = 20 + 1 + 64 + 1
# Times that another process may replace the file between our opening and locking it.
_TRIES: Final = 5

Level = Literal["metadata", "request"]
Decision = Literal["allowed", "refused", "withheld"]
# open: first line of a file; torn: closes off a line that a killed process left unfinished; break: the log before this
# line was not as its head says; gap: lines could not be written before this one. send: right before a call goes out,
# reply: after it, shared: an equal call of another answer was under way and its reply was used. local: right before a
# call of a tool on this machine.
Event = Literal[
    "open", "start", "stop", "send", "local", "reply", "shared", "refused", "withheld", "torn", "break", "gap"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Describe one event for the audit log.

    ``params`` are the call's values: hashed in every line, in clear only at level ``request``.
    """

    event: Event
    request_id: str | None = None
    key_id: str | None = None
    mode: str | None = None
    decision: Decision | None = None
    where: str | None = None
    endpoint: str | None = None
    db: str | None = None
    classes: tuple[str, ...] = ()
    request_bytes: int | None = None
    reply_bytes: int | None = None
    status: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinePosition:
    """Locate a line in the log by its number, from 1, and the SHA-256 of the previous line."""

    seq: int
    prev: str


START: Final = LinePosition(1, GENESIS)


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one complete line of the log.

    ``digest`` is the SHA-256 of its bytes, which the next line's ``prev`` must equal.
    """

    position: LinePosition
    event: str
    digest: str
    data: Mapping[str, Any]

    @property
    def next(self) -> LinePosition:
        return LinePosition(self.position.seq + 1, self.digest)

    @property
    def broken(self) -> Mapping[str, Any] | None:
        """Return what this line records of a break before it, None where it records none."""
        detail = self.data.get("detail") or {}
        if self.event == "break":
            return dict(detail)
        found = detail.get("break") if self.event == "open" else None
        return dict(found) if isinstance(found, Mapping) else None


def encode(record: AuditRecord, position: LinePosition, now: datetime, *, salt: str, level: Level) -> bytes:
    """Return the bytes of a line without its line end.

    ``salt`` is the file's own: equal values have equal hashes within one file.
    """
    body: dict[str, Any] = {
        "seq": position.seq,
        "time": now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": record.event,
        "request_id": record.request_id,
        "key_id": record.key_id,
        "mode": record.mode,
        "decision": record.decision,
        "where": record.where,
        "endpoint": record.endpoint,
        "db": record.db,
        "classes": list(record.classes),
        "request_bytes": record.request_bytes,
        "reply_bytes": record.reply_bytes,
        "status": record.status,
        "values": {name: value_hash(salt, name, value) for name, value in record.params.items()},
    }
    if level == "request" and record.params:
        body["params"] = dict(record.params)
    if record.detail:
        body["detail"] = dict(record.detail)
    text = json.dumps(body | {"prev": position.prev}, separators=(",", ":")).encode("ascii")
    return text[:-1] + f',"hash":"{hashlib.sha256(text).hexdigest()}"}}'.encode("ascii")


def value_hash(salt: str, name: str, value: str) -> str:
    """Return a salted hash that tells equal values from different ones.

    It hides no value from a reader of the file who can guess candidates.
    """
    return hashlib.sha256(f"{salt}\0{name}\0{value}".encode()).hexdigest()[:_VALUE_DIGITS]


def digest_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def decode(line: bytes) -> Line | None:
    """Return the line (given without its line end), or None where ``encode`` did not write it."""
    text, tail = line[:-_TAIL_CHARS] + b"}", line[-_TAIL_CHARS:]
    if tail != f',"hash":"{digest_of(text)}"}}'.encode("ascii"):
        return None
    try:
        data = json.loads(line)
        position = LinePosition(int(data["seq"]), str(data["prev"]))
        return Line(position, str(data["event"]), digest_of(line), data)
    except (ValueError, KeyError, TypeError):
        return None


def closes_off(line: Line, fragment: bytes, before: LinePosition) -> bool:
    """Return whether ``line`` closes off ``fragment``, an unfinished line at the position ``before``."""
    detail = line.data.get("detail") or {}
    number, last = line.position.seq, before.seq
    return (
        (number == last if line.event == "torn" else line.event == "break" and number >= last)
        and line.position.prev == digest_of(fragment)
        and detail.get("before") == before.prev
        and detail.get("torn_bytes") == len(fragment)
    )


def goes_on(line: Line, before: LinePosition) -> bool:
    """Return whether ``line`` belongs at the position ``before``.

    A line that records a break may skip the numbers of lost lines, so that no number is used twice.
    """
    return line.position == before or (
        line.broken is not None and line.position.prev == before.prev and line.position.seq > before.seq
    )


class AuditFailed(ArrowheadError):
    """Signal that the log cannot be written, or must not be continued as it is."""

    fault = Fault(
        500, "audit_failed", "`arrowhead audit verify` says what is wrong with the log; audit.path names another one"
    )


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

    def write(self, position: LinePosition) -> None:
        """Name the line before ``position`` as the last one."""
        if os.fstat(self._file).st_size < _POSITION_BYTES:
            # Room for the number of missing lines, which must be told also where the disk is full.
            os.pwrite(self._file, f"{0:020d}\n".encode("ascii"), _POSITION_BYTES)
        os.pwrite(self._file, f"{position.seq - 1:020d} {position.prev}\n".encode("ascii"), 0)

    def missing(self) -> int:
        """Return how many lines could not be written that no line records yet."""
        return parse_missing(os.pread(self._file, _MAX_BYTES, 0))

    def count_missing(self, number: int) -> None:
        """Set how many lines could not be written; overwrites in place, which a full disk permits."""
        os.pwrite(self._file, f"{number:020d}\n".encode("ascii"), _POSITION_BYTES)

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
    number, _, digest = content[:_POSITION_BYTES].decode("ascii", "replace").strip().partition(" ")
    if not number.isdecimal() or len(digest) != len(GENESIS):
        return None
    return LinePosition(int(number) + 1, digest)


def parse_missing(content: bytes) -> int:
    """Return the number of lines that could not be written and that no line records yet; 0 where none is stated."""
    number = content[_POSITION_BYTES:].decode("ascii", "replace").strip()
    return int(number) if number.isdecimal() else 0


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
    return head in (line.next, line.position) or (line.broken or {}).get("head") == [head.seq - 1, head.prev]


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
