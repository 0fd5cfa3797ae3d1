"""What the job of a run tells while it works, and what it keeps."""

from __future__ import annotations

import asyncio

from waiting import until

from server.api.reviews.runs import RUN, RunProgress
from server.jobs.queue import Job, JobSpec
from server.methods.base import Step, TextDelta


def job() -> Job:
    return Job(JobSpec(RUN, "review_1", ""))


def test_a_run_tells_steps_counts_and_text_and_keeps_the_counts() -> None:
    work = job()
    progress = RunProgress(work, 0.0)
    progress.feed(Step("found 3", {"found": 3}))
    progress.feed(Step("screened 2", {"screened": 2}))
    progress.feed(TextDelta("It helps."))
    told = dict(work.progress or {})
    assert told == {"steps": ["found 3", "screened 2"], "flow": {"found": 3, "screened": 2}, "text": "It helps."}
    progress.end()
    assert work.progress == {"steps": [], "flow": {"found": 3, "screened": 2}, "text": ""}


def test_where_reviews_are_sealed_a_job_holds_no_text_at_any_time() -> None:
    work = job()
    progress = RunProgress(work, 0.0, tells_text=False)
    progress.feed(Step("1 record at gateway: lasmiditan", {"found": 1}))
    progress.feed(TextDelta("It helps."))
    assert work.progress == {"steps": [], "flow": {"found": 1}}


async def test_the_time_left_is_that_of_the_run_before() -> None:
    first, later = job(), job()
    ticking = [asyncio.create_task(RunProgress(work, usual).tick()) for work, usual in ((first, 0.0), (later, 60.0))]
    await until(lambda: first.progress is not None and later.progress is not None)
    for task in ticking:
        task.cancel()
    assert first.progress is not None and first.progress["remaining_s"] is None
    assert later.progress is not None and 0 < later.progress["remaining_s"] <= 60
