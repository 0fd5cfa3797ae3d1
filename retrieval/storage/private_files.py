"""Keep files and folders readable by their owner alone (0600, 0700), whatever the umask of the process is.

Libraries that create files by name (tantivy, FAISS, SQLite, BLAST+) know no mode: the command line sets the umask for
them, and the folders that are made here keep others out in a process that does not.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PRIVATE_UMASK: Final = 0o077
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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
