"""Keep the jobs of one server on its disk, each with its upload in a folder of its own, so that no kill loses one.

``.jobs/ID/`` in the folder of the namespaces has ``job.json`` and, until the job has ended, ``upload/NAME``, its file.
A job's folder appears by one rename, complete; ``job.json`` is replaced at once. All is the owner's alone.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from models.files import parse_json
from retrieval.storage.files import FOLDER_MODE, Disk, make_folder, sync
from server.errors import UPLOAD_NOT_WRITTEN, RequestError
from server.jobs.queue import JobStatus, WorkOrder

log = logging.getLogger(__name__)
FOLDER: Final = ".jobs"
_ROW: Final = "job.json"
_UPLOAD: Final = "upload"
_DRAFT: Final = ".draft-"
_STATUS: Final = TypeAdapter(JobStatus)  # also sees where damage has changed a type


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """Describe a job as the disk has it.

    ``place``: its place in the order of submission. ``order`` None: only the process that submitted it could do it, or
    it has ended. ``attempts``: how often a process began it.
    """

    place: int
    status: JobStatus
    order: WorkOrder | None
    attempts: int = 0


class JobFolder:
    """Write and read the jobs of one server, which alone uses the folder.

    Thread-safe, and blocking.
    """

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        """``root`` is the folder of the namespaces, which need not exist yet."""
        self._folder = root / FOLDER
        self._disk = disk or Disk()
        self._lock = threading.Lock()
        self._place = 0
        self._known: dict[str, StoredJob] = {}

    def add(self, status: JobStatus, order: WorkOrder | None) -> WorkOrder | None:
        """Store a new job; return its order, whose file now is the job's own: it was moved here.

        Raises:
            RequestError: the disk does not take it; nothing is stored.
        """
        draft = self._folder / f"{_DRAFT}{status.id}"
        try:
            make_folder(self._folder)
            draft.mkdir(mode=FOLDER_MODE)
            name = None if order is None or order.file is None else self._moved(order.file, draft)
            with self._lock:
                self._place += 1
                job = StoredJob(place=self._place, status=status, order=order)
            self._disk.replace(draft / _ROW, _row_of(job, name))
            home = self._folder / status.id
            draft.rename(home)
            sync(self._folder)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise RequestError(f"the change cannot be kept: {error.strerror}", UPLOAD_NOT_WRITTEN) from error
        if order is not None and name is not None:
            order = replace(order, file=home / _UPLOAD / name)
        with self._lock:
            self._known[status.id] = replace(job, order=order)
        return order

    def begin(self, status: JobStatus) -> None:
        """Note that the job is begun; a failure is logged, and the job goes on."""
        self._change(status, lambda job: replace(job, status=status, attempts=job.attempts + 1))

    def write(self, status: JobStatus) -> None:
        """Note how a job is now; a failure is logged."""
        self._change(status, lambda job: replace(job, status=status))

    def release(self, status: JobStatus) -> None:
        """Note that the end of this process, which is no fault of the job, cuts it short."""
        self._change(status, lambda job: replace(job, attempts=max(0, job.attempts - 1)))

    def end(self, status: JobStatus) -> None:
        """Note the end of a job and remove its file; a failure is logged: at worst the job is done again."""
        self._change(status, lambda job: replace(job, status=status, order=None))
        shutil.rmtree(self._folder / status.id / _UPLOAD, ignore_errors=True)

    def remove(self, job_id: str) -> None:
        with self._lock:
            known = self._known.pop(job_id, None)
        if known is not None:
            shutil.rmtree(self._folder / job_id, ignore_errors=True)

    def load(self) -> list[StoredJob]:
        """Read what earlier processes left, in the order of submission; remove what they did not store to the end."""
        found = []
        for folder in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if folder.name.startswith(_DRAFT):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            try:
                found.append(_stored_job(folder))
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.error("a stored job cannot be read, and stays: id=%s cause=%s", folder.name, type(error).__name__)
        found.sort(key=lambda job: job.place)
        with self._lock:
            self._known |= {job.status.id: job for job in found}
            self._place = max((job.place for job in found), default=self._place)
        return found

    def _moved(self, file: Path, draft: Path) -> str:
        """Move an uploaded file, which is on the same file system, and return its name."""
        (draft / _UPLOAD).mkdir(mode=FOLDER_MODE)
        sync(file)
        file.rename(draft / _UPLOAD / file.name)
        sync(draft / _UPLOAD)
        return file.name

    def _change(self, status: JobStatus, changed: Callable[[StoredJob], StoredJob]) -> None:
        with self._lock:
            job = self._known.get(status.id)
            if job is None:
                return
            job = self._known[status.id] = changed(job)
        try:
            name = job.order.file.name if job.order and job.order.file else None
            self._disk.replace(self._folder / status.id / _ROW, _row_of(job, name))
        except OSError as error:
            log.error("the state of a job is not stored: id=%s cause=%s", status.id, error.strerror)


def _row_of(job: StoredJob, file: str | None) -> bytes:
    arguments = None if job.order is None else job.order.arguments
    row = {"place": job.place, "attempts": job.attempts, "arguments": arguments, "file": file}
    return json.dumps(row | {"status": asdict(job.status)}).encode()


def _stored_job(folder: Path) -> StoredJob:
    row: Mapping[str, Any] = parse_json((folder / _ROW).read_bytes())
    status = _STATUS.validate_python(row["status"])
    if status.id != folder.name:
        raise ValueError("another job's")
    order = None
    if row["arguments"] is not None:
        file = None if row["file"] is None else folder / _UPLOAD / Path(row["file"]).name
        order = WorkOrder(dict(row["arguments"]), file)
    return StoredJob(place=int(row["place"]), status=status, order=order, attempts=int(row["attempts"]))
