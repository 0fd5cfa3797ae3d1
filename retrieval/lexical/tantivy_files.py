"""Check the files of a tantivy folder without tantivy, which ends the whole process over some changed bytes.

Each file of a segment ends with the CRC-32 of its content. ``meta.json``, which has none, is held against the digest
that the last commit left in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from models.files import parse_json
from retrieval.errors import IndexDamaged
from retrieval.lexical.base import identity, read_manifest, write_manifest

KIND: Final = "tantivy"
META: Final = "meta.json"
_COMMIT: Final = "commit"
_MAGIC: Final = 1337
_TAIL: Final = struct.Struct("<II")
_BLOCK: Final = 2**20
# Every segment has these; files of deletions also have a number.
_SUFFIXES: Final = (".term", ".idx", ".pos", ".fieldnorm", ".fast", ".store")
_MAX_TRIES: Final = 20
_Stamp = tuple[int, int, int]


class IntactFiles:
    """Remember which files were checked, so that each is read once as long as it stays the same.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Path, dict[str, _Stamp]] = {}

    def check(self, folder: Path) -> None:
        """Check the files of the last commit that were not checked before.

        Raises:
            IndexDamaged: a file is missing, truncated or changed; the message names it.
        """
        with self._lock:
            known = self._known.get(folder, {})
        checked = _checked(folder, known)
        with self._lock:
            self._known[folder] = checked


def verify_files(folder: Path) -> None:
    """Check every byte of the current files, with constant memory.

    Raises:
        IndexDamaged: a file is missing, truncated or changed; the message names it.
    """
    _checked(folder, {})


def record_commit(folder: Path) -> None:
    """Leave the digest of the last commit in the manifest, once its merges have ended.

    Where a kill prevents it, the digest is of an earlier commit and says nothing of this one.

    Raises:
        OSError: it cannot be written.
    """
    data = (folder / META).read_bytes()
    write_manifest(folder, identity(KIND) | {_COMMIT: _seal(data, json.loads(data))})


def _checked(folder: Path, known: Mapping[str, _Stamp]) -> dict[str, _Stamp]:
    """Check the files of which ``known`` has no equal stamp, and return the stamps of all.

    A writer removes the files of segments that it has merged; then the new ones are checked.
    """
    for _ in range(_MAX_TRIES):
        names, seen = _file_names(folder)
        try:
            return {name: _checked_file(folder / name, known.get(name)) for name in names}
        except IndexDamaged:
            if _file_names(folder)[1] == seen:
                raise
    raise IndexDamaged(f"{folder} changes faster than it can be checked")


def _file_names(folder: Path) -> tuple[list[str], bytes]:
    """Return the names of the segments' files, and the content of ``meta.json``."""
    commit = read_manifest(folder, KIND).get(_COMMIT)
    try:
        data = (folder / META).read_bytes()
        meta = parse_json(data)
        names = list(_names(meta))
        seal = _seal(data, meta)
        same_commit = isinstance(commit, dict) and commit["opstamp"] == seal["opstamp"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(f"{folder / META} cannot be read: {error}") from error
    if same_commit and commit != seal:
        raise IndexDamaged(f"{folder / META} is not what was written")
    return names, data


def _seal(data: bytes, meta: Mapping[str, Any]) -> dict[str, Any]:
    return {"opstamp": meta["opstamp"], "sha256": hashlib.sha256(data).hexdigest()}


def _names(meta: dict[str, Any]) -> Iterator[str]:
    for segment in meta["segments"]:
        stem = segment["segment_id"].replace("-", "")
        yield from (stem + suffix for suffix in _SUFFIXES)
        if segment.get("deletes"):
            yield f"{stem}.{segment['deletes']['opstamp']}.del"


def _checked_file(path: Path, known: _Stamp | None) -> _Stamp:
    try:
        state = path.stat()
        stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
        if stamp == known:
            return stamp
        with path.open("rb") as file:
            intact = _written_checksum(file) == _checksum(file)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise IndexDamaged(f"{path} cannot be read: {error}") from error
    if not intact:
        raise IndexDamaged(f"{path} is not what was written")
    return stamp


def _footer(file: BinaryIO) -> tuple[int, int]:
    """Return the offset of the footer and the length of its JSON."""
    end = file.seek(-_TAIL.size, 2)
    length, magic = _TAIL.unpack(file.read(_TAIL.size))
    if magic != _MAGIC or length > end:
        raise ValueError("no footer")
    return end - length, length


def _written_checksum(file: BinaryIO) -> object:
    begin, length = _footer(file)
    file.seek(begin)
    return parse_json(file.read(length))["crc"]


def _checksum(file: BinaryIO) -> int:
    remaining, _ = _footer(file)
    file.seek(0)
    checksum = 0
    while remaining > 0:
        block = file.read(min(_BLOCK, remaining))
        if not block:
            raise ValueError("cut while it was read")
        checksum = zlib.crc32(block, checksum)
        remaining -= len(block)
    return checksum
