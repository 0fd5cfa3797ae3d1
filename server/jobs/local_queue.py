"""Run jobs on threads of this process.

With a ``JobFolder`` the jobs are on the disk as well: the next process on the same data folder goes on with those that
had not ended, since changes of namespaces may be repeated, and still shows the others.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from server.error_mapping import error_reply
from server.errors import JOB_UNKNOWN, QUEUE_FULL, SERVER_STOPPING, RequestError
from server.jobs.job_folder import JobFolder, StoredJob
from server.jobs.queue import (
    CANCELLED,
    MAX_ATTEMPTS,
    End,
    Job,
    JobLimits,
    JobSpec,
    JobStatus,
    OrderedWork,
    Outcome,
    Perform,
    Work,
    clean,
    end_of,
)

log = logging.getLogger(__name__)


class _Task:
    """Hold a job with its work and its state, which the job's thread changes, or the queue where it never starts."""

    def __init__(self, job: Job, work: Work, cleanup: Callable[[], None], status: JobStatus) -> None:
        self.job = job
        self.work = work
        self.cleanup = cleanup
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.is_cancelled_by_owner = False
        self._status = status
        job.progress = status.progress

    @property
    def can_go_on(self) -> bool:
        """Return whether another process can do the work."""
        return isinstance(self.work, OrderedWork)

    @property
    def has_ended(self) -> bool:
        return self._status.has_ended

    @property
    def status(self) -> JobStatus:
        status = self._status
        return replace(status, progress=self.job.progress, cancelling=self.job.is_cancelled() and not status.has_ended)

    def begin(self, now: int) -> None:
        self._status = replace(self._status, state="running", started=now)

    def end(self, end: End, now: int) -> None:
        state, result, error = end
        self._status = replace(self._status, state=state, result=result, error=error, finished=now)

    async def wait(self, seconds: float) -> None:
        """Wait until the job ends, for at most ``seconds``."""
        await asyncio.wait({asyncio.wrap_future(self.ended)}, timeout=seconds)


class LocalJobQueue:
    """Queue and run jobs in this process.

    ``conceal`` removes paths of this machine from a message; ``now`` tells Unix time. ``folder`` None: jobs live in
    memory alone, and end with the process.
    """

    def __init__(
        self,
        limits: JobLimits,
        conceal: Callable[[str], str] = str,
        now: Callable[[], float] = time.time,
        folder: JobFolder | None = None,
    ) -> None:
        self._limits = limits
        self._conceal = conceal
        self._now = now
        self._folder = folder
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._running: dict[str, _Task] = {}
        self._turns: dict[str, None] = {}  # the keys with jobs here that have had a turn, the latest last
        self._known: OrderedDict[str, _Task] = OrderedDict()
        self._closed = False

    def start(self, perform: Perform) -> None:
        """Go on with the jobs that an earlier process left on the disk, in their order."""
        for stored in self._folder.load() if self._folder else ():
            task = self._task_of(stored, perform)
            with self._lock:
                self._known[task.job.id] = task
                if not task.has_ended:
                    self._waiting.append(task)
            if task.has_ended:
                task.ended.set_result(None)
        with self._lock:
            self._start_waiting()

    def _task_of(self, stored: StoredJob, perform: Perform) -> _Task:
        status, order = stored.status, stored.order
        job = Job(status.spec, status.id)
        job.loop = asyncio.get_running_loop()
        if status.has_ended:
            return _Task(job, _no_work, _nothing, status)
        if order is not None and not status.cancelling and stored.attempts < MAX_ATTEMPTS:
            log.warning("job of an earlier process goes on: id=%s kind=%s", job.id, status.spec.kind)
            waiting = replace(status, state="queued", started=0)
            return _Task(job, OrderedWork(order, perform), _nothing, waiting)
        log.error("job of an earlier process is not done again: id=%s kind=%s", job.id, status.spec.kind)
        task = _Task(job, _no_work, _nothing, status)
        end: End = (
            "failed",
            None,
            error_reply(RequestError("the server that ran this job ended; send it again", SERVER_STOPPING)),
        )
        task.end(CANCELLED if status.cancelling else end, int(self._now()))
        if self._folder is not None:
            self._folder.end(task.status)
        return task

    async def submit(self, spec: JobSpec, work: Work, cleanup: Callable[[], None] = lambda: None) -> JobStatus:
        job = Job(spec)
        job.loop = asyncio.get_running_loop()
        with self._lock:
            self._check_open(spec.owner)
        status = JobStatus(id=job.id, spec=spec, state="queued", cancelling=False, created=int(self._now()))
        work = await self._stored(status, work)
        task = _Task(job, work, cleanup, status)
        try:
            with self._lock:
                self._check_open(spec.owner)
                self._known[task.job.id] = task
                self._waiting.append(task)
                self._start_waiting()
        except BaseException:
            await self._unstored(job.id)
            raise
        return task.status

    async def _stored(self, status: JobStatus, work: Work) -> Work:
        """Store a job on the disk; return the work, whose file was moved there."""
        if self._folder is None:
            return work
        order = work.order if isinstance(work, OrderedWork) else None
        storing = asyncio.create_task(asyncio.to_thread(self._folder.add, status, order))
        try:
            order = await asyncio.shield(storing)
        except asyncio.CancelledError:
            await asyncio.gather(storing, return_exceptions=True)
            await self._unstored(status.id)
            raise
        return replace(work, order=order) if isinstance(work, OrderedWork) and order is not None else work

    async def _unstored(self, job_id: str) -> None:
        if self._folder is not None:
            await asyncio.shield(asyncio.to_thread(self._folder.remove, job_id))

    def _check_open(self, owner: str) -> None:
        if self._closed:
            raise RequestError("the server is about to end", QUEUE_FULL)
        self._check_room(owner)

    async def check_room(self, owner: str) -> None:
        with self._lock:
            self._check_room(owner)

    def _check_room(self, owner: str) -> None:
        self._limits.check_room(len(self._waiting), sum(task.job.spec.owner == owner for task in self._waiting))

    async def get(self, job_id: str, owner: str) -> JobStatus:
        return self._find(job_id, owner).status

    def _find(self, job_id: str, owner: str) -> _Task:
        task = self._known.get(job_id)
        if task is None or task.job.spec.owner != owner:
            raise RequestError("there is no such job, or it is no longer kept", JOB_UNKNOWN)
        return task

    async def of(self, owner: str | None) -> list[JobStatus]:
        with self._lock:
            return [task.status for task in reversed(self._known.values()) if owner in (None, task.job.spec.owner)]

    async def wait(self, job: JobStatus, seconds: float) -> JobStatus:
        task = self._known.get(job.id)
        if task is None:
            return job
        await task.wait(seconds)
        return task.status

    @property
    def num_running(self) -> int:
        return len(self._running)

    async def busy(self) -> frozenset[str]:
        with self._lock:
            return frozenset((*self._running, *(task.job.spec.namespace for task in self._waiting)))

    async def cancel(self, job_id: str, owner: str) -> JobStatus:
        task = self._find(job_id, owner)
        task.is_cancelled_by_owner = True
        task.job.cancel()
        await asyncio.to_thread(self._drop, [task])
        if self._folder is not None and not task.has_ended:
            await asyncio.to_thread(self._folder.write, task.status)
        return task.status

    def _drop(self, tasks: list[_Task]) -> None:
        """Cancel those of the tasks that have not started."""
        with self._lock:
            dropped = [task for task in tasks if task in self._waiting]
            self._waiting = [task for task in self._waiting if task not in dropped]
        for task in dropped:
            clean(task.job.id, task.cleanup)
            self._finish(task, CANCELLED)

    def _start_waiting(self) -> None:
        """Start waiting jobs up to the limit; the caller holds the lock."""
        while (task := self._next()) is not None:
            self._waiting.remove(task)
            self._running[task.job.spec.namespace] = task
            self._turns.pop(task.job.spec.owner, None)
            self._turns[task.job.spec.owner] = None
            # A daemon: a batch that takes minutes must not delay the server's end; a kill damages no namespace.
            threading.Thread(target=self._run, args=(task,), name=task.job.id[:12], daemon=True).start()
        here = {task.job.spec.owner for task in (*self._waiting, *self._running.values())}
        self._turns = {owner: None for owner in self._turns if owner in here}

    def _next(self) -> _Task | None:
        """Return the job to start now: the oldest that can start, of the key whose last start is the longest ago."""
        holders = {task.job.spec.owner for task in self._running.values()}
        free = self._limits.running - len(self._running)
        if free < 0 or (free == 0 and len(holders) > 1):
            return None
        turns = {owner: turn for turn, owner in enumerate(self._turns, 1)}
        ready = [
            task
            for task in self._waiting
            if task.job.spec.namespace not in self._running and (free or task.job.spec.owner not in holders)
        ]
        return min(ready, key=lambda task: turns.get(task.job.spec.owner, 0), default=None)

    def _run(self, task: _Task) -> None:
        task.begin(int(self._now()))
        if self._folder is not None:
            self._folder.begin(task.status)
        end = end_of(task.job, task.work, self._conceal)
        clean(task.job.id, task.cleanup)
        with self._lock:  # before the job reports its end: a client that then asks must find the namespace free
            self._running.pop(task.job.spec.namespace)
            if not self._closed:
                self._start_waiting()
        self._finish(task, end)

    def _finish(self, task: _Task, end: End) -> None:
        task.end(end, int(self._now()))
        goes_on = self._goes_on_later(task, end)
        log.info("job: id=%s kind=%s outcome=%s", task.job.id, task.job.spec.kind, "queued" if goes_on else end[0])
        with self._lock:
            ended = [job_id for job_id, known in self._known.items() if known.has_ended]
            gone = ended[: max(0, len(ended) - self._limits.kept)]
            for job_id in gone:
                del self._known[job_id]
        if self._folder is not None:
            (self._folder.release if goes_on else self._folder.end)(task.status)
            for job_id in gone:
                self._folder.remove(job_id)
        task.ended.set_result(None)

    def _goes_on_later(self, task: _Task, end: End) -> bool:
        """Return whether only the end of this process cut the job short, so that the next one goes on with it."""
        is_cut = self._closed and end[0] == "cancelled" and not task.is_cancelled_by_owner
        return is_cut and self._folder is not None and task.can_go_on

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            running, waiting = list(self._running.values()), list(self._waiting)
        await asyncio.to_thread(self._drop, waiting)
        for task in running:
            task.job.cancel()
        if running:
            await asyncio.gather(*(task.wait(self._limits.grace_s) for task in running))


def _nothing() -> None:
    """Clean up nothing: the file of a stored job is removed with its end."""


def _no_work(_: Job) -> Outcome:
    raise AssertionError("this job has ended")
