"""Read the values of a JSON file, be it lines, one array or one object, and take text out of values of any type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import JSON_TOO_DEEP, is_json_too_deep, whole_characters

MAX_PAPER: Final = 64 * 2**20


def json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) of a file of JSON: each element of an array, each line, or the file as one value.

    Raises:
        DocumentUnreadable: it is no JSON, or nested too deep; one value has more than 64 MiB.
    """
    source = Source(path, max_line=MAX_PAPER)
    if _begins_with(source, "["):
        yield from JsonStream(source, source.chunks(), max_value=MAX_PAPER).elements()
        return
    lines = source.lines()
    number, first = next(((number, line) for number, line in lines if line is None or line.strip()), (0, ""))
    if (value := _parsed(first or "")) is not None:
        yield number, value
        for number, line in lines:
            if line is None or line.strip():
                yield number, _parsed(line or "")
        return
    whole = _parsed(_whole(source))
    if whole is None:
        raise DocumentUnreadable(f"{path}: it is no JSON, or {JSON_TOO_DEEP}")
    yield 1, whole


def _begins_with(source: Source, sign: str) -> bool:
    head = next((chunk for chunk in source.chunks() if chunk.strip()), b"")
    return head.decode("utf-8-sig", "replace").lstrip().startswith(sign)


def _whole(source: Source) -> str:
    parts, size = [], 0
    for chunk in source.chunks():
        size += len(chunk)
        if size > MAX_PAPER:
            raise DocumentUnreadable(
                f"{source.path}: one value of JSON has more than {MAX_PAPER} bytes", DOCUMENT_TOO_LARGE
            )
        parts.append(chunk)
    return b"".join(parts).decode("utf-8-sig", "replace")


def _parsed(text: str) -> Any:
    """Return the value, None for text that is no JSON or nested too deep."""
    try:
        value = json.loads(whole_characters(text))
    except (ValueError, RecursionError):
        return None
    return None if is_json_too_deep(value) else value


def strings(value: object) -> str:
    """Return a value that is text on one line, "" for any other."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
