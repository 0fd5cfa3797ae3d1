"""Read and change the tables of jobs: their rows, and their uploaded files in parts, which any server can read.

Each function is one step of a transaction that the caller has opened; ``JobFiles`` opens its own. A step
that changes more than one row, or decides by the rows of others, needs ``lock`` before it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from models.files import parse_json
from retrieval.errors import RetrievalError
from server.error_mapping import ErrorReply, error_reply
from server.errors import QUEUE_FULL, SERVER_STOPPING, RequestError
from server.jobs.queue import MAX_ATTEMPTS, End, JobLimits, JobSpec, JobStatus, WorkOrder
from server.jobs.uploads import Upload
from server.state.database import Database, is_storable

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

CHANNEL: Final = "arrowhead_jobs"
# A job waits; one is to be cancelled; one has ended, or waits again.
Notice = Literal["new", "cancel", "ended"]
# The number of the advisory lock under which jobs are queued, begun and ended, so that turns hold over all servers.
_LOCK: Final = 0x4A6F6273
_MAX_WAIT_S: Final = 7 * 86_400
_COLUMNS: Final = "id, kind, namespace, owner, state, cancelling, created, started, finished, progress, result, error"
_OPEN: Final = "state IN ('queued', 'running')"
_CLAIM: Final = """
WITH next AS (
    SELECT j.place FROM arrowhead_jobs j LEFT JOIN arrowhead_job_turns t USING (owner)
    WHERE j.state = 'queued' AND j.home IN ('', %(home)s) AND NOT j.owner = ANY(%(excluded)s)
        AND (j.origin = %(server)s OR (%(performs)s AND j.arguments IS NOT NULL))
        AND NOT EXISTS (
            SELECT 1 FROM arrowhead_jobs r
            WHERE r.state = 'running' AND r.home = j.home AND r.namespace = j.namespace
        )
    ORDER BY coalesce(t.turn, 0), j.place LIMIT 1 FOR UPDATE OF j SKIP LOCKED
)
UPDATE arrowhead_jobs SET state = 'running', runner = %(server)s, started = %(now)s, attempts = attempts + 1,
    lease = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE place = (SELECT place FROM next)
RETURNING id, kind, namespace, owner, arguments, file, file_bytes
"""
_TURN: Final = """
INSERT INTO arrowhead_job_turns (owner, turn) VALUES (%s, nextval('arrowhead_job_turn'))
ON CONFLICT (owner) DO UPDATE SET turn = excluded.turn
"""
_FORGET_TURNS: Final = f"""
DELETE FROM arrowhead_job_turns t WHERE NOT EXISTS (
    SELECT 1 FROM arrowhead_jobs j WHERE j.owner = t.owner AND {_OPEN}
)
"""
_END: Final = """
UPDATE arrowhead_jobs SET state = %s, progress = %s, result = %s, error = %s, finished = %s, cancelling = false,
    runner = NULL, lease = NULL, arguments = NULL, ended = clock_timestamp()
WHERE id = %s AND runner = %s AND state = 'running' RETURNING id
"""
_RELEASE: Final = """
UPDATE arrowhead_jobs SET state = 'queued', runner = NULL, lease = NULL, started = 0, attempts = attempts - %s
WHERE id = %s AND runner = %s AND state = 'running' AND NOT cancelling AND attempts - %s < %s RETURNING id
"""
_RENEW: Final = """
UPDATE arrowhead_jobs SET lease = clock_timestamp() + make_interval(secs => %s), progress = %s
WHERE id = %s AND runner = %s AND state = 'running' RETURNING cancelling
"""
_TAKE_BACK: Final = """
UPDATE arrowhead_jobs SET state = CASE WHEN cancelling THEN 'cancelled' ELSE 'failed' END, finished = %(now)s,
    error = CASE WHEN cancelling THEN NULL ELSE %(error)s::bytea END, cancelling = false, runner = NULL, lease = NULL,
    arguments = NULL, ended = clock_timestamp()
WHERE state = 'running' AND lease < clock_timestamp()
    AND (cancelling OR arguments IS NULL OR attempts >= %(attempts)s)
RETURNING id
"""
_QUEUE_AGAIN: Final = """
UPDATE arrowhead_jobs SET state = 'queued', runner = NULL, lease = NULL, started = 0
WHERE state = 'running' AND lease < clock_timestamp() RETURNING id
"""
_GIVE_UP: Final = """
UPDATE arrowhead_jobs SET state = 'failed', finished = %s, error = %s, arguments = NULL, ended = clock_timestamp()
WHERE state = 'queued' AND stored < clock_timestamp() - make_interval(secs => %s) RETURNING id
"""
_CANCEL: Final = f"""
UPDATE arrowhead_jobs SET cancelling = state = 'running', finished = CASE state WHEN 'queued' THEN %s ELSE 0 END,
    state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
    arguments = CASE state WHEN 'queued' THEN NULL ELSE arguments END,
    ended = CASE state WHEN 'queued' THEN clock_timestamp() END
WHERE id = %s AND owner = %s AND {_OPEN} RETURNING {_COLUMNS}
"""
_TRIM: Final = """
DELETE FROM arrowhead_jobs WHERE place IN (
    SELECT place FROM arrowhead_jobs WHERE ended IS NOT NULL ORDER BY ended DESC OFFSET %s
)
"""
# A file without a job is one that a server is storing, or that an ended one did not store to the end.
_DROP_FILES: Final = f"""
DELETE FROM arrowhead_job_files f USING (SELECT DISTINCT job FROM arrowhead_job_files) h
    LEFT JOIN arrowhead_jobs j ON j.id = h.job
WHERE f.job = h.job AND NOT coalesce(j.{_OPEN}, false)
    AND (j.id IS NOT NULL OR f.stored < clock_timestamp() - interval '1 hour')
"""
_ENDED: Final = f"SELECT unnest(%s::text[]) EXCEPT SELECT id FROM arrowhead_jobs WHERE {_OPEN}"

_PART: Final = 1 << 20
_HELD: Final = "SELECT coalesce(sum(file_bytes), 0) FROM arrowhead_jobs WHERE state IN ('queued', 'running')"


@dataclass(frozen=True, slots=True)
class Server:
    """Name a process, for the rows; ``home``: its data folder, "" where the servers share the namespaces."""

    id: str
    home: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """Describe a job that this process has to run now; ``arguments`` None: by the work that it submitted."""

    id: str
    spec: JobSpec
    arguments: Mapping[str, Any] | None
    file: str | None
    file_bytes: int


async def lock(connection: Connection) -> None:
    """Wait until no other transaction changes jobs; the end of this one releases the lock."""
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


async def tell(connection: Connection, notice: Notice, subject: str) -> None:
    """Tell the servers, when the transaction ends, of a change.

    ``subject``: the id of the server that a new job was sent to, else that of the job.
    """
    await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{notice} {subject}"))


async def check_room(connection: Connection, limits: JobLimits, server: Server, owner: str) -> None:
    """Check that one job more of a key may wait.

    Raises:
        QUEUE_FULL: as ``JobQueue.submit`` says.
    """
    sql = (
        "SELECT count(*), count(*) FILTER (WHERE owner = %s) FROM arrowhead_jobs "
        "WHERE state = 'queued' AND home IN ('', %s)"
    )
    row = await (await connection.execute(sql, (owner, server.home))).fetchone()
    assert row is not None
    limits.check_room(row[0], row[1])


async def insert(connection: Connection, job: JobStatus, server: Server, order: WorkOrder | None, size: int) -> None:
    sql = (
        "INSERT INTO arrowhead_jobs (id, kind, namespace, owner, home, origin, arguments, file, file_bytes, created) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    )
    arguments = _packed(order.arguments) if order else None
    file = order.file.name if order and order.file else None
    of = job.spec
    values = (job.id, of.kind, of.namespace, of.owner, server.home, server.id, arguments, file, size, job.created)
    await connection.execute(sql, values)


async def claim(
    connection: Connection, server: Server, excluded: Sequence[str], now: int, *, performs: bool
) -> ClaimedJob | None:
    """Begin the oldest job that can, of the key whose last start is the longest ago, and return it.

    ``excluded``: keys that must wait. ``performs``: whether this process does the work of orders.
    """
    values = {
        "home": server.home,
        "server": server.id,
        "lease_s": server.lease_s,
        "excluded": list(excluded),
        "performs": performs,
        "now": now,
    }
    row = await (await connection.execute(_CLAIM, values)).fetchone()
    if row is None:
        return None
    job_id, kind, namespace, owner, arguments, file, size = row
    await connection.execute(_FORGET_TURNS)
    await connection.execute(_TURN, (owner,))
    return ClaimedJob(job_id, JobSpec(kind, namespace, owner), _unpacked(arguments), file, size)


async def renew(connection: Connection, job_id: str, server: Server, progress: Mapping[str, Any] | None) -> bool | None:
    """Prolong the lease of a job; return whether it is to be cancelled, None where it is another server's now."""
    values = (server.lease_s, _packed(progress), job_id, server.id)
    row = await (await connection.execute(_RENEW, values)).fetchone()
    return None if row is None else bool(row[0])


async def end(connection: Connection, job: JobStatus, server: Server, how: End) -> bool:
    """Write the end of a job; return False where it is another server's now."""
    state, result, error = how
    packed_error = _packed(asdict(error)) if error else None
    values = (state, _packed(job.progress), _packed(result), packed_error, job.finished, job.id, server.id)
    return await (await connection.execute(_END, values)).fetchone() is not None


async def release(connection: Connection, job_id: str, server: Server, *, counts: bool) -> bool:
    """Give a running job back to the queue.

    ``counts``: the attempt is one of the few that a job has. Returns False where the job is to be cancelled, has had
    its attempts, or is another server's now.
    """
    given_back = 0 if counts else 1
    values = (given_back, job_id, server.id, given_back, MAX_ATTEMPTS)
    return await (await connection.execute(_RELEASE, values)).fetchone() is not None


async def expire_home(connection: Connection, server: Server) -> None:
    """End the leases of this folder's earlier servers, which have ended, since a folder has one server."""
    sql = (
        "UPDATE arrowhead_jobs SET lease = clock_timestamp() - interval '1 s' "
        "WHERE state = 'running' AND home = %s AND home <> '' AND runner <> %s"
    )
    await connection.execute(sql, (server.home, server.id))


async def take_back(connection: Connection, now: int) -> list[str]:
    """Queue the jobs of servers that ended, or end those that cannot be done again; return the ids."""
    error = _packed(
        asdict(error_reply(RequestError("the server that ran this job ended; send it again", SERVER_STOPPING)))
    )
    values = {"now": now, "error": error, "attempts": MAX_ATTEMPTS}
    found = await (await connection.execute(_TAKE_BACK, values)).fetchall()
    found += await (await connection.execute(_QUEUE_AGAIN)).fetchall()
    waited = error_reply(
        RequestError("no server that has this namespace ran for a week; send it again", SERVER_STOPPING)
    )
    values_of_old = (now, _packed(asdict(waited)), _MAX_WAIT_S)
    found += await (await connection.execute(_GIVE_UP, values_of_old)).fetchall()
    return [str(row[0]) for row in found]


async def cancel(connection: Connection, job_id: str, owner: str, now: int) -> JobStatus | None:
    """Cancel a job that waits, or ask that it be cancelled; None where none of this key waits or runs."""
    if not is_storable(job_id):
        return None
    row = await (await connection.execute(_CANCEL, (now, job_id, owner))).fetchone()
    return status_of(row) if row else None


async def cancel_own(connection: Connection, server: Server, now: int) -> list[str]:
    """Cancel the waiting jobs that this process alone could run; return their ids."""
    sql = (
        "UPDATE arrowhead_jobs SET state = 'cancelled', finished = %s, ended = clock_timestamp() "
        "WHERE state = 'queued' AND origin = %s AND arguments IS NULL RETURNING id"
    )
    return [str(row[0]) for row in await (await connection.execute(sql, (now, server.id))).fetchall()]


async def drop_ended(connection: Connection, kept: int) -> None:
    """Delete the oldest of the jobs that have ended, up to ``kept`` of them, and the files of all that have."""
    await connection.execute(_TRIM, (kept,))
    await connection.execute(_DROP_FILES)


async def find(connection: Connection, job_id: str) -> JobStatus | None:
    if not is_storable(job_id):
        return None
    sql = f"SELECT {_COLUMNS} FROM arrowhead_jobs WHERE id = %s"
    row = await (await connection.execute(sql, (job_id,))).fetchone()
    return status_of(row) if row else None


async def of_owner(connection: Connection, owner: str | None) -> list[JobStatus]:
    """Return the jobs of a key, None for those of all, newest first."""
    sql = f"SELECT {_COLUMNS} FROM arrowhead_jobs WHERE owner = coalesce(%s, owner) ORDER BY place DESC"
    return [status_of(row) for row in await (await connection.execute(sql, (owner,))).fetchall()]


async def busy(connection: Connection, home: str) -> frozenset[str]:
    sql = f"SELECT DISTINCT namespace FROM arrowhead_jobs WHERE {_OPEN} AND home IN ('', %s)"
    return frozenset(str(row[0]) for row in await (await connection.execute(sql, (home,))).fetchall())


async def ended_of(connection: Connection, job_ids: Sequence[str]) -> list[str]:
    """Return those of the jobs that have ended, or are no longer stored."""
    return [str(row[0]) for row in await (await connection.execute(_ENDED, (list(job_ids),))).fetchall()]


def status_of(row: Sequence[Any]) -> JobStatus:
    job_id, kind, namespace, owner, state, cancelling, created, started, finished, progress, result, error = row
    fields = _unpacked(error)
    return JobStatus(
        id=job_id,
        spec=JobSpec(kind, namespace, owner),
        state=state,
        cancelling=cancelling,
        created=created,
        started=started,
        finished=finished,
        progress=_unpacked(progress),
        result=_unpacked(result),
        error=ErrorReply(**fields) if fields else None,
    )


def _packed(value: Mapping[str, Any] | None) -> bytes | None:
    """Return JSON as bytes: a text of the database can have no NUL and no half of a character."""
    return None if value is None else json.dumps(value).encode()


def _unpacked(value: bytes | None) -> dict[str, Any] | None:
    return None if value is None else dict(parse_json(bytes(value)))


class JobFiles:
    """Store and fetch files; those of all jobs that have not ended hold at most ``max_bytes``."""

    def __init__(self, database: Database, max_bytes: int) -> None:
        self._database = database
        self._max_bytes = max_bytes

    async def put(self, job_id: str, path: Path) -> int:
        """Store a file and return its length in bytes; each part is a transaction of its own.

        Raises:
            QUEUE_FULL: the files of waiting jobs leave no room for this one.
            STATE_UNAVAILABLE: the database does not answer.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        async with self._database.pooled() as connection:
            row = await (await connection.execute(_HELD)).fetchone()
        if row is not None and row[0] + size > self._max_bytes:
            raise RequestError(
                "the files of waiting changes take all the room that there is; try again when one has ended", QUEUE_FULL
            )
        for part in range(-(-size // _PART)):
            data = await asyncio.to_thread(_read, path, part)
            async with self._database.pooled() as connection:
                sql = "INSERT INTO arrowhead_job_files (job, part, data) VALUES (%s, %s, %s)"
                await connection.execute(sql, (job_id, part, data))
        return size

    async def fetch(self, job_id: str, size: int, upload: Upload) -> None:
        """Write the file into ``upload``, and close it.

        Raises:
            RetrievalError: the database no longer has all of it.
            RequestError: this server does not take it.
            STATE_UNAVAILABLE: the database does not answer.
        """
        for part in range(-(-size // _PART)):
            async with self._database.pooled() as connection:
                sql = "SELECT data FROM arrowhead_job_files WHERE job = %s AND part = %s"
                row = await (await connection.execute(sql, (job_id, part))).fetchone()
            if row is None:
                break
            await asyncio.to_thread(upload.write, row[0])
        await asyncio.to_thread(upload.close)
        if upload.size != size:
            raise RetrievalError("the file of this job is not there any more: send it again")

    async def drop(self, job_id: str) -> None:
        async with self._database.pooled() as connection:
            await connection.execute("DELETE FROM arrowhead_job_files WHERE job = %s", (job_id,))


def _read(path: Path, part: int) -> bytes:
    with path.open("rb") as file:
        file.seek(part * _PART)
        return file.read(_PART)
