"""Background jobs of one process: their errors, their end, and uploaded files. No test waits for a time to pass."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused_for

from retrieval.errors import DocumentUnreadable
from server.errors import QUEUE_FULL, UPLOAD_TOO_LARGE, RequestError
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import Job, JobLimits, JobSpec, Outcome
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


async def test_a_failure_is_told_without_places_and_an_unknown_one_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the error table has it; the log has the cause."""
    jobs = LocalJobQueue(JobLimits(), lambda text: text.replace("/data/", ""))

    def fails(error: Exception) -> Callable[[Job], Outcome]:
        def work(_: Job) -> Outcome:
            raise error

        return work

    with caplog.at_level(logging.INFO):
        known = await jobs.submit(spec(), fails(DocumentUnreadable("/data/a.pdf: damaged")))
        unknown = await jobs.submit(spec(), fails(ValueError("the question of /data/secret")))
        known, unknown = await jobs.wait(known, LONG), await jobs.wait(unknown, LONG)
    assert known.error is not None and unknown.error is not None
    assert (known.state, known.error.status, known.error.message) == ("failed", 422, "a.pdf: damaged")
    assert (unknown.error.status, unknown.error.code) == (500, "internal_error")
    assert "secret" not in unknown.error.message
    assert "cause=ValueError" in caplog.text


async def test_at_the_end_nothing_begins_and_what_runs_is_asked_to_stop() -> None:
    """And one that does not listen does not keep the server from ending."""
    jobs = LocalJobQueue(JobLimits(grace_s=LONG))
    began = threading.Event()

    def listens(job: Job) -> Outcome:
        began.set()
        while not job.is_cancelled():
            began.wait(0.001)
        return Outcome({}, True)

    for _ in range(2):
        await jobs.submit(spec(), listens)
    assert began.wait(LONG)
    await jobs.close()
    assert [job.state for job in await jobs.of("")] == ["cancelled", "cancelled"]
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        await jobs.submit(spec(), listens)

    deaf, gate = LocalJobQueue(JobLimits(grace_s=0.0)), Gate()
    job = await deaf.submit(spec(), gate)
    gate.wait_for(1)
    await deaf.close()
    assert (await deaf.get(job.id, "")).state == "running"
    gate.open()


def test_an_upload_is_private_bounded_and_gone_afterwards(tmp_path: Path) -> None:
    """What a killed process left is swept up, what another one holds is not."""
    root = tmp_path / "namespaces"
    uploads = Uploads(root, max_bytes=10, at_once=1)
    upload = uploads.open("notes ä.txt")
    upload.write(b"0123456789")
    with refused_for(UPLOAD_TOO_LARGE, match="longer than 10 bytes"):
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
    with pytest.raises(RequestError, match="filename"):
        Uploads(tmp_path, max_bytes=10, at_once=1).open(name)


def test_so_many_files_come_in_at_once(tmp_path: Path) -> None:
    """A place that is given back can be taken again."""
    uploads = Uploads(tmp_path, max_bytes=10, at_once=1)
    uploads.begin()
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        uploads.begin()
    uploads.end()
    uploads.begin()
