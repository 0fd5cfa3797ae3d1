"""Files that are on the disk when a call returns, or not there at all. Everything durable of an index goes through it.

``Disk`` is the seam: tests put a full or failing one in its place. Its writes are plain ``write`` calls: a file that is
written through a memory map kills the process where the disk is full.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = 1 << 20
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class FileFact:
    """What a manifest knows of a file."""

    bytes: int
    sha256: str


class Disk:
    """Writes files and removes them. OSError of the system goes through (ENOSPC, EFBIG, EDQUOT, EROFS)."""

    def write(self, path: Path, fill: Callable[[Callable[[bytes], int]], None]) -> FileFact:
        """A new file of what ``fill`` gives to the function it is called with; on the disk when this returns."""
        digest, size = hashlib.sha256(), 0

        def put(data: bytes) -> int:
            nonlocal size
            self.write_block(handle, data)
            digest.update(data)
            size += len(data)
            return len(data)

        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fill(put)
            os.fsync(handle)
        finally:
            os.close(handle)
        return FileFact(size, digest.hexdigest())

    def write_block(self, handle: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def replace(self, path: Path, data: bytes) -> None:
        """``path`` holds ``data``, or what it held before: never a part, whenever the process is killed."""
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        draft.unlink(missing_ok=True)
        try:
            self.write(draft, lambda put: _once(put, data))
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        sync(path.parent)

    def remove(self, paths: Iterable[Path]) -> None:
        """Files and folders; what cannot be removed stays and is tried again by the next cleaning."""
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """A file's content, or a folder's list of names, onto the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Every file of the folder, and then the folder itself."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def fact_of(path: Path) -> FileFact:
    """By reading all of the file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return FileFact(size, digest.hexdigest())


class FileLock:
    """A lock on a file that a killed process loses by itself. ``shared`` for many at once. Released by ``close``."""

    def __init__(self, path: Path, *, shared: bool = False, create: bool = True) -> None:
        """BlockingIOError where another one holds it against this one; OSError where the file cannot be opened."""
        flags = (os.O_RDONLY if shared else os.O_RDWR) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o644)
        try:
            fcntl.flock(self._handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise
        except OSError as fault:
            # A file system without locks (some network mounts): reading goes on, writing must not.
            if not shared or fault.errno not in _NO_LOCKS:
                self.close()
                raise

    def read(self) -> bytes:
        """The locked file's content, also after its name is gone."""
        size = os.fstat(self._handle).st_size
        return os.pread(self._handle, size, 0)

    def is_gone(self) -> bool:
        """Whether the file was removed after it was opened."""
        return os.fstat(self._handle).st_nlink == 0

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _once(put: Callable[[bytes], int], data: bytes) -> None:
    put(data)
