"""Queue jobs in the database, run by any of its servers, one at a time for each namespace over all of them.

A running job has a lease, which its server renews while it lives. When the lease of an ended server is over, the job
goes back to its place in the queue, and a server that can do its order begins it again: changes of namespaces may be
repeated. Servers hear of each other's jobs by LISTEN and NOTIFY, and look every second in any case.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.daemon_thread import run_in_daemon_thread
from server.errors import JOB_UNKNOWN, QUEUE_FULL, RequestError
from server.jobs.queue import (
    End,
    Job,
    JobLimits,
    JobSpec,
    JobStatus,
    OrderedWork,
    Perform,
    Work,
    WorkOrder,
    clean,
    end_of,
    failure,
)
from server.jobs.uploads import Upload
from server.state import job_tables as rows
from server.state.database import Database
from server.state.job_tables import CHANNEL, ClaimedJob, JobFiles

log = logging.getLogger(__name__)
_LOOK_S: Final = 1.0
# Codes of errors that are the database's, whatever a job does.
_LOST: Final = frozenset((STATE_UNAVAILABLE.code, DatabaseUnavailable.fault.code))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServer:
    """Describe this server to the queue.

    ``home``: the folder of its namespaces, by a name that no other folder has, "" where all servers share them; a job
    of a folder waits for the server that has it. ``open_upload`` makes the copy of another server's file; ``conceal``
    removes paths of this machine from a message. Another server takes over after ``lease_s`` without a sign of life.
    """

    home: str = ""
    open_upload: Callable[[str], Upload] | None = None
    conceal: Callable[[str], str] = str
    lease_s: float = 15.0
    max_file_bytes: int = 4 * 2**30


@dataclass(slots=True)
class _Own:
    """Hold what a job has in this process: its work where it was submitted here, and what to do at its end."""

    job: Job
    work: Work
    cleanup: Callable[[], None]
    is_stored: bool = False


class PostgresJobQueue:
    """Queue jobs for all servers of a database; at most ``limits.running`` of them run in this process.

    ``now`` tells Unix time. While the database does not answer, running jobs go on and end when it is back.
    """

    def __init__(
        self, database: Database, limits: JobLimits, server: JobServer, now: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._limits = limits
        self._place = server
        self._server = rows.Server(uuid.uuid4().hex, server.home, server.lease_s)
        self._files = JobFiles(database, server.max_file_bytes)
        self._now = now
        self._perform: Perform | None = None
        self._own: dict[str, _Own] = {}
        self._running: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiters: dict[str, asyncio.Event] = {}
        self._beginning = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None
        self._beat_at = 0.0
        self._may_begin = False
        self._has_begun = False
        self._closed = False

    def start(self, perform: Perform) -> None:
        self._perform = perform
        self._begin()

    async def submit(self, spec: JobSpec, work: Work, cleanup: Callable[[], None] = lambda: None) -> JobStatus:
        if self._closed:
            raise RequestError("the server is about to end", QUEUE_FULL)
        self._begin()
        job = self._connected(Job(spec))
        order = work.order if isinstance(work, OrderedWork) else None
        new = JobStatus(id=job.id, spec=spec, state="queued", cancelling=False, created=int(self._now()))
        try:
            size = await self._files.put(job.id, order.file) if order and order.file else 0
            self._own[job.id] = _Own(job, work, cleanup)
            async with self._beginning:
                async with self._database.pooled() as connection:
                    await rows.lock(connection)
                    await rows.check_room(connection, self._limits, self._server, spec.owner)
                    await rows.insert(connection, new, self._server, order, size)
                    claimed = await self._claim(connection)
                    await rows.tell(connection, "new", self._server.id)
                self._own[job.id].is_stored = True
                if claimed is not None:
                    self._run(claimed)
        except BaseException:
            self._own.pop(job.id, None)
            if order and order.file:
                with suppress(DatabaseUnavailable):
                    await self._files.drop(job.id)
            raise
        is_running = claimed is not None and claimed.id == job.id
        return replace(new, state="running", started=new.created) if is_running else new

    async def check_room(self, owner: str) -> None:
        async with self._database.pooled() as connection:
            await rows.check_room(connection, self._limits, self._server, owner)

    async def get(self, job_id: str, owner: str) -> JobStatus:
        status = await self._read(job_id)
        if status is None or status.spec.owner != owner:
            raise RequestError("there is no such job, or it is no longer kept", JOB_UNKNOWN)
        return status

    async def of(self, owner: str | None) -> list[JobStatus]:
        async with self._database.pooled() as connection:
            return [self._shown(status) for status in await rows.of_owner(connection, owner)]

    async def wait(self, job: JobStatus, seconds: float) -> JobStatus:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            news = self._waiters.setdefault(job.id, asyncio.Event())
            try:
                found = await self._read(job.id)
            except DatabaseUnavailable:
                found = None  # the job goes on; its client asks for it again
            job = found or job
            left = until - loop.time()
            if found is None or job.has_ended or left <= 0:
                self._waiters.pop(job.id, None)
                return job
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(left, _LOOK_S))

    async def cancel(self, job_id: str, owner: str) -> JobStatus:
        async with self._database.pooled() as connection:
            await rows.lock(connection)
            status = await rows.cancel(connection, job_id, owner, int(self._now()))
            if status is not None:
                await rows.tell(connection, "cancel", job_id)
        if status is None:
            return await self.get(job_id, owner)
        if status.has_ended:
            self._forget(job_id)
        elif job_id in self._running:
            self._running[job_id].cancel()
        return self._shown(status)

    async def busy(self) -> frozenset[str]:
        async with self._database.pooled() as connection:
            return await rows.busy(connection, self._server.home)

    @property
    def num_running(self) -> int:
        return len(self._running)

    async def close(self) -> None:
        self._closed = True
        for job in self._running.values():
            job.cancel()
        try:
            async with self._database.pooled() as connection:
                await rows.lock(connection)
                for job_id in await rows.cancel_own(connection, self._server, int(self._now())):
                    self._forget(job_id)
        except DatabaseUnavailable:
            log.warning("waiting jobs of this process stay in the database")
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._limits.grace_s)
        # In Python 3.11 a wait for the database that ends in the same moment takes a cancellation as its own.
        while self._follower is not None and not self._follower.done():
            self._follower.cancel()
            await asyncio.wait({self._follower}, timeout=_LOOK_S)
        for job_id in self._own.keys() - self._running.keys():
            self._forget(job_id)  # other servers have copies of the files

    def _begin(self) -> None:
        if self._follower is None and not self._closed:
            self._follower = asyncio.get_running_loop().create_task(self._follow(), name="jobs")

    async def _follow(self) -> None:
        """Hear of changes, renew leases, and begin what waits, until the queue is closed."""
        while True:
            try:
                async with self._database.listening(CHANNEL) as connection:
                    while True:
                        await self._step()
                        async for notice in connection.notifies(timeout=_LOOK_S, stop_after=1):
                            self._hear(*notice.payload.split(" ", 1))
            except DatabaseUnavailable:
                log.warning("jobs of other servers are not seen now")
            except Exception:
                log.exception("the queue of jobs failed, and goes on")
            await asyncio.sleep(_LOOK_S)

    def _hear(self, notice: str, subject: str) -> None:
        if notice == "new":
            self._may_begin = self._may_begin or subject != self._server.id  # one of this server's own was tried
            return
        self._may_begin = self._may_begin or notice == "ended"
        if subject in self._running:
            self._beat_at = 0.0  # it may have been cancelled
        if (news := self._waiters.pop(subject, None)) is not None:
            news.set()

    async def _step(self) -> None:
        if time.monotonic() - self._beat_at >= _LOOK_S:
            await self._beat()
            self._beat_at, self._may_begin = time.monotonic(), True
        if self._may_begin:
            self._may_begin = False
            await self._begin_waiting()

    async def _beat(self) -> None:
        """Renew the leases of this process, take back those of ended ones, and forget what has ended elsewhere."""
        for job_id, job in list(self._running.items()):
            async with self._database.pooled() as connection:
                cancelling = await rows.renew(connection, job_id, self._server, job.progress)
            if cancelling is not False:
                job.cancel()  # None: the lease was over, and another server may do the work now
        async with self._database.pooled() as connection:
            await rows.lock(connection)
            if self._perform is not None and not self._has_begun:
                await rows.expire_home(connection, self._server)
            for job_id in await rows.take_back(connection, int(self._now())):
                log.warning("job taken back from a server that ended: id=%s", job_id)
                await rows.tell(connection, "ended", job_id)
            waiting = [job_id for job_id, own in self._own.items() if own.is_stored and job_id not in self._running]
            ended = await rows.ended_of(connection, waiting)
            await rows.drop_ended(connection, self._limits.kept)
        self._has_begun = self._has_begun or self._perform is not None
        for job_id in ended:
            self._forget(job_id)

    async def _begin_waiting(self) -> None:
        while self._has_place():
            async with self._beginning:
                async with self._database.pooled() as connection:
                    await rows.lock(connection)
                    claimed = await self._claim(connection)
                if claimed is None:
                    return
                self._run(claimed)

    def _has_place(self) -> bool:
        free = self._limits.running - len(self._running)
        holders = {job.spec.owner for job in self._running.values()}
        return not self._closed and (free > 0 or (free == 0 and len(holders) == 1))

    async def _claim(self, connection: rows.Connection) -> ClaimedJob | None:
        """Claim the next job where one more may run; where one key holds all places, one of another key."""
        if not self._has_place():
            return None
        is_full = len(self._running) >= self._limits.running
        excluded = [job.spec.owner for job in self._running.values()] if is_full else []
        performs = self._perform is not None
        return await rows.claim(connection, self._server, excluded, int(self._now()), performs=performs)

    def _run(self, claimed: ClaimedJob) -> None:
        own = self._own.get(claimed.id)
        job = own.job if own else self._connected(Job(claimed.spec, claimed.id))
        self._running[job.id] = job
        task = asyncio.get_running_loop().create_task(self._work(claimed, job), name=job.id[:12])
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.id, None))

    async def _work(self, claimed: ClaimedJob, job: Job) -> None:
        """Do the work of a job, write its end, and begin the next one."""
        end = await self._outcome(claimed, job)
        own = self._own.get(job.id)
        if own is not None:
            await asyncio.to_thread(clean, job.id, own.cleanup)
        self._own.pop(job.id, None)
        self._running.pop(job.id)
        await self._finish(job, end, can_go_on=claimed.arguments is not None)
        with suppress(DatabaseUnavailable):
            await self._begin_waiting()

    async def _outcome(self, claimed: ClaimedJob, job: Job) -> End:
        own, upload = self._own.get(job.id), None
        try:
            if own is not None:
                return await self._done(job, own.work)
            assert self._perform is not None and claimed.arguments is not None
            work = OrderedWork(WorkOrder(claimed.arguments), self._perform)
            if claimed.file is not None:
                assert self._place.open_upload is not None
                upload = await asyncio.to_thread(self._place.open_upload, claimed.file)
                await self._files.fetch(job.id, claimed.file_bytes, upload)
                work = work.with_file(upload.path)
            return await self._done(job, work)
        except Exception as error:
            return "failed", None, failure(job, error, self._place.conceal)
        finally:
            if upload is not None:
                await asyncio.to_thread(clean, job.id, upload.discard)

    async def _done(self, job: Job, work: Work) -> End:
        return await run_in_daemon_thread(lambda: end_of(job, work, self._place.conceal), job.id[:12])

    async def _finish(self, job: Job, end: End, *, can_go_on: bool) -> None:
        """Write the end of a job, as soon as the database answers.

        One that the end of this server, or the loss of the database, cut short waits again.
        """
        was_stopped = self._closed and end[0] == "cancelled"
        was_lost = end[2] is not None and end[2].code in _LOST
        while True:
            try:
                async with self._database.pooled() as connection:
                    await rows.lock(connection)
                    is_released = (
                        can_go_on
                        and (was_stopped or was_lost)
                        and await rows.release(connection, job.id, self._server, counts=was_lost)
                    )
                    if not is_released:
                        await self._write_end(connection, job, end)
                    await rows.tell(connection, "ended", job.id)
                break
            except DatabaseUnavailable:
                log.warning("the end of a job is written later: id=%s", job.id)
                await asyncio.sleep(_LOOK_S)
        log.info("job: id=%s kind=%s outcome=%s", job.id, job.spec.kind, "queued" if is_released else end[0])
        self._hear("ended", job.id)

    async def _write_end(self, connection: rows.Connection, job: Job, end: End) -> None:
        status = JobStatus(
            id=job.id,
            spec=job.spec,
            state=end[0],
            cancelling=False,
            created=0,
            finished=int(self._now()),
            progress=job.progress,
        )
        if not await rows.end(connection, status, self._server, end):
            log.warning("job ended when its lease was over: id=%s", job.id)
        await rows.drop_ended(connection, self._limits.kept)

    def _forget(self, job_id: str) -> None:
        own = self._own.pop(job_id, None)
        if own is not None:
            clean(job_id, own.cleanup)

    async def _read(self, job_id: str) -> JobStatus | None:
        async with self._database.pooled() as connection:
            status = await rows.find(connection, job_id)
        return self._shown(status) if status else None

    def _shown(self, status: JobStatus) -> JobStatus:
        """Return the status with what this process knows of a job that it runs."""
        job = self._running.get(status.id)
        if job is None or status.state != "running":
            return status if status.state == "running" else replace(status, cancelling=False)
        return replace(status, progress=job.progress, cancelling=status.cancelling or job.is_cancelled())

    def _connected(self, job: Job) -> Job:
        job.loop = asyncio.get_running_loop()
        return job
