"""Verify the files of a tantivy folder by their checksum footers, which tantivy itself does not check.

A footer is JSON with the CRC-32 of all bytes before it, then the JSON's length and a magic number, both uint32
little-endian. ``meta.json`` names the current segments; files of others, left by a killed writer, are ignored.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from retrieval.index.errors import IndexDamaged

META: Final = "meta.json"
_MAGIC: Final = 1337
_TAIL: Final = struct.Struct("<II")
_BLOCK: Final = 2**20
# Every segment has these; files of deletions also have a number.
_SUFFIXES: Final = (".term", ".idx", ".pos", ".fieldnorm", ".fast", ".store")


def verify_files(folder: Path) -> None:
    """Check every byte of the current files, with constant memory.

    Raises:
        IndexDamaged: a file is missing, truncated or changed; the message names it.
    """
    try:
        meta = json.loads((folder / META).read_text("utf-8"))
        names = list(_names(meta))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(f"{folder / META} cannot be read: {error}") from error
    for name in names:
        path = folder / name
        try:
            with path.open("rb") as file:
                intact = _checksum(file) == _written_checksum(file)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise IndexDamaged(f"{path} cannot be read: {error}") from error
        if not intact:
            raise IndexDamaged(f"{path} is not what was written")


def _names(meta: dict[str, Any]) -> Iterator[str]:
    for segment in meta["segments"]:
        stem = segment["segment_id"].replace("-", "")
        yield from (stem + suffix for suffix in _SUFFIXES)
        if segment.get("deletes"):
            yield f"{stem}.{segment['deletes']['opstamp']}.del"


def _footer(file: BinaryIO) -> tuple[int, int]:
    """Return the offset of the footer and the length of its JSON."""
    end = file.seek(-_TAIL.size, 2)
    length, magic = _TAIL.unpack(file.read(_TAIL.size))
    if magic != _MAGIC or length > end:
        raise ValueError("no footer")
    return end - length, length


def _written_checksum(file: BinaryIO) -> int:
    begin, length = _footer(file)
    file.seek(begin)
    return int(json.loads(file.read(length))["crc"])


def _checksum(file: BinaryIO) -> int:
    left, _ = _footer(file)
    file.seek(0)
    checksum = 0
    while left > 0:
        block = file.read(min(_BLOCK, left))
        if not block:
            raise ValueError("cut while it was read")
        checksum = zlib.crc32(block, checksum)
        left -= len(block)
    return checksum
