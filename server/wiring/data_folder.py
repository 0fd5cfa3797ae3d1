"""Let one server at a time use a data folder, and give the folder a name that no other has.

Jobs, the rate of calls to NCBI and their cache are one process's: a second one on the same folder would refuse half of
the changes, and call twice as often as it may. Commands that only read, and those that change a namespace under its own
lock, work beside a server.
"""

from __future__ import annotations

import logging
import os
import uuid
from pathlib import Path
from typing import Final

from retrieval.storage.files import FileLock, make_folder
from server.settings.loading import SettingsInvalid, variable_name

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
        except BlockingIOError:
            raise SettingsInvalid(
                f"{variable_name('retrieval', 'data_dir')} (retrieval.data_dir): {_user(path)} uses {folder}: stop it, "
                "or give this one a folder of its own; state.url lets several servers share keys, rates and traces"
            ) from None
        except OSError as error:
            log.warning("the data folder cannot be locked for this server: %s: %s", folder, error.strerror)
            return
        self.name = _named(path)

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
    path.write_text(f"{name} {os.getpid()} {this}\n")
    return name


def _fields(path: Path) -> tuple[str, str, str]:
    """Return name, process and file of a lock file, each "" where there is none."""
    try:
        with path.open("rb") as file:
            words = file.read(_MAX_BYTES).decode(errors="replace").split()
    except OSError:
        words = []
    return (words[0], words[1], words[2]) if len(words) == 3 else ("", "", "")
