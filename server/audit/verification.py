"""Read the audit log and verify its chain.

Reads line by line, whatever the length of the log; writes nothing. A server may go on writing meanwhile: the current
file is read up to its size at the start of the reading.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from server.audit.chain import (
    MAX_LINE_BYTES,
    START,
    AuditFailed,
    Line,
    LinePosition,
    closes_off,
    decode,
    goes_on,
    head_path,
    parse_head,
    parse_missing,
)
from server.audit.log import rotated_files


class RawLine(NamedTuple):
    """Hold the bytes of one line and its location.

    ``number`` counts from 1 in its file. ``ended`` is whether the line end is present.
    """

    path: Path
    number: int
    text: bytes
    ended: bool

    @property
    def where(self) -> str:
        return f"{self.path}: line {self.number}"


@dataclass(slots=True)
class Report:
    """Report the result of a verification.

    ``problem`` is the first fault, "" where the chain is intact. ``breaks`` lists those that the log itself records,
    ``notes`` what is unusual but valid.
    """

    problem: str = ""
    breaks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_lines: int = 0
    first: LinePosition = START
    next: LinePosition = START

    @property
    def is_whole(self) -> bool:
        return not self.problem and not self.breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """List the files of a log at one moment, oldest first; ``missing`` lines could not be written, as its head counts.

    ``log`` is its path, None where only some files are read. ``head`` is the position of the next line, ``size`` the
    number of bytes to read from the last file (None: all).
    """

    files: tuple[Path, ...]
    log: Path | None = None
    head: LinePosition | None = None
    size: int | None = None
    missing: int = 0

    @property
    def is_absent(self) -> bool:
        """Return whether this is a log in which no line was ever written, as far as its folder shows."""
        return self.log is not None and not self.files and self.head in (None, START)

    def lines(self) -> Iterator[RawLine]:
        """Yield the lines of all files.

        Raises:
            AuditFailed: a file cannot be read.
        """
        for path in self.files:
            try:
                with path.open("rb") as file:
                    yield from _lines(path, file, self.size if path == self.files[-1] else None)
            except OSError as error:
                raise AuditFailed(f"{path}: {error.strerror}") from error


def snapshot(paths: Sequence[Path]) -> Snapshot:
    """Return a snapshot of the log's files.

    One path is the log with its rotated files; several paths, or one rotated file, are exactly these, in this order.

    Raises:
        AuditFailed: the log's folder cannot be read.
    """
    if len(paths) != 1 or paths[0].suffix.removeprefix(".").isdecimal():
        return Snapshot(files=tuple(paths))
    (path,) = paths
    descriptor = -1
    try:
        # The head is also the lock: while it is held, no process writes or rotates a file.
        with suppress(OSError):
            descriptor = os.open(head_path(path), os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        older = [file for _, file in rotated_files(path)]
        files = (*older, path) if path.exists() else tuple(older)
        content = os.pread(descriptor, 200, 0) if descriptor >= 0 else b""
        size = path.stat().st_size if path.exists() else None
        return Snapshot(files=files, log=path, head=parse_head(content), size=size, missing=parse_missing(content))
    except OSError as error:
        raise AuditFailed(f"{path}: {error.strerror}") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def verify(log: Snapshot) -> Report:
    """Check every line, the files' order, and that the log ends where it was last written.

    Raises:
        AuditFailed: a file cannot be read.
    """
    report = Report()
    report.problem = _missing_file(log) or _check(log, report) or _end(log, report)
    if log.missing:
        report.breaks.append(f"{log.log}: {log.missing} line(s) could not be written, as the head counts")
    if log.log is not None and log.head is None and not log.is_absent:
        report.notes.append(f"{head_path(log.log)} is missing or unreadable: whether lines were cut off is not known")
    return report


def decoded_lines(log: Snapshot) -> Iterator[tuple[RawLine, Line | None]]:
    """Return an iterator of every line with its content, None for a changed or unfinished line."""
    return ((raw, decode(raw.text)) for raw in log.lines())


def _check(log: Snapshot, report: Report) -> str:
    """Return the problem of the first faulty line, "" where all lines are right."""
    expected: LinePosition | None = START if log.log is not None else None
    fragment: RawLine | None = None
    for raw, line in decoded_lines(log):
        report.num_lines += 1
        if fragment is not None:
            if line is None or expected is None or not closes_off(line, fragment.text, expected):
                return f"{fragment.where} is not as it was written"
            report.notes.append(f"{fragment.where} was left unfinished by a process that ended, and closed off after")
            fragment = None
            _note_break(raw, line, report)
        elif line is None and raw.ended:
            fragment = raw
            continue
        elif line is None or not raw.ended:
            return f"{raw.where} has no end (truncated tail): a killed process leaves this, and the next closes it off"
        elif problem := _out_of_place(raw, line, expected):
            return problem
        else:
            _note_break(raw, line, report)
        if report.num_lines == 1 or expected is None:
            report.first = line.position
        expected = report.next = line.next
        if log.head is not None and log.head.seq == expected.seq and log.head.prev != expected.prev:
            return f"{raw.where} is not the line that was written last: the head has another hash"
    return f"{fragment.where} is not as it was written" if fragment is not None else ""


def _note_break(raw: RawLine, line: Line, report: Report) -> None:
    if line.event == "gap":
        missing = (line.data.get("detail") or {}).get("missing")
        report.breaks.append(f"{raw.where} records that {missing} line(s) before it could not be written")
    if (broken := line.broken) is not None:
        report.breaks.append(f"{raw.where} records a break of {line.data.get('time')}: {broken.get('cause')}")


def _out_of_place(raw: RawLine, line: Line, expected: LinePosition | None) -> str:
    if raw.number == 1 and line.event != "open":
        return f"{raw.where} does not begin a file"
    if expected is None or goes_on(line, expected):
        return ""
    if line.position.seq > expected.seq:
        return (
            f"{raw.where} has number {line.position.seq}, but {expected.seq} should follow: lines or files are missing"
        )
    return f"{raw.where} does not follow the line before it"


def _missing_file(log: Snapshot) -> str:
    if log.log is None:
        return ""
    numbers = [number for number, _ in rotated_files(log.log)]
    absent = next((n for n, found in enumerate(numbers, 1) if n != found), None)
    return f"{log.log}.{absent} is missing" if absent else ""


def _end(log: Snapshot, report: Report) -> str:
    """Return the problem of a log that ends too early, "" where it does not.

    Lines cut off at a line's end leave an intact chain; only the head shows the loss.
    """
    if log.head is None or log.head.seq <= report.next.seq:
        return ""
    lost = log.head.seq - report.next.seq
    return f"{log.log}: the last {lost} line(s) are missing (truncated tail): line {log.head.seq - 1} was written"


def _lines(path: Path, file: BinaryIO, size: int | None) -> Iterator[RawLine]:
    number, remaining = 0, size
    while remaining is None or remaining > 0:
        text = file.readline(MAX_LINE_BYTES if remaining is None else min(MAX_LINE_BYTES, remaining))
        if not text:
            return
        number += 1
        remaining = None if remaining is None else remaining - len(text)
        yield RawLine(path, number, text.removesuffix(b"\n"), text.endswith(b"\n"))
