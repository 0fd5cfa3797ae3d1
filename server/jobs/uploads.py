"""Store uploaded files while a job reads them, in a private folder beside the namespaces."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import threading
import uuid
from pathlib import Path
from typing import IO, Final

from retrieval.storage.files import FILE_MODE, FOLDER_MODE, FileLock, make_folder
from server.errors import QUEUE_FULL, UPLOAD_NOT_WRITTEN, UPLOAD_TOO_LARGE, RequestError
from server.jobs.job_folder import FOLDER

log = logging.getLogger(__name__)
_PREFIX: Final = ".uploads-"
_LOCK: Final = "lock"
_MAX_NAME: Final = 200  # bytes; file systems take 255
_NO_NAME: Final = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")


class Upload:
    """Write one uploaded file, from one thread at a time."""

    def __init__(self, folder: Path, filename: str, max_bytes: int) -> None:
        self.filename = filename
        self.path = folder / filename
        self.size = 0
        self._folder = folder
        self._max_bytes = max_bytes
        folder.mkdir(mode=FOLDER_MODE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file: IO[bytes] = os.fdopen(os.open(self.path, flags, FILE_MODE), "wb")

    def write(self, data: bytes) -> None:
        """Append to the file.

        Raises:
            RequestError: the file exceeds the limit, or the disk does not take the data.
        """
        self.size += len(data)
        if self.size > self._max_bytes:
            raise RequestError(f"the file is longer than {self._max_bytes} bytes", UPLOAD_TOO_LARGE)
        try:
            self._file.write(data)
        except OSError as error:
            raise RequestError(f"the file cannot be kept: {error.strerror}", UPLOAD_NOT_WRITTEN) from error

    def close(self) -> None:
        """Close the complete file.

        Raises:
            RequestError: the disk does not take the rest of the data.
        """
        try:
            self._file.close()
        except OSError as error:
            raise RequestError(f"the file cannot be kept: {error.strerror}", UPLOAD_NOT_WRITTEN) from error

    def discard(self) -> None:
        try:
            self._file.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


class Uploads:
    """Manage the uploaded files of one process.

    Thread-safe. Files that a killed process left are removed at the start of the next process, or at its first upload.
    """

    def __init__(self, root: Path, *, max_bytes: int, at_once: int) -> None:
        """Set folder and limits.

        ``root`` is the namespaces' folder and may not exist yet; at most ``at_once`` files are received at a time.
        """
        self._root = root
        self._max_bytes = max_bytes
        self._at_once = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._folder_lock: FileLock | None = None

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    def begin(self) -> None:
        """Reserve one of the concurrent uploads; ``end`` releases it.

        Raises:
            QUEUE_FULL: all of them are in use.
        """
        if not self._at_once.acquire(blocking=False):
            raise RequestError("as many files as may are coming in", QUEUE_FULL)

    def end(self) -> None:
        self._at_once.release()

    def open(self, filename: str) -> Upload:
        """Create an empty file for an upload.

        Raises:
            RequestError: the name is not a valid file name.
            RequestError: the file cannot be created.
        """
        checked_filename(filename)
        try:
            return Upload(self._own_folder() / uuid.uuid4().hex, filename, self._max_bytes)
        except OSError as error:
            raise RequestError(f"the file cannot be kept: {error.strerror}", UPLOAD_NOT_WRITTEN) from error

    def sweep(self) -> None:
        """Remove the files that killed processes left: no job was accepted for them."""
        for other in self._root.glob(f"{_PREFIX}*"):
            _remove_if_unlocked(other)

    def _own_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                make_folder(self._root)
                self.sweep()
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._root))  # readable by the owner alone
                self._folder_lock = FileLock(folder / _LOCK)
                self._folder = folder
            return self._folder

    def close(self) -> None:
        with self._lock:
            if self._folder is not None and self._folder_lock is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder_lock.close()
            self._folder = self._folder_lock = None

    def conceal(self, text: str) -> str:
        """Return the text without local paths; names of files and namespaces remain."""
        own = rf"{re.escape(_PREFIX)}[^/]+/[0-9a-f]+/|{re.escape(FOLDER)}/[^/]+/upload/"
        places = [rf"{re.escape(str(self._root))}/(?:{own})?"]
        places.append(rf"{re.escape(tempfile.gettempdir())}/arrowhead-[^/]+/")  # where replies of NCBI are read
        return re.sub("|".join(places), "", text)


def checked_filename(filename: str, param: str = "filename") -> str:
    """Return the name of a file.

    Raises:
        RequestError: it is not one that a file can have; ``param`` names the field.
    """
    if not filename or _NO_NAME.search(filename) or filename[0] == "." or len(filename.encode()) > _MAX_NAME:
        raise RequestError(f"{param}: a name without slashes, at most {_MAX_NAME} bytes, is needed", param=param)
    return filename


def _remove_if_unlocked(folder: Path) -> None:
    """Delete and log an upload folder that has a lock file and that no process has locked.

    A folder without a lock file is one that is being created, or an incomplete one that a killed process left.
    """
    try:
        lock = FileLock(folder / _LOCK, create=False)
    except OSError:
        return
    count = sum(path.is_file() for path in folder.glob("*/*"))
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()
    log.warning("removed uploads that a killed process left: files=%d", count)
