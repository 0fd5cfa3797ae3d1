"""Opens a graph's file for streaming (plain, gzip, bzip2, told by content) and counts what is passed over."""

from __future__ import annotations

import bz2
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from retrieval.gateway.errors import ImportFileError
from retrieval.gateway.importing.sources import Line, Source, split_lines
from retrieval.graph.errors import GraphFileInvalid

_BZIP2: Final = b"BZh"
_KEPT: Final = 20
_MAX_REASON: Final = 200
MAX_CELL: Final = 65_536
_MAX_NESTING: Final = 32


class MalformedRecord(ValueError):
    """Inside a loader: this record is passed over, with the text as its reason."""


@dataclass(slots=True)
class Report:
    """What was passed over. ``first``: (file:line, reason) of the first ones."""

    passed: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)

    def add(self, place: str, reason: object) -> None:
        self.passed += 1
        if len(self.first) < _KEPT:
            text = " ".join(str(reason).split())
            self.first.append((place, text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"))


@dataclass(slots=True)
class Place:
    """Where a loader stands: the record it yielded last."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@contextmanager
def file_faults() -> Iterator[None]:
    """Faults of the file itself as the graph's own error."""
    try:
        yield
    except ImportFileError as fault:
        raise GraphFileInvalid(fault.message, param="files") from fault


def chunks(path: Path) -> Iterator[bytes]:
    """The file's bytes, unpacked. Raises GraphFileInvalid where it cannot be read, is cut or damaged."""
    with file_faults():
        source = Source(path)
        with source.open() as handle:
            packed = handle.read(len(_BZIP2)) == _BZIP2
        yield from _bunzip(source) if packed else source.chunks()


def lines(path: Path) -> Iterator[Line]:
    """(number from 1, text without its end); None for a line that is no UTF-8. Raises as ``chunks``."""
    with file_faults():
        yield from split_lines(Source(path), chunks(path))


def _bunzip(source: Source) -> Iterator[bytes]:
    try:
        with bz2.open(source.path, "rb") as file:
            while block := file.read(262_144):
                yield block
    except (OSError, EOFError) as fault:
        raise source.error(f"the compressed data are damaged or cut ({fault})") from fault


def rows(source: Iterable[Line], place: Place, report: Report) -> Iterator[str]:
    """The lines that are no comment and not blank; ``place`` moves along."""
    for number, text in source:
        place.line = number
        if text is None:
            report.add(str(place), "the line is not valid UTF-8")
        elif text and not text.startswith("#"):
            yield text


def many(cell: str, separator: str = "|") -> tuple[str, ...]:
    """The distinct parts of a cell, in their order."""
    return tuple(dict.fromkeys(part for raw in cell.split(separator) if (part := raw.strip())))


def names(value: object, levels: int = 4) -> tuple[str, ...]:
    """Texts of a value that graphs give as text, number or list, ``levels`` deep; nothing else is one. Each is on one
    line."""
    if isinstance(value, str):
        # Half a surrogate pair is allowed in JSON and in no file.
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
    """The value as a text that is not empty, else MalformedRecord."""
    found = names(value)
    if len(found) != 1 or isinstance(value, list | tuple):
        raise MalformedRecord(f"{what} is missing or no text")
    if len(found[0]) > MAX_CELL:
        raise MalformedRecord(f"{what} is longer than {MAX_CELL} characters")
    return found[0]


def flat_enough(evidence: dict[str, Any]) -> dict[str, Any]:
    """The attributes as they are; MalformedRecord where they are nested deeper than whoever tells them can follow."""
    level: list[Any] = [evidence]
    for _ in range(_MAX_NESTING):
        parts = (part for value in level for part in (value.values() if isinstance(value, dict) else value))
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return evidence
    raise MalformedRecord("its attributes are nested too deep")


def json_object(text: str) -> dict[str, Any]:
    """MalformedRecord where the text is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise MalformedRecord(f"no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise MalformedRecord("no JSON object")
    return found
