"""Jobs of one database over several servers: one at a time, taken over, given back, with their files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from refusals import refused_for
from waiting import until

from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.errors import JOB_UNKNOWN, QUEUE_FULL, RequestError
from server.jobs.queue import Job, JobLimits, JobSpec, JobStatus, OrderedWork, Outcome, WorkOrder
from server.jobs.uploads import Uploads
from server.state.database import Database
from server.state.jobs import JobServer, PostgresJobQueue
from server.state.traces import PostgresTraceStore, TraceBounds

if TYPE_CHECKING:
    from postgres_server import Postgres

LONG = 60.0
SPEC = JobSpec("file", "ns", "me")


class Server:
    """Stand for one server: a queue with connections of its own, whose work waits for ``gate`` where it is asked to."""

    def __init__(self, url: str, folder: Path, home: str = "") -> None:
        self.database = Database(url, timeout_s=2)
        self.uploads = Uploads(folder, max_bytes=10_000_000, at_once=4)
        server = JobServer(home=home, open_upload=self.uploads.open, lease_s=1.0, max_file_bytes=3_000_000)
        self.queue = PostgresJobQueue(self.database, JobLimits(running=2, grace_s=10), server)
        self.gate = threading.Event()
        self.begun: list[str] = []

    def perform(self, job: Job, order: WorkOrder) -> Outcome:
        self.begun.append(job.id)
        job.on_cancel(self.gate.set)
        job.report({"step": 1})
        if order.arguments.get("waits"):
            self.gate.wait(LONG)
        size = order.file.stat().st_size if order.file else None
        name = order.file.name if order.file else None
        return Outcome({"size": size, "name": name}, job.is_cancelled())

    async def submit(self, *, waits: bool = False, file: Path | None = None, spec: JobSpec = SPEC) -> JobStatus:
        return await self.queue.submit(spec, OrderedWork(WorkOrder({"waits": waits}, file), self.perform))

    async def begins(self, job: JobStatus) -> None:
        await until(lambda: job.id in self.begun, "the job did not begin")

    async def die(self) -> None:
        """End as a killed process does: without a word to the database."""
        follower = self.queue._follower
        tasks = [*self.queue._tasks.values(), *([follower] if follower else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.queue._tasks.clear()
        self.gate.set()
        await self.database.close()

    async def close(self) -> None:
        self.gate.set()
        await self.queue.close()
        await self.database.close()
        self.uploads.close()


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest_asyncio.fixture
async def serve(url: str, tmp_path: Path) -> AsyncIterator[Callable[..., Server]]:
    made: list[Server] = []

    def served(home: str = "", *, starts: bool = True) -> Server:
        server = Server(url, tmp_path / str(len(made)), home)
        made.append(server)
        if starts:
            server.queue.start(server.perform)
        return server

    yield served
    for server in made:
        await server.close()


async def test_a_namespace_has_one_job_over_all_servers(serve: Callable[..., Server]) -> None:
    """The second server's job begins when that of the first has ended; each sees, and may cancel, the other's."""
    first, second = serve(), serve()
    running = await first.submit(waits=True)
    await first.begins(running)
    waiting = await second.submit()
    assert await second.queue.busy() == {"ns"}
    assert [job.state for job in await second.queue.of("me")] == ["queued", "running"]
    assert (await second.queue.get(running.id, "me")).state == "running"
    stopping = await second.queue.cancel(running.id, "me")
    assert (stopping.state, stopping.cancelling) == ("running", True)
    assert (await second.queue.wait(running, LONG)).state == "cancelled"
    assert (await first.queue.wait(waiting, LONG)).state == "done"


async def test_a_job_of_a_dead_server_goes_on_at_another_with_its_file(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """Its file comes from the database, byte for byte and under its name; progress and result are the new ones."""
    first, second = serve(), serve(starts=False)
    file = tmp_path / "notes ä.txt"
    file.write_bytes(bytes(range(256)) * 8192)
    job = await first.submit(waits=True, file=file)
    await first.begins(job)
    await first.die()
    file.unlink()
    second.gate.set()
    second.queue.start(second.perform)
    done = await second.queue.wait(job, LONG)
    assert (done.state, done.result, done.progress) == ("done", {"size": 2_097_152, "name": "notes ä.txt"}, {"step": 1})
    assert not list((tmp_path / "1").glob(".uploads-*/*/*"))
    async with second.database.pooled() as connection:
        sql = "SELECT (SELECT count(*) FROM arrowhead_job_files), count(arguments), count(*) FROM arrowhead_jobs"
        left = await (await connection.execute(sql)).fetchone()
    assert left == (0, 0, 1)


async def test_a_job_that_ends_its_servers_fails_at_last(serve: Callable[..., Server]) -> None:
    """After three of them; and one that only a dead process could do fails at once."""
    closure = await (dying := serve()).queue.submit(SPEC, lambda job: dying.perform(job, WorkOrder({"waits": True})))
    job = await dying.submit(waits=True, spec=JobSpec("file", "other", "me"))
    for number in range(3):
        dying = dying if number == 0 else serve()
        await dying.begins(job)
        await dying.die()
    last = serve()
    found = [await last.queue.wait(one, LONG) for one in (closure, job)]
    assert [(one.state, one.error and one.error.code) for one in found] == [("failed", "server_stopping")] * 2
    assert last.begun == []


async def test_a_server_that_ends_gives_its_jobs_back(serve: Callable[..., Server]) -> None:
    """The running one stops and waits again, at its place before the other; another server does both."""
    first, second = serve(), serve(starts=False)
    jobs = [await first.submit(waits=True), await first.submit(waits=True)]
    await first.begins(jobs[0])
    await first.queue.close()
    assert [(await second.queue.get(job.id, "me")).state for job in jobs] == ["queued", "queued"]
    second.gate.set()
    second.queue.start(second.perform)
    assert [(await second.queue.wait(job, LONG)).state for job in jobs] == ["done", "done"]
    assert second.begun == [job.id for job in jobs]


async def test_a_job_of_a_folder_waits_for_the_server_that_has_it(serve: Callable[..., Server]) -> None:
    """Two folders may have namespaces of one name, which are two namespaces."""
    first, second = serve("a"), serve("b")
    held = await first.submit(waits=True)
    await first.begins(held)
    assert (await second.queue.wait(await second.submit(), LONG)).state == "done"
    waiting = await first.submit()
    await first.die()
    again = serve("a")
    again.gate.set()
    assert [(await again.queue.wait(job, LONG)).state for job in (held, waiting)] == ["done", "done"]
    assert held.id not in second.begun and await second.queue.busy() == frozenset()


async def test_files_have_a_bound(serve: Callable[..., Server], tmp_path: Path) -> None:
    """The error names the remedy; what was refused leaves nothing."""
    server = serve()
    (tmp_path / "big").write_bytes(b"x" * 2_000_000)
    job = await server.submit(waits=True, file=tmp_path / "big")
    with pytest.raises(RequestError, match="try again when one has ended", check=QUEUE_FULL.is_of):
        await server.submit(file=tmp_path / "big")
    server.gate.set()
    assert (await server.queue.wait(job, LONG)).state == "done"
    assert (await server.queue.wait(await server.submit(file=tmp_path / "big"), LONG)).state == "done"


async def test_a_dead_database_refuses_new_jobs_and_loses_none(
    serve: Callable[..., Server], postgres: Postgres, url: str
) -> None:
    """The running one ends meanwhile, which is told when the database is back; what waits begins then."""
    server = serve()
    job = await server.submit(waits=True)
    waiting = await server.submit()
    await server.begins(job)
    with postgres.unreachable(url):
        with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of):
            await server.submit()
        server.gate.set()
        assert await server.queue.wait(job, LONG) == job
    for _ in range(1200):
        with_error = None
        try:
            found = [await server.queue.wait(one, LONG) for one in (job, waiting)]
        except DatabaseUnavailable as error:
            with_error = error
        if with_error is None and all(one.has_ended for one in found):
            break
        await asyncio.sleep(0.1)
    assert [one.state for one in found] == ["done", "done"]


@pytest.mark.parametrize(("losses", "state", "begun"), [(1, "done", 2), (9, "failed", 3)])
async def test_a_job_that_loses_its_database_is_done_again(
    serve: Callable[..., Server], tmp_path: Path, losses: int, state: str, begun: int
) -> None:
    """With its file, as after a kill; one that loses it each time fails at last, with the error."""
    server = serve()
    (tmp_path / "notes.txt").write_text("of mice")
    begins = 0

    def perform(job: Job, order: WorkOrder) -> Outcome:
        nonlocal begins
        begins += 1
        if begins <= losses:
            raise DatabaseUnavailable("the database of shared passages does not answer")
        return Outcome({"text": order.file.read_text() if order.file else ""})

    server.queue.start(perform)
    work = OrderedWork(WorkOrder({}, tmp_path / "notes.txt"), perform)
    ended = await server.queue.wait(await server.queue.submit(SPEC, work), LONG)
    assert (ended.state, begins) == (state, begun)
    if state == "done":
        assert ended.result == {"text": "of mice"}
    else:
        assert ended.error is not None and ended.error.code == "passages_unavailable"


async def test_no_id_has_a_nul(serve: Callable[..., Server]) -> None:
    """What a text of the database cannot be is an id that is not there, and no failure of the database."""
    server = serve()
    for call in (server.queue.get, server.queue.cancel):
        with refused_for(JOB_UNKNOWN):
            await call("job-\0", "me")
    traces = PostgresTraceStore(server.database, TraceBounds(10, 10_000, 60.0))
    assert await traces.get("\0", "me") is None


async def test_a_cancellation_that_is_lost_does_not_keep_a_server_from_ending(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.11's wait_for loses one that comes as its wait ends."""
    server = Server(url, tmp_path)
    losses = 2

    async def follow() -> None:
        nonlocal losses
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                losses -= 1
                if losses < 0:
                    raise

    monkeypatch.setattr(server.queue, "_follow", follow)
    server.queue.start(server.perform)
    await asyncio.sleep(0)
    async with asyncio.timeout(120):
        await server.close()
    assert losses == -1
