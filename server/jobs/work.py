"""Do the work of one job on the current thread, and tell how it ended."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from server.error_mapping import ErrorReply, error_reply
from server.jobs.queue import Job, JobState, Work
from server.observability.observer import request_id

log = logging.getLogger(__name__)
End = tuple[JobState, Mapping[str, Any] | None, ErrorReply | None]
CANCELLED: End = ("cancelled", None, None)


def end_of(job: Job, work: Work, conceal: Callable[[str], str]) -> End:
    """Do the work, and return state, result and error of the job; ``conceal`` removes paths from a message."""
    request_id.set(job.id)
    try:
        outcome = work(job)
    except concurrent.futures.CancelledError:
        return CANCELLED
    except Exception as error:
        return "failed", None, failure(job, error, conceal)
    if outcome.error is not None:
        return "failed", outcome.result, failure(job, outcome.error, conceal)
    return "cancelled" if outcome.cancelled else "done", outcome.result, None


def failure(job: Job, error: Exception, conceal: Callable[[str], str]) -> ErrorReply:
    reply = error_reply(error)
    unknown = reply.code == "internal_error"
    level = logging.ERROR if unknown else logging.INFO
    log.log(level, "job failed: id=%s cause=%s", job.id, type(error).__name__, exc_info=error if unknown else None)
    return replace(reply, message=conceal(reply.message))


def clean(job_id: str, cleanup: Callable[[], None]) -> None:
    """Run the cleanup of a job; what it leaves behind is logged."""
    try:
        cleanup()
    except OSError as fault:
        log.error("job left files behind: id=%s cause=%s", job_id, fault.strerror)
