"""Keep a server's data to itself: one server at a time on a data folder, and no rights of other users on its files.

Jobs, the rate of calls to NCBI and their cache are one process's: a second one on the same folder would refuse half of
the changes, and call twice as often as it may. Commands that only read, and those that change a namespace under its own
lock, work beside a server.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.storage.files import FileLock, close_to_others, make_folder
from server.settings.loading import (
    SettingsInvalid,
    audit_path,
    gateway_dir,
    graphs_dir,
    keys_file,
    namespaces_dir,
    variable_name,
    xdg_dir,
)
from server.settings.schema import Settings

log = logging.getLogger(__name__)
_LOCK: Final = ".server.lock"
_MAX_BYTES: Final = 200


class DataFolder:
    """Hold the folder of a server's namespaces until ``close``, or until the process ends in any way.

    ``name``: the same at each start, and another one for a copy of the folder; "" where nothing can be written, and so
    nothing be changed either.
    """

    def __init__(self, folder: Path) -> None:
        """Lock the folder.

        Raises:
            SettingsInvalid: another server uses it.
        """
        self.name = ""
        self._lock: FileLock | None = None
        path = folder / _LOCK
        try:
            make_folder(folder)
            self._lock = FileLock(path)
            self.name = _named(path)
        except BlockingIOError:
            raise SettingsInvalid(
                f"{variable_name('retrieval', 'data_dir')} (retrieval.data_dir): {_user(path)} uses {folder}: stop it, "
                "or give this one a folder of its own; state.url lets several servers share keys, rates and traces"
            ) from None
        except OSError as error:
            log.warning("the data folder cannot be marked as this server's: %s: %s", folder, error.strerror)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _user(path: Path) -> str:
    _, process, _ = _fields(path)
    return f"another server (process {process})" if process else "another server"


def _named(path: Path) -> str:
    """Return the folder's name, and note in its lock file which process has it.

    A copied lock file is another file on the disk, so the copy of a folder gets a name of its own.
    """
    name, _, file = _fields(path)
    status = path.stat()
    this = f"{status.st_dev}:{status.st_ino}"
    if file != this or not name:
        name = uuid.uuid4().hex
    with path.open("r+") as held:  # a full disk takes no more than what is there, and leaves that
        held.write(f"{name} {os.getpid()} {this}\n")
        held.truncate()
    return name


def _fields(path: Path) -> tuple[str, str, str]:
    """Return name, process and file of a lock file, each "" where there is none."""
    try:
        with path.open("rb") as file:
            words = file.read(_MAX_BYTES).decode(errors="replace").split()
    except OSError:
        words = []
    return (words[0], words[1], words[2]) if len(words) == 3 else ("", "", "")


def protect_data(settings: Settings) -> None:
    """Take rights that others have on this server's data, e.g. from before it was run with a strict umask.

    A folder that the settings name for single files (``traces.dir``, that of ``audit.path``) may have others beside
    them, so only the server's own files are changed there.
    """
    protect(*_folders(settings), *_files(settings))


def protect(*paths: Path) -> None:
    """Take the rights that others have on these files and folders."""
    for path in paths:
        # The folder of a setting may be a link to another disk.
        if found := close_to_others(path.resolve()):
            log.warning("others had rights on %d files or folders: %s; now the owner alone has", found, path)


def _folders(settings: Settings) -> Iterator[Path]:
    for kind in ("data", "state", "cache"):
        yield xdg_dir(kind)
    yield from (gateway_dir(settings), graphs_dir(settings), namespaces_dir(settings))


def _files(settings: Settings) -> Iterator[Path]:
    from server.traces import FILE_NAME  # imports the records of the methods, for which commands would wait

    names = [audit_path(settings), keys_file(settings)]
    names += [settings.ncbi.cache_path] if settings.ncbi.cache_path else []
    names += [settings.traces.dir / FILE_NAME] if settings.traces.dir else []
    for name in names:
        if name.parent.is_dir():
            # With rotated files, locks, journals and drafts.
            yield from name.parent.glob(f"{name.name}*")
            yield from name.parent.glob(f".{name.name}*")
