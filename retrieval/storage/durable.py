"""Write files durably and atomically: a file is on the disk when a call returns, or it is absent.

Durable files of indices and stores are written through this module. ``Disk`` is the seam where tests substitute a full
or failing disk. It uses plain ``write`` calls: writing through a memory map kills the process when the disk is full.
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

from retrieval.storage.private_files import FILE_MODE

_BLOCK: Final = 1 << 20
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class FileDigest:
    """Describe a file as a manifest records it."""

    bytes: int
    sha256: str


class Disk:
    """Write, replace and remove files.

    System errors propagate as OSError (ENOSPC, EFBIG, EDQUOT, EROFS).
    """

    def write(self, path: Path, fill: Callable[[Callable[[bytes], int]], None]) -> FileDigest:
        """Create a file and return its size and digest; the file is on the disk when this returns.

        ``fill`` receives the function that appends a block. ``path`` must not exist.
        """
        digest, size = hashlib.sha256(), 0

        def put(data: bytes) -> int:
            nonlocal size
            self.write_block(handle, data)
            digest.update(data)
            size += len(data)
            return len(data)

        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            fill(put)
            os.fsync(handle)
        finally:
            os.close(handle)
        return FileDigest(size, digest.hexdigest())

    def write_block(self, handle: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the content of ``path`` atomically.

        A process killed at any moment leaves the old or the new content, never a part.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        draft.unlink(missing_ok=True)
        try:
            self.write(draft, lambda put: _once(put, data))
            draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
        sync(path.parent)

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files and folders.

        Files that cannot be removed stay, and the next cleaning tries them again.
        """
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush every file of the folder, and then the folder itself, to the disk."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def digest_file(path: Path) -> FileDigest:
    """Return the size and digest of a file, which is read in full."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return FileDigest(size, digest.hexdigest())


class FileLock:
    """Lock a file until ``close``; the system releases the lock of a killed process.

    ``shared`` locks admit several holders at once.
    """

    def __init__(self, path: Path, *, shared: bool = False, create: bool = True) -> None:
        """Open the file and lock it without waiting.

        Raises:
            BlockingIOError: another holder's lock excludes this one.
            OSError: the file cannot be opened.
        """
        flags = (os.O_RDONLY if shared else os.O_RDWR) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        self._handle = os.open(path, flags, FILE_MODE)
        try:
            fcntl.flock(self._handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise
        except OSError as fault:
            # Some network mounts do not support locks: reading continues there, writing must not.
            if not shared or fault.errno not in _NO_LOCKS:
                self.close()
                raise

    def read(self) -> bytes:
        """Return the locked file's content, even after its name was removed."""
        size = os.fstat(self._handle).st_size
        return os.pread(self._handle, size, 0)

    def is_gone(self) -> bool:
        """Return whether the file was removed after it was opened."""
        return os.fstat(self._handle).st_nlink == 0

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _once(put: Callable[[bytes], int], data: bytes) -> None:
    put(data)
