"""Append traces to a file of bounded size, in which no key can push out those of another.

At its bound the file is compacted to half of it: of the keys that hold the most, the oldest traces go first. Several
processes may share the file; a lock file beside it separates their lines and compactions.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from retrieval.storage.files import FILE_MODE, make_folder

FILE_NAME: Final = "traces.jsonl"
_KEY: Final = re.compile(rb'\{"key_id": "([0-9a-f]*)", ')
_HEAD: Final = 64


class TraceFile:
    """Append lines to ``traces.jsonl`` in a folder, at most ``max_bytes``; safe between threads and processes."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._max_bytes = max_bytes

    def append(self, key_id: str, json_object: str) -> bool:
        """Append one trace, and return False if it alone exceeds the bound and was left out.

        Raises:
            OSError: the line is not in the file.
        """
        line = f'{{"key_id": "{key_id}", {json_object[1:]}\n'.encode()
        if len(line) > self._max_bytes:
            return False
        make_folder(self._folder)
        with self._locked():
            if self._size() + len(line) > self._max_bytes:
                self._compact(max(0, min(self._max_bytes // 2, self._max_bytes - len(line))))
            self._write(line)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._path.with_name(f".{FILE_NAME}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _write(self, line: bytes) -> None:
        """Append the whole line or nothing, as a full disk can take a part."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        try:
            before = os.fstat(descriptor).st_size
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, before)
                raise OSError(28, "No space left on device")
        finally:
            os.close(descriptor)

    def _compact(self, target: int) -> None:
        """Keep at most ``target`` bytes; a kill leaves the old or the new file."""
        with self._path.open("rb") as old:
            owners = [(_key_of(line), len(line)) for line in old]
        kept = _fair(owners, target)
        draft = self._path.with_name(f".{FILE_NAME}.draft")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with self._path.open("rb") as old, os.fdopen(descriptor, "wb") as new:
            new.writelines(line for at, line in enumerate(old) if at in kept)
            new.flush()
            os.fsync(new.fileno())
        draft.replace(self._path)


def _key_of(line: bytes) -> bytes:
    found = _KEY.match(line[:_HEAD])
    return found[1] if found else b""


def _fair(owners: list[tuple[bytes, int]], target: int) -> set[int]:
    """Return the indices of the lines to keep: of each owner the newest, as many as fit its fair share of ``target``.

    What owners do not use of their shares is divided among the others.
    """
    totals: defaultdict[bytes, int] = defaultdict(int)
    for owner, size in owners:
        totals[owner] += size
    share = _level(totals.values(), target)
    kept: set[int] = set()
    used: defaultdict[bytes, int] = defaultdict(int)
    for at in range(len(owners) - 1, -1, -1):
        owner, size = owners[at]
        used[owner] += size
        if used[owner] <= share:
            kept.add(at)
    return kept


def _level(totals: Iterable[int], target: int) -> int:
    """Return the greatest share so that all totals, each cut to it, come to at most ``target``."""
    waiting = sorted(totals)
    left = target
    for at, total in enumerate(waiting):
        share = left // (len(waiting) - at)
        if total > share:
            return share
        left -= total
    return target
