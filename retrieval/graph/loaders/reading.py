"""Open a graph's file for streaming (plain, gzip, bzip2, detected by content) and count skipped records."""

from __future__ import annotations

import bz2
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeVar

from retrieval.errors import GRAPH_INVALID, GraphError, ImportFileError
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Line, Source, split_lines
from retrieval.formats.untrusted_input import whole_characters

_BZIP2: Final = b"BZh"
_KEPT: Final = 20
_MAX_REASON: Final = 200
MAX_CELL: Final = 65_536
_MAX_NESTING: Final = 32
_Raw = TypeVar("_Raw")
_Read = TypeVar("_Read")


class MalformedRecord(ValueError):
    """Signal inside a loader that the current record is skipped, with this text as the reason."""


@dataclass(slots=True)
class Report:
    """Count skipped records; ``first`` has (file:line, reason) of the first ones."""

    passed: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)

    def add(self, place: str, reason: object) -> None:
        self.passed += 1
        if len(self.first) < _KEPT:
            text = " ".join(str(reason).split())
            self.first.append((place, text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"))


@dataclass(slots=True)
class RecordPosition:
    """Locate the record that a loader yielded last."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class FileLoader:
    """Hold the files that a loader reads, what it reports, and where it is."""

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = RecordPosition()

    @property
    def place(self) -> str:
        return str(self._place)


@contextmanager
def file_faults() -> Iterator[None]:
    """Convert faults of the file itself to GraphError."""
    try:
        yield
    except ImportFileError as fault:
        raise GraphError(fault.message, GRAPH_INVALID, param="files") from fault


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file.

    Raises:
        GraphError: the file cannot be read, is truncated or damaged.
    """
    with file_faults():
        source = Source(path)
        with source.open() as handle:
            packed = handle.read(len(_BZIP2)) == _BZIP2
        yield from _bunzip(source) if packed else source.chunks()


def array_items(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, element) of a file that is one JSON array.

    Raises:
        GraphError: the file is not one array.
    """
    with file_faults():
        yield from JsonStream(Source(path), chunks(path)).elements()


def member_items(path: Path, member: str) -> Iterator[tuple[int, Any]]:
    """Yield (line, element) of the array ``member`` of a file that is one JSON object; its other members are skipped.

    Raises:
        GraphError: the file is not one object, or has no such array.
    """
    with file_faults():
        yield from JsonStream(Source(path), chunks(path)).member_elements(member)


def lines(path: Path) -> Iterator[Line]:
    """Yield (number from 1, text without its line end); text that is not UTF-8 is None.

    Raises:
        GraphError: the file cannot be read, is truncated or damaged.
    """
    with file_faults():
        yield from split_lines(Source(path), chunks(path))


def _bunzip(source: Source) -> Iterator[bytes]:
    try:
        with bz2.open(source.path, "rb") as file:
            while block := file.read(262_144):
                yield block
    except (OSError, EOFError) as fault:
        raise source.error(f"the compressed data are damaged or cut ({fault})") from fault


def rows(source: Iterable[Line], place: RecordPosition, report: Report) -> Iterator[str]:
    """Yield the lines that are neither comments nor empty, advancing ``place``."""
    for number, text in source:
        place.line = number
        if text is None:
            report.add(str(place), "the line is not valid UTF-8")
        elif text and not text.startswith("#"):
            yield text


def parsed(
    values: Iterable[_Raw], parse: Callable[[_Raw], _Read], place: RecordPosition, report: Report
) -> Iterator[_Read]:
    """Yield what ``parse`` makes of each record; report those that it finds malformed, with their place."""
    for value in values:
        try:
            yield parse(value)
        except MalformedRecord as fault:
            report.add(str(place), fault)


def many(cell: str, separator: str = "|") -> tuple[str, ...]:
    """Return the distinct parts of a cell, in their order."""
    return tuple(dict.fromkeys(part for raw in cell.split(separator) if (part := raw.strip())))


def names(value: object, levels: int = 4) -> tuple[str, ...]:
    """Return the texts of a value that is a text, a number or a list up to ``levels`` deep, and none for other values.

    White space in each text is collapsed, so that it is one line.
    """
    if isinstance(value, str):
        # A lone surrogate is valid in JSON but not in a file.
        text = " ".join(value.encode("utf-8", "replace").decode().replace("\0", " ").split())
        return (text,) if text else ()
    if isinstance(value, bool) or value is None:
        return ()
    if isinstance(value, int | float):
        return (str(value),)
    if isinstance(value, Sequence) and levels:
        return tuple(dict.fromkeys(name for part in value for name in names(part, levels - 1)))
    return ()


def needed(value: object, what: str) -> str:
    """Return the value as a non-empty text.

    Raises:
        MalformedRecord: the value is missing, not a single text, or longer than MAX_CELL characters.
    """
    found = names(value)
    if len(found) != 1 or isinstance(value, list | tuple):
        raise MalformedRecord(f"{what} is missing or no text")
    if len(found[0]) > MAX_CELL:
        raise MalformedRecord(f"{what} is longer than {MAX_CELL} characters")
    return found[0]


def check_nesting(evidence: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes unchanged if they are not nested too deep to be rendered.

    Raises:
        MalformedRecord: they are nested deeper than 32 levels.
    """
    level: list[Any] = [evidence]
    for _ in range(_MAX_NESTING):
        parts = (part for value in level for part in (value.values() if isinstance(value, dict) else value))
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return evidence
    raise MalformedRecord("its attributes are nested too deep")


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        MalformedRecord: the text is not a JSON object.
    """
    try:
        found = json.loads(whole_characters(text))
    except (ValueError, RecursionError) as fault:
        raise MalformedRecord(f"no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise MalformedRecord("no JSON object")
    return found


Row = dict[str, str]
_MAX_COLUMNS: Final = 1000


def table(source: Iterable[Line], place: RecordPosition, report: Report) -> Iterator[Row]:
    """Yield the header (each column with its own name), then every row.

    Lines that begin with # before the header are comments. Cells that a row lacks at its end are empty, as spreadsheets
    leave them out.

    Raises:
        GraphError: the header is missing or has a column twice.
    """
    header: list[str] = []
    for number, text in source:
        place.line = number
        if text is None:
            if not header:
                raise GraphError(f"{place}: no table: the first line is no UTF-8", GRAPH_INVALID, param="files")
            report.add(str(place), "the line is not valid UTF-8")
        elif not header:
            if text.startswith("#") or not text.strip():
                continue
            header = [name.strip() for name in text.split("\t")]
            if len(set(header)) != len(header) or len(header) > _MAX_COLUMNS:
                raise GraphError(
                    f"{place}: no table: a column stands twice in the header", GRAPH_INVALID, param="files"
                )
            yield {name: name for name in header}
        elif text:
            cells = text.split("\t")
            if len(cells) > len(header):
                report.add(str(place), f"{len(cells)} columns, {len(header)} expected")
                continue
            yield dict(zip_longest(header, cells, fillvalue=""))
    if not header:
        raise GraphError(f"{place.file}: the file is empty", GRAPH_INVALID, param="files")
