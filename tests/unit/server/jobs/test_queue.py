"""Background jobs: their order, their bounds, their end. No test waits for a time to pass."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.corpus.errors import DocumentUnreadable
from server.errors import InvalidRequest, JobNotFound, TooManyRequests, UploadTooLarge
from server.jobs.queue import Job, JobLimits, Jobs, JobSpec, Outcome
from server.jobs.uploads import Uploads

LONG = 60.0


def spec(namespace: str = "ns", owner: str = "") -> JobSpec:
    return JobSpec("file", namespace, owner)


class Gate:
    """Work that runs until it is opened; remembers which jobs have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._opened = threading.Event()
        self._seen = threading.Condition()

    def __call__(self, job: Job) -> Outcome:
        with self._seen:
            self.begun.append(job.spec.namespace)
            self._seen.notify_all()
        self._opened.wait(LONG)
        return Outcome({"cancelled": job.is_cancelled()}, job.is_cancelled())

    def open(self) -> None:
        self._opened.set()

    def wait_for(self, many: int) -> None:
        with self._seen:
            assert self._seen.wait_for(lambda: len(self.begun) >= many, LONG)


async def test_a_job_tells_how_far_it_is_and_what_came_of_it() -> None:
    """Progress adds up; times are there when they have come."""
    jobs = Jobs(JobLimits())

    def work(job: Job) -> Outcome:
        job.report({"read": 1, "left": "nothing"})
        job.report({"read": 2})
        return Outcome({"added": 2})

    job = jobs.submit(spec(), work)
    await job.wait(LONG)
    told = job.as_dict()
    assert (told["state"], told["result"], told["error"]) == ("done", {"added": 2}, None)
    assert told["progress"] == {"read": 2, "left": "nothing"}
    assert told["created"] <= told["started"] <= told["finished"]


async def test_jobs_of_one_namespace_run_one_after_the_other_those_of_others_beside() -> None:
    """In the order in which they came."""
    jobs, gate = Jobs(JobLimits(running=2)), Gate()
    submitted = [jobs.submit(spec(name), gate) for name in ("a", "a", "b", "c")]
    gate.wait_for(2)
    assert sorted(gate.begun) == ["a", "b"]
    assert [job.state for job in submitted] == ["running", "queued", "running", "queued"]
    gate.open()
    for job in submitted:
        await job.wait(LONG)
    assert sorted(gate.begun[2:]) == ["a", "c"]
    assert not jobs.is_busy("a")


async def test_no_more_wait_than_may() -> None:
    """The rest is refused, and its files are still the caller's."""
    jobs, gate, cleaned = Jobs(JobLimits(running=1, waiting=2)), Gate(), list[str]()
    kept = [jobs.submit(spec(), gate) for _ in range(3)]
    with pytest.raises(TooManyRequests):
        jobs.check_room()
    with pytest.raises(TooManyRequests):
        jobs.submit(spec(), gate, lambda: cleaned.append("x"))
    gate.open()
    for job in kept:
        await job.wait(LONG)
    assert (cleaned, len(jobs.of(""))) == ([], 3)


async def test_only_the_newest_ended_jobs_are_kept() -> None:
    """One that is forgotten is unknown."""
    jobs = Jobs(JobLimits(kept=2))
    made = []
    for _ in range(4):
        made.append(jobs.submit(spec(), lambda _: Outcome({})))
        await made[-1].wait(LONG)
    last = jobs.submit(spec(), lambda _: Outcome({}))
    await last.wait(LONG)
    assert [job.id for job in jobs.of("")] == [last.id, made[-1].id]
    with pytest.raises(JobNotFound):
        jobs.get(made[0].id, "")


async def test_cancelling_ends_what_waits_at_once_and_what_runs_at_its_next_step() -> None:
    """What has ended stays as it is; files are cleaned up once, however a job ends."""
    jobs, gate, cleaned = Jobs(JobLimits()), Gate(), list[str]()
    running = jobs.submit(spec(), gate, lambda: cleaned.append("running"))
    waiting = jobs.submit(spec(), gate, lambda: cleaned.append("waiting"))
    gate.wait_for(1)
    assert jobs.cancel(waiting.id, "").state == "cancelled"
    assert cleaned == ["waiting"]
    assert jobs.cancel(running.id, "").as_dict()["cancelling"] is True
    gate.open()
    await running.wait(LONG)
    assert (running.state, running.as_dict()["result"]) == ("cancelled", {"cancelled": True})
    assert jobs.cancel(running.id, "").state == "cancelled"
    assert cleaned == ["waiting", "running"]


async def test_a_job_is_known_to_its_owner_alone() -> None:
    """Others are told what they would be told of none."""
    jobs = Jobs(JobLimits())
    job = jobs.submit(spec(owner="me"), lambda _: Outcome({}))
    await job.wait(LONG)
    assert jobs.get(job.id, "me") is job
    assert jobs.of("you") == []
    for call in (jobs.get, jobs.cancel):
        with pytest.raises(JobNotFound):
            call(job.id, "you")


async def test_a_failure_is_told_without_places_and_an_unknown_one_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the error table has it; the log has the cause."""
    jobs = Jobs(JobLimits(), lambda text: text.replace("/data/", ""))

    def fails(error: Exception) -> Callable[[Job], Outcome]:
        def work(_: Job) -> Outcome:
            raise error

        return work

    with caplog.at_level(logging.INFO):
        known = jobs.submit(spec(), fails(DocumentUnreadable("/data/a.pdf: damaged")))
        unknown = jobs.submit(spec(), fails(ValueError("the question of /data/secret")))
        await known.wait(LONG)
        await unknown.wait(LONG)
    assert known.error is not None and unknown.error is not None
    assert (known.state, known.error.status, known.error.message) == ("failed", 422, "a.pdf: damaged")
    assert (unknown.error.status, unknown.error.code) == (500, "internal_error")
    assert "secret" not in unknown.error.message
    assert "cause=ValueError" in caplog.text


async def test_a_coroutine_is_cancelled_and_has_cleaned_up_before_the_next_job_begins() -> None:
    """The namespace is not free while what holds it still runs."""
    jobs, loop, order = Jobs(JobLimits()), asyncio.get_running_loop(), list[str]()
    begun = asyncio.Event()

    async def fetch() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("cleaned")

    def fetching(job: Job) -> Outcome:
        job.run_on(loop, fetch())
        return Outcome({})

    def after(_: Job) -> Outcome:
        order.append("next")
        return Outcome({})

    first, second = jobs.submit(spec(), fetching), jobs.submit(spec(), after)
    await begun.wait()
    jobs.cancel(first.id, "")
    await second.wait(LONG)
    await first.wait(LONG)
    assert (first.state, second.state, order) == ("cancelled", "done", ["cleaned", "next"])


async def test_at_the_end_nothing_begins_and_what_runs_is_asked_to_stop() -> None:
    """And one that does not listen does not keep the server from ending."""
    jobs = Jobs(JobLimits(grace_s=LONG))
    began = threading.Event()

    def listens(job: Job) -> Outcome:
        began.set()
        while not job.is_cancelled():
            began.wait(0.001)
        return Outcome({}, True)

    running, waiting = jobs.submit(spec(), listens), jobs.submit(spec(), listens)
    assert began.wait(LONG)
    await jobs.close()
    assert (running.state, waiting.state) == ("cancelled", "cancelled")
    with pytest.raises(TooManyRequests):
        jobs.submit(spec(), listens)

    deaf, gate = Jobs(JobLimits(grace_s=0.0)), Gate()
    job = deaf.submit(spec(), gate)
    gate.wait_for(1)
    await deaf.close()
    assert job.state == "running"
    gate.open()


def test_an_upload_is_private_bounded_and_gone_afterwards(tmp_path: Path) -> None:
    """What a killed process left is swept up, what another one holds is not."""
    root = tmp_path / "namespaces"
    uploads = Uploads(root, max_bytes=10, at_once=1)
    upload = uploads.open("notes ä.txt")
    upload.write(b"0123456789")
    with pytest.raises(UploadTooLarge, match="longer than 10 bytes"):
        upload.write(b"x")
    folder = upload.path.parents[1]
    assert folder.stat().st_mode & 0o077 == 0
    assert uploads.conceal(f"{upload.path}: damaged; {root}/ns/vectors") == "notes ä.txt: damaged; ns/vectors"

    stale = root / ".uploads-stale"
    stale.mkdir()
    (stale / "lock").touch()
    other = Uploads(root, max_bytes=10, at_once=1)
    other.open("b.txt").discard()
    assert upload.path.exists() and not stale.exists()
    for closed in (uploads, other):
        closed.close()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "nul\0", "x" * 201, "half \ud800"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """It becomes a file's name here."""
    with pytest.raises(InvalidRequest, match="filename"):
        Uploads(tmp_path, max_bytes=10, at_once=1).open(name)


def test_so_many_files_come_in_at_once(tmp_path: Path) -> None:
    """A place that is given back can be taken again."""
    uploads = Uploads(tmp_path, max_bytes=10, at_once=1)
    uploads.begin()
    with pytest.raises(TooManyRequests):
        uploads.begin()
    uploads.end()
    uploads.begin()
