"""Run jobs on threads of this process.

Jobs live in memory: a server that ends loses them, and what they had written by then is consistent.
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

from server.errors import JobNotFound, TooManyRequests
from server.jobs.queue import CANCELLED, End, Job, JobLimits, JobSpec, JobStatus, Perform, Work, clean, end_of

log = logging.getLogger(__name__)


class _Task:
    """Hold a job with its work and its state, which the job's thread changes, or the queue where it never starts."""

    def __init__(self, job: Job, work: Work, cleanup: Callable[[], None], created: int) -> None:
        self.job = job
        self.work = work
        self.cleanup = cleanup
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._status = JobStatus(id=job.id, spec=job.spec, state="queued", cancelling=False, created=created)

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

    ``conceal`` removes paths of this machine from a message; ``now`` tells Unix time.
    """

    def __init__(
        self, limits: JobLimits, conceal: Callable[[str], str] = str, now: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits
        self._conceal = conceal
        self._now = now
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._running: dict[str, _Task] = {}
        self._turns: dict[str, None] = {}  # the keys with jobs here that have had a turn, the latest last
        self._known: OrderedDict[str, _Task] = OrderedDict()
        self._closed = False

    def start(self, perform: Perform) -> None:
        """Do nothing: no other process has jobs here."""

    async def submit(self, spec: JobSpec, work: Work, cleanup: Callable[[], None] = lambda: None) -> JobStatus:
        task = _Task(Job(spec), work, cleanup, int(self._now()))
        task.job.loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise TooManyRequests("the server is about to end")
            self._check_room(spec.owner)
            self._known[task.job.id] = task
            self._waiting.append(task)
            self._start_waiting()
        return task.status

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
            raise JobNotFound("there is no such job, or it is no longer kept")
        return task

    async def of(self, owner: str) -> list[JobStatus]:
        with self._lock:
            return [task.status for task in reversed(self._known.values()) if task.job.spec.owner == owner]

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
        task.job.cancel()
        self._drop([task])
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
        end = end_of(task.job, task.work, self._conceal)
        clean(task.job.id, task.cleanup)
        with self._lock:  # before the job reports its end: a client that then asks must find the namespace free
            self._running.pop(task.job.spec.namespace)
            if not self._closed:
                self._start_waiting()
        self._finish(task, end)

    def _finish(self, task: _Task, end: End) -> None:
        task.end(end, int(self._now()))
        log.info("job: id=%s kind=%s outcome=%s", task.job.id, task.job.spec.kind, end[0])
        with self._lock:
            ended = [job_id for job_id, known in self._known.items() if known.has_ended]
            for job_id in ended[: max(0, len(ended) - self._limits.kept)]:
                del self._known[job_id]
        task.ended.set_result(None)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            running, waiting = list(self._running.values()), list(self._waiting)
        self._drop(waiting)
        for task in running:
            task.job.cancel()
        if running:
            await asyncio.gather(*(task.wait(self._limits.grace_s) for task in running))
