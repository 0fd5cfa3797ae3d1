"""Run changes in the background: few at once, one at a time per namespace, in a bounded queue.

Jobs live in memory: a server that ends loses them, and what they had written by then is consistent. Knows no HTTP and
nothing of what a change does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from server.error_mapping import ErrorReply, error_reply
from server.errors import JobNotFound, TooManyRequests
from server.observability.logging_setup import request_id

log = logging.getLogger(__name__)

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: Final[frozenset[JobState]] = frozenset(("done", "failed", "cancelled"))
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Bound the jobs that run at once, wait, and are stored after their end.

    ``grace_s`` is the time for running jobs to stop when the server ends.
    """

    running: int = 2
    waiting: int = 32
    kept: int = 200
    grace_s: float = 10.0


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

    ``cancelled`` is whether it stopped on request; ``result`` is then what was done before.
    """

    result: Mapping[str, Any]
    cancelled: bool = False


class Job:
    """Hold the state of a job, for its work and for its owner.

    Safe from many threads.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.id = f"job-{uuid.uuid4().hex}"
        self.spec = spec
        self.state: JobState = "queued"
        self.error: ErrorReply | None = None
        self._times = [int(time.time()), 0, 0]
        self._progress: Mapping[str, Any] | None = None
        self._result: Mapping[str, Any] | None = None
        self._cancelled = threading.Event()
        self._on_cancel: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def report(self, progress: Mapping[str, Any]) -> None:
        """Merge ``progress`` into the earlier progress; equal names are replaced."""
        self._progress = {**(self._progress or {}), **progress}

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

    def begin(self) -> None:
        self.state = "running"
        self._times[1] = int(time.time())

    def end(self, state: JobState, result: Mapping[str, Any] | None = None, error: ErrorReply | None = None) -> None:
        """Set the final state and result.

        Call it once, before ``notify_end``.
        """
        self._times[2] = int(time.time())
        self._result, self.error = result, error
        self.state = state

    def notify_end(self) -> None:
        """Notify the callers of ``wait`` that the job has ended."""
        self._ended.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait until the job ends, for at most ``seconds``."""
        await asyncio.wait({asyncio.wrap_future(self._ended)}, timeout=seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the job for its owner.

        Times are Unix time, None for what has not happened yet.
        """
        created, started, finished = self._times
        return {
            "id": self.id,
            "object": "job",
            "kind": self.spec.kind,
            "namespace": self.spec.namespace,
            "state": self.state,
            "cancelling": self.is_cancelled() and not self.has_ended,
            "created": created,
            "started": started or None,
            "finished": finished or None,
            "progress": self._progress,
            "result": self._result,
            "error": self.error.body["error"] if self.error else None,
        }


def _stop(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    loop.call_soon_threadsafe(task.cancel)


Work = Callable[[Job], Outcome]
_End = tuple[JobState, Mapping[str, Any] | None, ErrorReply | None]


@dataclass(frozen=True, slots=True)
class _Task:
    job: Job
    work: Work
    cleanup: Callable[[], None]


class Jobs:
    """Queue and run jobs; one instance per process.

    ``conceal`` removes paths of this machine from a message.
    """

    def __init__(self, limits: JobLimits, conceal: Callable[[str], str] = str) -> None:
        self._limits = limits
        self._conceal = conceal
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._running: dict[str, _Task] = {}
        self._known: OrderedDict[str, Job] = OrderedDict()
        self._closed = False

    def submit(self, spec: JobSpec, work: Work, cleanup: Callable[[], None] = lambda: None) -> Job:
        """Queue a job and return it.

        ``cleanup`` runs once, however the job ends, but not where the job is refused.

        Raises:
            TooManyRequests: the queue is full, or the server ends.
        """
        task = _Task(Job(spec), work, cleanup)
        with self._lock:
            if self._closed:
                raise TooManyRequests("the server is about to end")
            self._check_room()
            self._known[task.job.id] = task.job
            self._waiting.append(task)
            self._start_waiting()
        return task.job

    def check_room(self) -> None:
        """Check, before a long upload, that the queue has room.

        Raises:
            TooManyRequests: the queue is full.
        """
        with self._lock:
            self._check_room()

    def _check_room(self) -> None:
        if len(self._waiting) >= self._limits.waiting:
            raise TooManyRequests(f"{self._limits.waiting} changes are waiting already")

    def get(self, job_id: str, owner: str) -> Job:
        """Return a job of ``owner``.

        Raises:
            JobNotFound: there is no such job, it is no longer stored, or it belongs to another key.
        """
        job = self._known.get(job_id)
        if job is None or job.spec.owner != owner:
            raise JobNotFound("there is no such job, or it is no longer kept")
        return job

    def of(self, owner: str) -> list[Job]:
        """Return the owner's jobs, newest first."""
        with self._lock:
            return [job for job in reversed(self._known.values()) if job.spec.owner == owner]

    @property
    def num_running(self) -> int:
        return len(self._running)

    def is_busy(self, namespace: str) -> bool:
        """Return whether a job of any key changes the namespace, or waits to."""
        with self._lock:
            return namespace in self._running or any(task.job.spec.namespace == namespace for task in self._waiting)

    def cancel(self, job_id: str, owner: str) -> Job:
        """Cancel a job and return it.

        A waiting job ends now, a running one at its next step; one that has ended stays as it is.
        """
        job = self.get(job_id, owner)
        job.cancel()
        self._drop([task for task in list(self._waiting) if task.job is job])
        return job

    def _drop(self, tasks: list[_Task]) -> None:
        """Cancel those of the tasks that have not started."""
        with self._lock:
            dropped = [task for task in tasks if task in self._waiting]
            self._waiting = [task for task in self._waiting if task not in dropped]
        for task in dropped:
            self._clean(task)
            self._finish(task.job, ("cancelled", None, None))

    def _start_waiting(self) -> None:
        """Start waiting jobs up to the limit; the caller holds the lock.

        The jobs of a namespace run in the order in which they were submitted.
        """
        for task in list(self._waiting):
            if len(self._running) >= self._limits.running:
                return
            if task.job.spec.namespace not in self._running:
                self._waiting.remove(task)
                self._running[task.job.spec.namespace] = task
                # A daemon: a batch that takes minutes must not delay the server's end; a kill damages no namespace.
                threading.Thread(target=self._run, args=(task,), name=task.job.id[:12], daemon=True).start()

    def _run(self, task: _Task) -> None:
        request_id.set(task.job.id)
        task.job.begin()
        try:
            outcome = task.work(task.job)
            end: _End = ("cancelled" if outcome.cancelled else "done", outcome.result, None)
        except concurrent.futures.CancelledError:
            end = ("cancelled", None, None)
        except Exception as error:
            end = ("failed", None, self._failure(task.job, error))
        self._clean(task)
        with self._lock:  # before the job reports its end: a client that then asks must find the namespace free
            self._running.pop(task.job.spec.namespace)
            if not self._closed:
                self._start_waiting()
        self._finish(task.job, end)

    def _failure(self, job: Job, error: Exception) -> ErrorReply:
        reply = error_reply(error)
        unknown = reply.code == "internal_error"
        level = logging.ERROR if unknown else logging.INFO
        log.log(level, "job failed: id=%s cause=%s", job.id, type(error).__name__, exc_info=error if unknown else None)
        return replace(reply, message=self._conceal(reply.message))

    def _clean(self, task: _Task) -> None:
        try:
            task.cleanup()
        except OSError as fault:
            log.error("job left files behind: id=%s cause=%s", task.job.id, fault.strerror)

    def _finish(self, job: Job, end: _End) -> None:
        job.end(*end)
        log.info("job: id=%s kind=%s outcome=%s", job.id, job.spec.kind, job.state)
        with self._lock:
            ended = [known.id for known in self._known.values() if known.has_ended]
            for job_id in ended[: max(0, len(ended) - self._limits.kept)]:
                del self._known[job_id]
        job.notify_end()

    async def close(self) -> None:
        """Accept no more jobs, cancel the running ones and wait up to ``grace_s`` for them to stop."""
        with self._lock:
            self._closed = True
            running, waiting = list(self._running.values()), list(self._waiting)
        self._drop(waiting)
        for task in running:
            task.job.cancel()
        if running:
            ended = [asyncio.ensure_future(task.job.wait(self._limits.grace_s)) for task in running]
            await asyncio.wait(ended)
