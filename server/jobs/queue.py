"""Define the queue of background changes to namespaces, and do the work of one of its jobs on the current thread.

Knows no HTTP and nothing of what a change does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from server.error_mapping import ErrorReply, error_reply
from server.errors import KEY_FULL, QUEUE_FULL, RequestError
from server.observability.observer import request_id

log = logging.getLogger(__name__)

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: Final[frozenset[JobState]] = frozenset(("done", "failed", "cancelled"))
# A job whose servers ended so often may be what ends them.
MAX_ATTEMPTS: Final = 3
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Bound the jobs that run at once, wait, wait for one key, and are stored after their end.

    Where one key holds all places of ``running``, one job more runs for the next key. ``grace_s`` is the time for
    running jobs to stop when the server ends.
    """

    running: int = 2
    waiting: int = 64
    waiting_per_key: int = 32
    kept: int = 200
    grace_s: float = 10.0

    def check_room(self, waiting: int, of_key: int) -> None:
        """Check that one job more may wait where so many do, ``of_key`` of them of its key.

        Raises:
            QUEUE_FULL: as ``JobQueue.submit`` says.
        """
        if of_key >= self.waiting_per_key:
            raise RequestError(f"{self.waiting_per_key} changes of this key are waiting already", KEY_FULL)
        if waiting >= self.waiting:
            raise RequestError(f"{self.waiting} changes are waiting already", QUEUE_FULL)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Describe a job.

    ``owner`` is a digest of the key, "" without keys.
    """

    kind: str
    namespace: str
    owner: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold the result of a job's work.

    ``cancelled`` is whether it stopped on request, ``error`` what ended it; ``result`` is then what was done before.
    """

    result: Mapping[str, Any]
    cancelled: bool = False
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """Describe a job as it was at one moment.

    Times are Unix time, 0 for what has not happened yet. ``cancelling``: cancellation was requested and the job has not
    ended. ``error`` is set where the state is "failed".
    """

    id: str
    spec: JobSpec
    state: JobState
    cancelling: bool
    created: int
    started: int = 0
    finished: int = 0
    progress: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    error: ErrorReply | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the job for its owner; times are None for what has not happened yet."""
        return {
            "id": self.id,
            "object": "job",
            "kind": self.spec.kind,
            "namespace": self.spec.namespace,
            "state": self.state,
            "cancelling": self.cancelling,
            "created": self.created,
            "started": self.started or None,
            "finished": self.finished or None,
            "progress": self.progress,
            "result": self.result,
            "error": self.error.body["error"] if self.error else None,
        }


class Job:
    """Connect the work of a job, which runs on a thread, with its queue.

    Safe from many threads. ``loop``: the event loop that the queue is called on, None before it has the job.
    """

    def __init__(self, spec: JobSpec, job_id: str = "") -> None:
        """Describe a new job, or with ``job_id`` one that another process submitted."""
        self.id = job_id or f"job-{uuid.uuid4().hex}"
        self.spec = spec
        self.progress: Mapping[str, Any] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = threading.Event()
        self._on_cancel: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def report(self, progress: Mapping[str, Any]) -> None:
        """Merge ``progress`` into the earlier progress; equal names are replaced."""
        self.progress = {**(self.progress or {}), **progress}

    def is_cancelled(self) -> bool:
        """Return whether cancellation was requested."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled.set()
            calls, self._on_cancel = self._on_cancel, []
        for call in calls:
            call()

    def on_cancel(self, call: Callable[[], None]) -> None:
        """Run ``call`` on cancellation, at once where it was requested already.

        ``call`` must not block.
        """
        with self._lock:
            if not self._cancelled.is_set():
                self._on_cancel.append(call)
                return
        call()

    def run_on(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` on the loop, block until it ends, and return its result.

        Raises:
            concurrent.futures.CancelledError: the job was cancelled; raised only when ``work`` has cleaned up.
        """

        async def main() -> _T:
            task = asyncio.current_task()
            assert task is not None
            self.on_cancel(lambda: _stop(loop, task))
            return await work

        return asyncio.run_coroutine_threadsafe(main(), loop).result()


def _stop(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    loop.call_soon_threadsafe(task.cancel)


Work = Callable[[Job], Outcome]


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """Describe the work of a job so that another process can do it too.

    ``arguments``: what the job's kind needs, as JSON has it. ``file``: its uploaded file, under its own name.
    """

    arguments: Mapping[str, Any]
    file: Path | None = None


Perform = Callable[[Job, WorkOrder], Outcome]


@dataclass(frozen=True, slots=True)
class OrderedWork:
    """Do the work of an order; only such work outlives the process that submitted it."""

    order: WorkOrder
    perform: Perform

    def __call__(self, job: Job) -> Outcome:
        return self.perform(job, self.order)

    def with_file(self, path: Path) -> OrderedWork:
        """Return the work with another copy of its file."""
        return replace(self, order=replace(self.order, file=path))


class JobQueue(Protocol):
    """Queue and run jobs: few at once, one at a time for each namespace; keys take turns.

    The jobs of one key run in the order of their submission within each namespace. A key with many jobs delays another
    key's next one by no more than the jobs that run.

    Called by the tasks of one event loop; work runs on threads. Servers that share a queue also share the rule of one
    job at a time for each namespace, and may do the work of each other's ``OrderedWork``; any other work runs in the
    process that submitted it, as it may need what that process has.
    """

    def start(self, perform: Perform) -> None:
        """Begin to run the jobs of other servers, where servers share the queue, and those that an ended one left.

        ``perform`` does the work of their orders. Jobs of this process run without a start.
        """

    async def submit(self, spec: JobSpec, work: Work, cleanup: Callable[[], None] = lambda: None) -> JobStatus:
        """Queue a job and return it.

        ``cleanup`` runs once, however the job ends, on any thread. It does not run where this method raises or is
        cancelled: the job is then not queued.

        Raises:
            QUEUE_FULL: the queue is full, or the server ends, or the owner has as many jobs waiting as it may.
        """

    async def check_room(self, owner: str) -> None:
        """Check, before a long upload, that the queue has room for a job of ``owner``.

        Raises:
            QUEUE_FULL: the queue is full, or the owner has as many jobs waiting as it may.
        """

    async def get(self, job_id: str, owner: str) -> JobStatus:
        """Return a job of ``owner``.

        Raises:
            RequestError: there is no such job, it is no longer stored, or it belongs to another key.
        """

    async def of(self, owner: str | None) -> list[JobStatus]:
        """Return the owner's jobs, None for those of all, newest first.

        They are all that have not ended, and the newest of the others.
        """

    async def wait(self, job: JobStatus, seconds: float) -> JobStatus:
        """Return the job as soon as it has ended, or as it is after ``seconds``.

        A job that is no longer stored is returned as given.
        """

    async def cancel(self, job_id: str, owner: str) -> JobStatus:
        """Cancel a job and return it.

        A waiting job ends now, a running one at its next step; one that has ended stays as it is.

        Raises:
            RequestError: as ``get`` says.
        """

    async def busy(self) -> frozenset[str]:
        """Return the namespaces that jobs of any key change, or wait to change."""

    @property
    def num_running(self) -> int:
        """Return the number of jobs that run in this process; returns at once."""

    async def close(self) -> None:
        """Accept no more jobs and wait a limited time for the running ones of this process to stop.

        Jobs that another process can do, or this one after a restart, go back to the queue; the others are cancelled.
        """


End = tuple[JobState, Mapping[str, Any] | None, ErrorReply | None]
CANCELLED: End = ("cancelled", None, None)


def end_of(job: Job, work: Work, conceal: Callable[[str], str]) -> End:
    """Do the work, and return state, result and error of the job; ``conceal`` removes paths from a message."""
    request_id.set(job.id)
    try:
        outcome = work(job)
    except concurrent.futures.CancelledError:
        return CANCELLED
    except Exception as error:
        return "failed", None, failure(job, error, conceal)
    if outcome.error is not None:
        return "failed", outcome.result, failure(job, outcome.error, conceal)
    return "cancelled" if outcome.cancelled else "done", outcome.result, None


def failure(job: Job, error: Exception, conceal: Callable[[str], str]) -> ErrorReply:
    reply = error_reply(error)
    unknown = reply.code == "internal_error"
    level = logging.ERROR if unknown else logging.INFO
    log.log(level, "job failed: id=%s cause=%s", job.id, type(error).__name__, exc_info=error if unknown else None)
    kept = (job.progress or {}).get("read")
    told = f" ({kept:,} documents of this change are stored)" if reply.status == 507 and kept else ""
    return replace(reply, message=conceal(reply.message) + told)


def clean(job_id: str, cleanup: Callable[[], None]) -> None:
    """Run the cleanup of a job; what it leaves behind is logged."""
    try:
        cleanup()
    except OSError as fault:
        log.error("job left files behind: id=%s cause=%s", job_id, fault.strerror)
