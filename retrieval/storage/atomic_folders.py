"""Replace a folder atomically: a kill at any moment leaves the old or the new one, complete.

Linux exchanges two folders in one system call (renameat2). Where the file system does not support it, the old one is
moved aside first; ``recover`` restores it if the process died in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.storage.durable import sync, sync_folder
from retrieval.storage.private_files import FILE_MODE

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_POLL_S: Final = 0.1


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


def recover_all(directory: Path) -> None:
    """Call ``recover`` for every folder of ``directory`` that was built here and is not being built now.

    Folders that cannot be written, and hidden folders of a name without a builder's lock file, are left alone.
    """
    names = {path.name.split(".")[1] for kind in ("build", "old") for path in directory.glob(f".*.{kind}-*")}
    for name in (name for name in names if _lock_of(directory / name).exists()):
        with contextlib.suppress(OSError), build_lock(directory / name, wait_s=0):
            recover(directory / name)


@contextlib.contextmanager
def build_lock(target: Path, wait_s: float) -> Iterator[None]:
    """Hold the lock of ``target``, which the kernel releases when the process dies.

    Raises:
        TimeoutError: another process still holds the lock after ``wait_s`` seconds.
    """
    handle = os.open(_lock_of(target), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        until = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise TimeoutError(f"{target.name} is being built by another process") from None
                time.sleep(_POLL_S)
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
