"""Store traces in the database, where every server of it finds them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from retrieval.errors import DatabaseUnavailable
from server.state.database import Database, is_storable
from server.traces import MAX_TRACE_BYTES, TraceFile, TraceHead, append_to_file, trace_text

log = logging.getLogger(__name__)
# The number of the advisory lock under which one server at a time drops what exceeds the bounds.
_LOCK: Final = 0x54726163
_INSERT: Final = "INSERT INTO arrowhead_traces (id, owner, body) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING"
_EXPIRE: Final = "DELETE FROM arrowhead_traces WHERE stored < clock_timestamp() - make_interval(secs => %s)"
_SHARES: Final = "SELECT owner, count(*), sum(length(body)) FROM arrowhead_traces GROUP BY owner"
_DROP_OLDEST: Final = """
DELETE FROM arrowhead_traces
WHERE place = (SELECT place FROM arrowhead_traces WHERE owner = %s ORDER BY place LIMIT 1)
RETURNING length(body)
"""
# The end of an answer waits so long for its trace to be stored; a database that does not answer takes several seconds.
_WAIT_S: Final = 1.0
_MAX_PENDING: Final = 1024
_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class TraceBounds:
    """Bound the traces of a database by number, bytes of JSON text, and seconds since they were stored."""

    traces: int
    bytes: int = MAX_TRACE_BYTES
    age_s: float = 7 * 86_400.0


class _Share(NamedTuple):
    traces: int
    bytes: int = MAX_TRACE_BYTES


class PostgresTraceStore:
    """Store traces within bounds that hold for all servers together.

    At a bound, the key that holds the most gives up its oldest trace. With ``file``, each trace is also appended there.
    A trace that takes longer than a second is stored in the background, until ``close``.
    """

    def __init__(self, database: Database, bounds: TraceBounds, file: TraceFile | None = None) -> None:
        self._database = database
        self._bounds = bounds
        self._file = file
        self._pending: set[asyncio.Task[None]] = set()
        # Traces are stored one at a time in any case; many that wait would take all connections from rates and jobs.
        self._turn = asyncio.Lock()

    async def put(self, head: TraceHead, choices: Sequence[Mapping[str, Any]]) -> None:
        text = trace_text(head, choices)
        body = text.encode()
        if self._bounds.traces and len(body) <= self._bounds.bytes:
            await self._put(head, body)
        if self._file is not None:
            await append_to_file(self._file, head, text)

    async def get(self, trace_id: str, owner: str) -> str | None:
        if not is_storable(trace_id):
            return None
        query = "SELECT body FROM arrowhead_traces WHERE id = %s AND owner = %s"
        async with self._database.pooled() as connection:
            row = await (await connection.execute(query, (trace_id, owner))).fetchone()
        return bytes(row[0]).decode() if row else None

    async def close(self) -> None:
        """Wait for what is stored in the background, ten seconds at most."""
        if self._pending:
            _, late = await asyncio.wait(self._pending, timeout=_CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                log.error("traces not stored: number=%d cause=the server ends", len(late))

    async def _put(self, head: TraceHead, body: bytes) -> None:
        if len(self._pending) >= _MAX_PENDING:
            log.error("trace not stored: id=%s cause=too many wait for the database", head.id)
            return
        task = asyncio.create_task(self._stored(head, body), name="trace-store")
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        await asyncio.wait({task}, timeout=_WAIT_S)
        if task.done() and not task.cancelled():
            task.result()

    async def _stored(self, head: TraceHead, body: bytes) -> None:
        try:
            async with self._turn:
                await self._insert(head, body)
        except DatabaseUnavailable:
            log.error("trace not stored: id=%s cause=the database does not answer", head.id)

    async def _insert(self, head: TraceHead, body: bytes) -> None:
        async with self._database.pooled() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            await connection.execute(_INSERT, (head.id, head.owner, body))
            await connection.execute(_EXPIRE, (self._bounds.age_s,))
            rows = await (await connection.execute(_SHARES)).fetchall()
            shares = {owner: _Share(number, int(size)) for owner, number, size in rows}
            # One trace at a time, as the next may be another key's; of each new trace about one goes.
            while (owner := self._holds_too_much(shares)) is not None:
                dropped = await (await connection.execute(_DROP_OLDEST, (owner,))).fetchone()
                assert dropped is not None
                shares[owner] = _Share(shares[owner].traces - 1, shares[owner].bytes - dropped[0])

    def _holds_too_much(self, shares: Mapping[str, _Share]) -> str | None:
        """Return the key that gives up a trace now, None where the bounds are kept."""
        if sum(share.bytes for share in shares.values()) > self._bounds.bytes:
            return max(shares, key=lambda owner: shares[owner].bytes)
        if sum(share.traces for share in shares.values()) > self._bounds.traces:
            return max(shares, key=lambda owner: shares[owner].traces)
        return None
