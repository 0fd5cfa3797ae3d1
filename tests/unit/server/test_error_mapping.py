"""Replies to exceptions: a full disk is told as such, whatever met it."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import ArrowheadError
from retrieval.errors import DatabaseUnavailable, IndexFault, NamespaceDamaged, RetrievalError
from server.audit.log import AuditFailed
from server.error_mapping import error_codes, error_reply
from server.errors import JOB_UNKNOWN, KEY_FULL, RequestError
from server.jobs.queue import Job, JobSpec, failure

ROOT = Path(__file__).parents[3]


def full_database() -> None:
    """Do what a full disk makes of a statement of SQLite."""
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA max_page_count = 2")
    database.execute("CREATE TABLE t (x)")
    database.execute("INSERT INTO t VALUES (zeroblob(100000))")


def full_disk() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_quota() -> None:
    raise OSError(errno.EDQUOT, "Disk quota exceeded")


def met_by(kind: type[ArrowheadError] | None, cause: Callable[[], None]) -> Exception:
    try:
        try:
            cause()
        except (OSError, sqlite3.Error) as error:
            if kind is None:
                raise
            raise kind("it cannot be written") from error
    except (ArrowheadError, OSError, sqlite3.Error) as error:
        return error
    raise AssertionError("there was room")


@pytest.mark.parametrize("cause", [full_database, full_disk, full_quota])
@pytest.mark.parametrize("kind", [None, NamespaceDamaged, DatabaseUnavailable, IndexFault, AuditFailed, RetrievalError])
def test_a_full_disk_is_507_with_what_to_do(kind: type[ArrowheadError] | None, cause: Callable[[], None]) -> None:
    """No namespace is called damaged, and no unknown failure blamed, for want of room."""
    reply = error_reply(met_by(kind, cause))
    assert (reply.status, reply.code) == (507, "disk_full")
    assert "what was stored before stays; free space" in reply.message


def test_a_job_on_a_full_disk_says_what_was_kept() -> None:
    """The documents whose transactions ended before it."""
    job = Job(JobSpec("documents", "ns", "me"))
    job.report({"read": 1200})
    reply = failure(job, met_by(NamespaceDamaged, full_database), str)
    assert (reply.status, reply.message.endswith("(1,200 documents of this change are stored)")) == (507, True)


def test_other_failures_are_no_full_disk() -> None:
    """A folder without rights is mended otherwise."""

    def refused() -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    assert error_reply(met_by(NamespaceDamaged, refused)).status == 500
    assert error_reply(ValueError("x")).code == "internal_error"


def test_a_fault_decides_the_reply_of_an_error_without_a_class() -> None:
    """Status, code and remedy; the kind follows from the status."""
    reply = error_reply(RequestError("not here", JOB_UNKNOWN, param="job_id"))
    assert (reply.status, reply.type, reply.code) == (404, "invalid_request_error", "job_not_found")
    assert reply.message.startswith("not here. GET /v1/jobs") and reply.param == "job_id"
    assert error_reply(RequestError("full", KEY_FULL, retry_after_s=7)).headers == {"Retry-After": "7"}


def test_every_fault_is_among_the_codes() -> None:
    """The document of the API lists them; that of a replay is met by the command line alone."""
    sources = [path.read_text() for name in ("server", "retrieval", "models") for path in (ROOT / name).rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'Fault\(\s*\d+,\s*"(\w+)"', text)}
    assert len(codes) > 60
    assert codes - error_codes() == {"not_recorded"}
