"""Store one run's records as JSON Lines; the first line identifies the run.

Each record is one write that is on disk when ``append`` returns, so that a killed process loses only the questions in
flight. An incomplete last line is removed when the file is opened again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from scripts.evals.harness.errors import RunFileInvalid
from scripts.evals.harness.records import Record, Row, record_of

FORMAT: Final = "arrowhead-eval-run/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What makes two runs the same one. ``form``: how questions are put. ``sampling``: fields of the body. ``dataset``:
    digest of all questions of the dataset, also of those left out.
    """

    evaluation: str
    model: str
    dataset: str
    form: str = "plain"
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def header(self) -> Row:
        return {"format": FORMAT} | asdict(self)


def run_of(path: Path) -> Run:
    """Raises RunFileInvalid where the file does not begin as a record file does."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
        if header.pop("format") != FORMAT:
            raise RunFileInvalid(f"{path}: records of another format")
        return Run(**header)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFileInvalid(f"{path}: no record file ({error})") from error


def read_records(path: Path) -> Iterator[Record]:
    """In file order, one at a time; a question that was asked again comes again. A torn last line is left out.

    Raises:
        RunFileInvalid: a line before the last is damaged.
    """
    run_of(path)
    with path.open("rb") as file:
        file.readline()
        for number, line in enumerate(file, 2):
            if not line.endswith(b"\n"):
                return
            try:
                yield record_of(json.loads(line))
            except (ValueError, RunFileInvalid) as error:
                raise RunFileInvalid(f"{path}, line {number}: damaged ({error})") from error


def last_records(path: Path) -> Iterator[Record]:
    """Each question once, with its last reply; a reply is not undone by a failure that came after it."""
    chosen: dict[str, int] = {}
    answered: set[str] = set()
    for number, record in enumerate(read_records(path)):
        if not record.failed or record.question.id not in answered:
            chosen[record.question.id] = number
        if not record.failed:
            answered.add(record.question.id)
    numbers = set(chosen.values())
    return (record for number, record in enumerate(read_records(path)) if number in numbers)


class RunFile:
    """A record file open for writing; a context manager. Only one process writes it."""

    def __init__(self, path: Path, run: Run) -> None:
        """Raises RunFileInvalid: damaged, of another run, or written by another process."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("a+b", buffering=0)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunFileInvalid(f"{path}: another process writes it") from error
            _cut_torn_line(self._file)
            self._begin(run)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, record: Record) -> None:
        """Returns when the record is on the disk."""
        self._write(record.line())

    def _begin(self, run: Run) -> None:
        if self._file.seek(0, os.SEEK_END) == 0:
            self._write(json.dumps(run.header(), ensure_ascii=False))
            return
        there, wanted = run_of(self.path).header(), json.loads(json.dumps(run.header()))
        other = [key for key in wanted if there[key] != wanted[key]]
        if other:
            said = "; ".join(f"{key} {json.dumps(there[key])}, now {json.dumps(wanted[key])}" for key in other)
            raise RunFileInvalid(f"{self.path}: records of another run: {said}")

    def _write(self, line: str) -> None:
        # A reply can hold half a surrogate pair, which json.loads takes back from bytes.
        data = memoryview(line.encode(errors="surrogatepass") + b"\n")
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())


def _cut_torn_line(file: BinaryIO) -> None:
    file.seek(0)
    place = 0
    for line in file:
        if line.endswith(b"\n"):
            place += len(line)
    file.truncate(place)
