"""The connection of a job's work with its queue."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from server.jobs.queue import Job, JobSpec

SPEC = JobSpec("file", "ns", "me")


def test_a_callback_runs_once_on_cancellation() -> None:
    """At once where the job is cancelled already."""
    job, calls = Job(SPEC), list[str]()
    job.on_cancel(lambda: calls.append("before"))
    assert (job.is_cancelled(), calls) == (False, [])
    job.cancel()
    job.cancel()
    job.on_cancel(lambda: calls.append("after"))
    assert (job.is_cancelled(), calls) == (True, ["before", "after"])


async def test_a_coroutine_returns_its_result_to_the_thread_of_the_work() -> None:
    """The thread waits for the loop."""
    job, loop = Job(SPEC), asyncio.get_running_loop()

    async def fetch() -> int:
        await asyncio.sleep(0)
        return 7

    assert await asyncio.to_thread(lambda: job.run_on(loop, fetch())) == 7


async def test_a_coroutine_of_a_cancelled_job_ends_at_its_first_wait() -> None:
    """A job that was cancelled before it called NCBI calls it no more."""
    job, loop = Job(SPEC), asyncio.get_running_loop()
    job.cancel()

    def work() -> None:
        with pytest.raises(concurrent.futures.CancelledError):
            job.run_on(loop, asyncio.sleep(60.0))

    await asyncio.to_thread(work)
