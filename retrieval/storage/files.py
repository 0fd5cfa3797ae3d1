"""Write files and folders durably, atomically and for their owner alone (0600, 0700).

A file is on the disk when a call returns, or it is absent, whatever the umask of the process is. Durable files of
indices and stores are written through this module. ``Disk`` is the seam where tests substitute a full or failing disk.
It uses plain ``write`` calls: writing through a memory map kills the process when the disk is full. Libraries that
create files by name (tantivy, FAISS, SQLite, BLAST+) know no mode: the command line sets the umask for them, and the
folders that are made here keep others out in a process that does not.

Folders are replaced as a whole: a kill at any moment leaves the old or the new one, complete. Linux exchanges two
folders in one system call (renameat2). Where the file system does not support it, the old one is moved aside first;
``recover`` restores it if the process died in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.files import take_lock
from retrieval.errors import INDEX_NOT_WRITTEN, IndexFault

PRIVATE_UMASK: Final = 0o077
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_BLOCK: Final = 1 << 20
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """Let this process and its children create files for their owner alone."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def make_folder(path: Path) -> None:
    """Create a folder with those above it, as far as they are missing, each for its owner alone.

    Raises:
        OSError: a folder cannot be created, or a file has its name.
    """
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
        if path == path.parent:
            break
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_filled_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Create the folder of a new index atomically from the files that ``fill`` makes.

    Does nothing where the folder has files. A kill leaves no index, and at most a folder ``.name.build-…`` beside.

    Raises:
        IndexFault: it could not be created.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            return
        make_folder(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.build-", dir=folder.parent))
        try:
            fill(draft)
            draft.rename(folder)
            sync(folder.parent)
        except OSError:
            # Another process may have created it in the meantime.
            if not folder.is_dir() or not any(folder.iterdir()):
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise IndexFault(f"{folder} could not be made: {error}", INDEX_NOT_WRITTEN) from error


def create_file(path: Path) -> None:
    """Create an empty file for its owner alone, which a library will then open by its name; an existing one stays."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def close_to_others(path: Path) -> int:
    """Take all rights on a file, or a folder and all below it, from group and others, and return how many had some.

    Links are not followed, and what belongs to another user or a read-only file system stays as it is. So does a
    folder that all users share (sticky, like /tmp), with all below it.
    """
    found = 0
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
            return 0
        if status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
            found += 1
        if stat.S_ISDIR(status.st_mode):
            found += sum(close_to_others(Path(entry)) for entry in os.scandir(path))
    return found


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


def create_draft(target: Path) -> Path:
    """Create an empty folder, its owner's alone, beside ``target`` with a name derived from the target's."""
    return Path(tempfile.mkdtemp(prefix=f".{target.name}.build-", dir=target.parent))


def replace_folder(draft: Path, target: Path) -> None:
    """Replace ``target`` with ``draft`` and sync the result to disk.

    The old folder is removed; after a kill it may remain beside ``target``.
    """
    sync_folder(draft)
    if not target.exists():
        draft.rename(target)
    elif not _exchanged(draft, target):
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
        target.rename(aside)
        draft.rename(target)
        sync(target.parent)
        shutil.rmtree(aside, ignore_errors=True)
    sync(target.parent)
    shutil.rmtree(draft, ignore_errors=True)


def recover(target: Path) -> None:
    """Remove what a killed builder of ``target`` left, and restore a target that was moved aside.

    The caller must hold the target's lock.
    """
    aside = sorted(target.parent.glob(f".{target.name}.old-*"))
    if aside and not target.exists():
        aside.pop().rename(target)
    for leftover in (*aside, *target.parent.glob(f".{target.name}.build-*")):
        shutil.rmtree(leftover, ignore_errors=True)


def recover_all(directory: Path) -> list[str]:
    """Call ``recover`` for every folder of ``directory`` that was built here and is not being built now.

    Returns the names of those of which something was left. Folders that cannot be written, and hidden folders of a
    name without a builder's lock file, are left alone.
    """
    names = {path.name.split(".")[1] for kind in ("build", "old") for path in directory.glob(f".*.{kind}-*")}
    recovered = []
    for name in sorted(name for name in names if _lock_of(directory / name).exists()):
        with contextlib.suppress(OSError), build_lock(directory / name, wait_s=0):
            recover(directory / name)
            recovered.append(name)
    return recovered


@contextlib.contextmanager
def build_lock(target: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of ``target``, which the kernel releases when the process dies.

    Raises:
        TimeoutError: another process still holds the lock after ``wait_s`` seconds.
    """
    handle = os.open(_lock_of(target), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        if not take_lock(handle, wait_s):
            raise TimeoutError(f"{target.name} is being built by another process")
        yield
    finally:
        os.close(handle)


def _lock_of(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def _exchanged(left: Path, right: Path) -> bool:
    """Exchange two folders; return False if the system or the file system does not support it."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if call(_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(right))
