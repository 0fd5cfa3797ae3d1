"""Every job queue keeps the promises of ``JobQueue`` in ``server/jobs/queue.py``. No test waits for a time to pass.

To add an implementation, add its name to ``IMPLEMENTATIONS`` and to ``open_queue`` a function that opens an empty queue
with the given limits and a clock of Unix time. One that servers share needs tests of that in addition.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from moved_clock import Clock
from refusals import refused_for

from retrieval.errors import DocumentUnreadable
from server.errors import JOB_UNKNOWN, KEY_FULL, QUEUE_FULL, RequestError
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import Job, JobLimits, JobQueue, JobSpec, JobStatus, Outcome
from server.state.database import Database
from server.state.jobs import JobServer, PostgresJobQueue

LONG = 60.0
Open = Callable[[JobLimits, Callable[[], float]], JobQueue]
IMPLEMENTATIONS = ("local", "postgres")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000.5)


@pytest_asyncio.fixture(params=IMPLEMENTATIONS)
async def open_queue(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    if request.param == "local":
        yield lambda limits, now: LocalJobQueue(limits, now=now)
        return
    database = Database(request.getfixturevalue("postgres").new_database())
    yield lambda limits, now: PostgresJobQueue(database, limits, JobServer(), now)
    await database.close()


@pytest_asyncio.fixture
async def make(open_queue: Open, clock: Clock) -> AsyncIterator[Callable[..., JobQueue]]:
    made: list[JobQueue] = []

    def opened(**limits: float) -> JobQueue:
        made.append(open_queue(JobLimits(**limits), clock))  # type: ignore[arg-type]
        return made[-1]

    yield opened
    for queue in made:
        await queue.close()


@pytest.fixture
def queue(make: Callable[..., JobQueue]) -> JobQueue:
    return make()


class Begun:
    """Record the jobs that have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.changed = threading.Condition()

    def note(self, name: str) -> None:
        with self.changed:
            self.begun.append(name)
            self.changed.notify_all()

    async def wait_for(self, many: int) -> None:
        def seen() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.begun) >= many, LONG)

        await asyncio.to_thread(seen)


class Gate(Begun):
    """Work that runs until the gate opens or the job is cancelled; its jobs are known by their namespace."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = threading.Event()

    def __call__(self, job: Job) -> Outcome:
        job.on_cancel(self._opened.set)
        self.note(job.spec.namespace)
        self._opened.wait(LONG)
        return Outcome({"cancelled": job.is_cancelled()}, job.is_cancelled())

    def open(self) -> None:
        self._opened.set()


class Hold(Begun):
    """Work that runs until its job is released; its jobs are known by their kind."""

    def __init__(self) -> None:
        super().__init__()
        self._released: set[str] = set()

    def __call__(self, job: Job) -> Outcome:
        self.note(job.spec.kind)
        with self.changed:
            assert self.changed.wait_for(lambda: job.spec.kind in self._released, LONG)
        return Outcome({})

    def release(self, kind: str) -> None:
        with self.changed:
            self._released.add(kind)
            self.changed.notify_all()


def spec(namespace: str = "ns", owner: str = "me") -> JobSpec:
    return JobSpec("file", namespace, owner)


def nothing(_: Job) -> Outcome:
    return Outcome({})


async def ended(queue: JobQueue, job: JobStatus) -> JobStatus:
    found = await queue.wait(job, LONG)
    assert found.has_ended
    return found


async def test_a_job_has_its_progress_its_result_and_its_times(queue: JobQueue, clock: Clock) -> None:
    """Progress is merged by name; a time is 0, and None in JSON, until it has come."""
    reported, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(job: Job) -> Outcome:
        job.report({"read": 1, "left": "nothing"})
        job.report({"read": 2})
        loop.call_soon_threadsafe(reported.set)
        gate.wait(LONG)
        return Outcome({"added": 2})

    job = await queue.submit(spec(), work)
    await reported.wait()
    running = await queue.get(job.id, "me")
    clock.now += 7
    gate.set()
    done = await ended(queue, job)

    assert (job.spec, job.created) == (spec(), 1_700_000_000)
    assert (running.state, running.started, running.finished) == ("running", 1_700_000_000, 0)
    assert running.progress == done.progress == {"read": 2, "left": "nothing"}
    assert done.as_dict() == {
        "id": job.id,
        "object": "job",
        "kind": "file",
        "namespace": "ns",
        "state": "done",
        "cancelling": False,
        "created": 1_700_000_000,
        "started": 1_700_000_000,
        "finished": 1_700_000_007,
        "progress": {"read": 2, "left": "nothing"},
        "result": {"added": 2},
        "error": None,
    }
    assert running.as_dict()["finished"] is None


async def test_a_status_is_that_of_its_moment(queue: JobQueue) -> None:
    """What was returned does not change when the job goes on."""
    gate = Gate()
    job = await queue.submit(spec(), gate)
    await gate.wait_for(1)
    running = await queue.get(job.id, "me")
    gate.open()
    assert (await ended(queue, job)).state == "done"
    assert running.state == "running"


async def test_the_jobs_of_a_namespace_run_one_after_the_other(make: Callable[..., JobQueue]) -> None:
    """They run in the order of their submission; a job of another namespace does not wait for them."""
    queue, gate = make(running=2), Gate()
    submitted = [await queue.submit(spec(name), gate) for name in ("a", "a", "b", "c")]
    await gate.wait_for(2)
    assert sorted(gate.begun) == ["a", "b"]
    assert [(await queue.get(job.id, "me")).state for job in submitted] == ["running", "queued", "running", "queued"]
    assert queue.num_running == 2
    assert await queue.busy() == {"a", "b", "c"}
    gate.open()
    for job in submitted:
        await ended(queue, job)
    assert sorted(gate.begun[2:]) == ["a", "c"]
    assert (await queue.busy(), queue.num_running) == (frozenset(), 0)


async def test_a_namespace_is_free_when_its_job_is_reported_as_ended(queue: JobQueue) -> None:
    """A client that waited for a change may delete the namespace at once."""
    for number in range(20):
        await ended(queue, await queue.submit(spec(f"ns{number}"), nothing))
        assert await queue.busy() == frozenset()


async def test_jobs_of_one_namespace_keep_their_order(queue: JobQueue) -> None:
    """Twenty changes are applied as they were submitted."""
    order: list[int] = []

    def numbered(number: int) -> Callable[[Job], Outcome]:
        def work(_: Job) -> Outcome:
            order.append(number)
            return Outcome({})

        return work

    for job in [await queue.submit(spec(), numbered(number)) for number in range(20)]:
        await ended(queue, job)
    assert order == list(range(20))


async def test_a_full_queue_refuses(make: Callable[..., JobQueue]) -> None:
    """A refused job's cleanup is left to the caller; the queue takes jobs again when it has room."""
    queue, gate, cleaned = make(running=1, waiting=2), Gate(), list[str]()
    accepted = [await queue.submit(spec(), gate) for _ in range(3)]
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        await queue.check_room("me")
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        await queue.submit(spec(), gate, lambda: cleaned.append("x"))
    gate.open()
    for job in accepted:
        await ended(queue, job)
    assert (cleaned, len(await queue.of("me"))) == ([], 3)
    await queue.check_room("me")
    await ended(queue, await queue.submit(spec(), nothing, lambda: cleaned.append("y")))
    assert cleaned == ["y"]


async def test_a_key_with_many_jobs_does_not_hold_up_anothers(make: Callable[..., JobQueue]) -> None:
    """All places are its own, and the other's job begins all the same, before any of them ends; a third one's waits."""
    queue, gate = make(running=2, waiting=200, waiting_per_key=198, kept=400), Gate()
    many = [await queue.submit(spec(f"many{number}", "many"), gate) for number in range(200)]
    await gate.wait_for(2)
    single = await queue.submit(spec("single", "single"), gate)
    await gate.wait_for(3)
    assert gate.begun[2] == "single"
    third = await queue.submit(spec("third", "third"), gate)
    assert [(await queue.get(job.id, job.spec.owner)).state for job in (single, third)] == ["running", "queued"]
    assert queue.num_running == 3
    for job in many[3:]:
        await queue.cancel(job.id, "many")
    gate.open()
    for job in (single, third, *many[:3]):
        assert (await ended(queue, job)).state == "done"


@pytest.mark.parametrize("namespace", ["shared", ""])
async def test_keys_take_turns(make: Callable[..., JobQueue], namespace: str) -> None:
    """Also in one namespace, where each key's own jobs keep their order."""
    queue, hold = make(running=1, waiting=100), Hold()
    jobs = {
        kind: await queue.submit(JobSpec(kind, namespace or kind, kind[0]), hold)
        for kind in [f"{owner}{number}" for owner, count in (("a", 20), ("b", 3), ("c", 3)) for number in range(count)]
    }
    for number in range(len(jobs)):
        # All that run have noted their names: a thread that is slow to begin must not look as if its turn came late.
        await hold.wait_for(number + max(1, queue.num_running))
        hold.release(hold.begun[number])
        await ended(queue, jobs[hold.begun[number]])

    if namespace:
        assert hold.begun[:9] == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
    # Two run at a time where one key holds the only place, and note their names in any order.
    assert max(hold.begun.index("b2"), hold.begun.index("c2")) <= 12
    if namespace:
        assert [kind for kind in hold.begun if kind[0] == "a"] == [f"a{number}" for number in range(20)]


async def test_a_key_that_has_its_share_waiting_is_refused_and_another_is_not(make: Callable[..., JobQueue]) -> None:
    """The error says which bound it is."""
    queue, gate = make(running=1, waiting=5, waiting_per_key=2), Gate()
    accepted = [await queue.submit(spec(owner="many"), gate) for _ in range(3)]
    for refused in (queue.check_room("many"), queue.submit(spec(owner="many"), gate)):
        with refused_for(KEY_FULL, match="2 changes of this key are waiting already"):
            await refused
    await queue.check_room("single")
    accepted.append(await queue.submit(spec(owner="single"), gate))
    gate.open()
    for job in accepted:
        assert (await ended(queue, job)).state == "done"


async def test_a_failure_keeps_what_was_done_before(queue: JobQueue) -> None:
    """The job has its error and its result."""
    error = DocumentUnreadable("a.xml: cut")
    job = await ended(queue, await queue.submit(spec(), lambda _: Outcome({"added": 1}, error=error)))
    assert (job.state, job.result, job.error and job.error.message) == ("failed", {"added": 1}, "a.xml: cut")


async def test_only_the_newest_ended_jobs_are_stored(make: Callable[..., JobQueue]) -> None:
    """One that is no longer stored is unknown, and is still returned to a caller that waited for it."""
    queue = make(kept=2)
    made = [await ended(queue, await queue.submit(spec(), nothing)) for _ in range(5)]
    assert [job.id for job in await queue.of("me")] == [made[4].id, made[3].id]
    for call in (queue.get, queue.cancel):
        with refused_for(JOB_UNKNOWN):
            await call(made[0].id, "me")
    assert await queue.wait(made[0], LONG) == made[0]


async def test_a_job_that_has_not_ended_is_always_stored(make: Callable[..., JobQueue]) -> None:
    """However many others have ended since."""
    queue, gate = make(kept=1), Gate()
    job = await queue.submit(spec("slow"), gate)
    for _ in range(4):
        await ended(queue, await queue.submit(spec("quick"), nothing))
    assert (await queue.get(job.id, "me")).has_ended is False
    gate.open()
    assert (await ended(queue, job)).state == "done"


async def test_waiting_ends_with_its_time(queue: JobQueue) -> None:
    """The job is returned as it is, and goes on."""
    gate = Gate()
    job = await queue.submit(spec(), gate)
    assert not (await queue.wait(job, 0.0)).has_ended
    gate.open()
    assert (await ended(queue, job)).state == "done"


async def test_a_waiting_job_is_cancelled_now_and_a_running_one_at_its_next_step(queue: JobQueue) -> None:
    """What was done before is its result; files are cleaned up once; one that has ended stays as it is."""
    stepping, cleaned, opened = threading.Event(), list[str](), asyncio.Event()
    loop = asyncio.get_running_loop()

    def steps(job: Job) -> Outcome:
        loop.call_soon_threadsafe(opened.set)
        stepping.wait(LONG)
        return Outcome({"steps": 1}, job.is_cancelled())

    running = await queue.submit(spec(), steps, lambda: cleaned.append("running"))
    waiting = await queue.submit(spec(), steps, lambda: cleaned.append("waiting"))
    await opened.wait()
    gone = await queue.cancel(waiting.id, "me")
    assert (gone.state, gone.cancelling, gone.started, cleaned) == ("cancelled", False, 0, ["waiting"])
    stopping = await queue.cancel(running.id, "me")
    assert (stopping.state, stopping.cancelling) == ("running", True)
    stepping.set()
    stopped = await ended(queue, running)
    assert (stopped.state, stopped.result, stopped.cancelling) == ("cancelled", {"steps": 1}, False)
    assert await queue.cancel(running.id, "me") == stopped
    assert cleaned == ["waiting", "running"]


async def test_a_job_belongs_to_its_owner(queue: JobQueue) -> None:
    """Other keys get what they get for an unknown id; that a namespace is busy is known to all."""
    gate = Gate()
    job = await queue.submit(spec(owner="me"), gate)
    assert (await queue.get(job.id, "me")).id == job.id
    assert await queue.of("you") == []
    assert await queue.of(None) == await queue.of("me")
    assert await queue.busy() == {"ns"}
    for call in (queue.get, queue.cancel):
        for job_id, owner in ((job.id, "you"), (job.id, ""), ("job-unknown", "me")):
            with refused_for(JOB_UNKNOWN):
                await call(job_id, owner)
    gate.open()
    assert (await ended(queue, job)).state == "done"


async def test_an_error_of_the_work_fails_the_job(queue: JobQueue) -> None:
    """The error is that of a request; an unexpected one keeps its text to itself. The next job runs."""
    cleaned: list[str] = []

    def fails(error: Exception) -> Callable[[Job], Outcome]:
        def work(_: Job) -> Outcome:
            raise error

        return work

    known = await queue.submit(spec(), fails(DocumentUnreadable("a.pdf: damaged")), lambda: cleaned.append("known"))
    unknown = await queue.submit(spec(), fails(ValueError("a secret")), lambda: cleaned.append("unknown"))
    after = await queue.submit(spec(), nothing)
    found = [await ended(queue, job) for job in (known, unknown, after)]
    assert [job.state for job in found] == ["failed", "failed", "done"]
    errors = [job.error for job in found[:2] if job.error is not None]
    assert [(error.status, error.code) for error in errors] == [(422, errors[0].code), (500, "internal_error")]
    assert errors[0].message == "a.pdf: damaged" and "secret" not in errors[1].message
    assert cleaned == ["known", "unknown"]


async def test_a_coroutine_is_cancelled_and_has_cleaned_up_before_the_next_job_begins(queue: JobQueue) -> None:
    """The namespace is not free while the work that changes it still runs."""
    loop, order, begun = asyncio.get_running_loop(), list[str](), asyncio.Event()

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

    first, second = await queue.submit(spec(), fetching), await queue.submit(spec(), after)
    await begun.wait()
    await queue.cancel(first.id, "me")
    states = [(await ended(queue, job)).state for job in (first, second)]
    assert (states, order) == (["cancelled", "done"], ["cleaned", "next"])


async def test_concurrent_submissions_stay_within_the_bounds(make: Callable[..., JobQueue]) -> None:
    """Of forty tasks, those of which a job runs or waits succeed; the ids differ."""
    queue, gate = make(running=1, waiting=5), Gate()
    found = await asyncio.gather(*(queue.submit(spec(), gate) for _ in range(40)), return_exceptions=True)
    jobs = [job for job in found if isinstance(job, JobStatus)]
    assert all(isinstance(job, JobStatus) or QUEUE_FULL.is_of(job) for job in found)
    assert len({job.id for job in jobs}) == len(jobs) == 6
    gate.open()
    for job in jobs:
        await ended(queue, job)


async def test_a_closed_queue_cancels_its_jobs_and_takes_no_more(make: Callable[..., JobQueue]) -> None:
    """A running job is given time to stop, a waiting one never begins."""
    queue, gate = make(grace_s=LONG), Gate()
    running, waiting = await queue.submit(spec(), gate), await queue.submit(spec(), gate)
    await gate.wait_for(1)
    await queue.close()
    assert [(await queue.get(job.id, "me")).state for job in (running, waiting)] == ["cancelled", "cancelled"]
    assert gate.begun == ["ns"]
    with pytest.raises(RequestError, check=QUEUE_FULL.is_of):
        await queue.submit(spec(), nothing)
