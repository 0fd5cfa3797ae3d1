"""Jobs on the disk: what a process that is gone had accepted, the next one on the same folder goes on with."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from pathlib import Path

import pytest
from refusals import refused_for
from waiting import until

from retrieval.storage.files import Disk
from server.errors import JOB_UNKNOWN, QUEUE_FULL, UPLOAD_NOT_WRITTEN, RequestError
from server.jobs.job_folder import JobFolder
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import Job, JobLimits, JobSpec, OrderedWork, Outcome, WorkOrder
from server.jobs.uploads import Uploads

LONG = 60.0
SPEC = JobSpec("file", "ns", "me")


def files_of(root: Path) -> set[str]:
    """Return the names of what the folders of jobs have."""
    return {path.name for path in root.glob(".jobs/*/*")}


class Process:
    """One server on the data folder; its work waits for ``gate`` where its order says so."""

    def __init__(self, root: Path, limits: JobLimits | None = None) -> None:
        self.root = root
        self.queue = LocalJobQueue(limits or JobLimits(running=1), folder=JobFolder(root))
        self.gate = threading.Event()
        self.begun: list[str] = []

    def perform(self, job: Job, order: WorkOrder) -> Outcome:
        self.begun.append(job.id)
        job.on_cancel(self.gate.set)
        if order.arguments.get("waits"):
            self.gate.wait(LONG)
        text = order.file.read_text() if order.file else ""
        return Outcome({"text": text}, job.is_cancelled())

    def work(self, file: Path | None = None, *, waits: bool = True) -> OrderedWork:
        return OrderedWork(WorkOrder({"waits": waits}, file), self.perform)

    async def begins(self, job_id: str) -> None:
        await until(lambda: job_id in self.begun, "the job did not begin")

    def next(self) -> Process:
        """Return the next process on the folder, this one having been killed."""
        after = Process(self.root)
        after.gate.set()
        after.queue.start(after.perform)
        return after


async def test_what_was_accepted_is_done_after_a_kill(tmp_path: Path) -> None:
    """The running job and the waiting ones, in their order, with the uploaded file under its name."""
    first = Process(tmp_path)
    upload = Uploads(tmp_path, max_bytes=100, at_once=1).open("notes ä.txt")
    upload.write(b"of mice")
    upload.close()
    running = await first.queue.submit(SPEC, first.work(upload.path), upload.discard)
    waiting = [await first.queue.submit(SPEC, first.work()) for _ in range(2)]
    await first.begins(running.id)
    assert not upload.path.exists()
    after = first.next()
    jobs = [await after.queue.wait(job, LONG) for job in (running, *waiting)]
    assert [job.state for job in jobs] == ["done"] * 3
    assert jobs[0].result == {"text": "of mice"}
    assert after.begun == [job.id for job in jobs]
    assert [job.id for job in await after.queue.of("me")] == [job.id for job in reversed(jobs)]
    assert files_of(tmp_path) == {"job.json"}


async def test_ended_jobs_are_still_shown_by_the_next_process(tmp_path: Path) -> None:
    """To their key alone, as many as are kept in memory, and none of them is done again."""
    first = Process(tmp_path, JobLimits(kept=2))
    for _ in range(3):
        job = await first.queue.submit(SPEC, first.work(waits=False))
        job = await first.queue.wait(job, LONG)
    after = first.next()
    assert await after.queue.get(job.id, "me") == job
    assert len(await after.queue.of("me")) == 2
    assert after.begun == []
    with refused_for(JOB_UNKNOWN):
        await after.queue.get(job.id, "another")


async def test_a_job_that_only_a_dead_process_could_do_says_so(tmp_path: Path) -> None:
    """It is shown as failed, with what to do; one whose cancellation was asked for is cancelled."""
    first = Process(tmp_path, JobLimits(running=2))
    closure = await first.queue.submit(SPEC, lambda job: first.perform(job, WorkOrder({"waits": True})))
    begun, deaf = threading.Event(), threading.Event()

    def wait_deaf(job: Job, _: WorkOrder) -> Outcome:
        begun.set()
        return Outcome({"at": deaf.wait(LONG)})

    cancelled = await first.queue.submit(JobSpec("file", "other", "me"), OrderedWork(WorkOrder({}), wait_deaf))
    assert await asyncio.to_thread(begun.wait, LONG)
    await first.begins(closure.id)
    assert (await first.queue.cancel(cancelled.id, "me")).cancelling
    after = first.next()
    failed = await after.queue.get(closure.id, "me")
    assert failed.error is not None
    assert (failed.state, failed.error.code) == ("failed", "server_stopping")
    assert "send it again" in failed.error.message
    assert (await after.queue.get(cancelled.id, "me")).state == "cancelled"
    for event in (first.gate, deaf):
        event.set()


async def test_a_job_that_ends_its_processes_fails_at_last(tmp_path: Path) -> None:
    """After three of them, so that a file that kills the server does not kill each next one."""
    process = Process(tmp_path)
    job = await process.queue.submit(SPEC, process.work())
    for number in range(3):
        if number:
            process = Process(tmp_path)
            process.queue.start(process.perform)
        await process.begins(job.id)
    after = process.next()
    assert (await after.queue.get(job.id, "me")).state == "failed"
    assert after.begun == []


async def test_a_server_that_ends_keeps_its_jobs_for_the_next(tmp_path: Path) -> None:
    """The running one stops and is done again; ends in good order do not count as its fault."""
    process = Process(tmp_path)
    jobs = [await process.queue.submit(SPEC, process.work()) for _ in range(2)]
    for _ in range(4):
        await process.begins(jobs[0].id)
        await process.queue.close()
        process = Process(tmp_path)
        process.queue.start(process.perform)
    process.gate.set()
    assert [(await process.queue.wait(job, LONG)).state for job in jobs] == ["done", "done"]


async def test_what_was_cancelled_or_refused_leaves_nothing_to_do(tmp_path: Path) -> None:
    """A cancelled job is cancelled at the next start too; one without room is not stored."""
    first = Process(tmp_path, JobLimits(running=1, waiting=1))
    running = await first.queue.submit(SPEC, first.work())
    await first.begins(running.id)
    waiting = await first.queue.submit(SPEC, first.work())
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        await first.queue.submit(SPEC, first.work())
    await first.queue.cancel(waiting.id, "me")
    after = first.next()
    assert (await after.queue.wait(running, LONG)).state == "done"
    assert [job.state for job in await after.queue.of("me")] == ["cancelled", "done"]
    assert after.begun == [running.id]


class FullDisk(Disk):
    def write_block(self, handle: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_refuses_the_job_and_leaves_nothing(tmp_path: Path) -> None:
    """507, before anything was accepted."""
    queue = LocalJobQueue(JobLimits(), folder=JobFolder(tmp_path, FullDisk()))
    with refused_for(UPLOAD_NOT_WRITTEN, match="No space left on device"):
        await queue.submit(SPEC, OrderedWork(WorkOrder({}), lambda *_: Outcome({})))
    assert await queue.of("me") == []
    assert list((tmp_path / ".jobs").iterdir()) == []


@pytest.mark.parametrize("harm", ["job-/jxb-", "}}/", '": 1,/": 1e999,', 'ss": null/ss": true', '"me"/{}'])
async def test_a_damaged_job_stops_no_server(tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log names it, and the other jobs go on; half a submission is removed."""
    first = Process(tmp_path)
    jobs = [await first.queue.submit(SPEC, first.work()) for _ in range(2)]
    await first.begins(jobs[0].id)
    row = tmp_path / ".jobs" / jobs[0].id / "job.json"
    row.write_text(row.read_text().replace(*harm.split("/")))  # type: ignore[arg-type]
    (tmp_path / ".jobs" / ".draft-job-x").mkdir()
    after = first.next()
    assert (await after.queue.wait(jobs[1], LONG)).state == "done"
    assert f"stays: id={jobs[0].id}" in caplog.text
    assert not (tmp_path / ".jobs" / ".draft-job-x").exists()
    first.gate.set()


async def test_what_is_stored_is_the_owners_alone(tmp_path: Path) -> None:
    """Uploads and documents may be confidential; errors do not name their place."""
    root = tmp_path / "namespaces"
    process = Process(root)
    (root).mkdir()
    (root / "a.txt").write_text("x")
    job = await process.queue.submit(SPEC, process.work(root / "a.txt"))
    stored = root / ".jobs" / job.id
    places = [root / ".jobs", stored, stored / "upload", stored / "job.json"]
    assert all(place.stat().st_mode & 0o077 == 0 for place in places)
    assert json.loads((stored / "job.json").read_text())["file"] == "a.txt"
    uploads = Uploads(root, max_bytes=10, at_once=1)
    assert uploads.conceal(f"{stored}/upload/a.txt: damaged") == "a.txt: damaged"
    process.gate.set()
