"""Traces of one database: every server finds them, for a limited time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.state.database import Database
from server.state.traces import PostgresTraceStore, TraceBounds
from server.traces import TraceFile, TraceHead

if TYPE_CHECKING:
    from postgres_server import Postgres

BOUNDS = TraceBounds(traces=100, bytes=1_000_000)


def head(name: str) -> TraceHead:
    return TraceHead(name, "m", "a", 1_700_000_000)


def written(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*.jsonl"))


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest_asyncio.fixture
async def databases(url: str) -> AsyncIterator[list[Database]]:
    databases = [Database(url, timeout_s=4) for _ in range(2)]
    yield databases
    for database in databases:
        await database.close()


async def test_another_server_finds_a_trace(databases: list[Database]) -> None:
    """Also after the first one has ended; a second trace of one id changes nothing."""
    first, second = (PostgresTraceStore(database, BOUNDS) for database in databases)
    await first.put(head("t1"), [{"content": "NUL \x00 and β"}])
    await second.put(head("t1"), [{"content": "another"}])
    await databases[0].close()
    text = await second.get("t1", "a")
    assert text is not None and json.loads(text)["choices"] == [{"content": "NUL \x00 and β"}]


async def test_old_traces_are_deleted(databases: list[Database]) -> None:
    """The age counts from the time of storing."""
    store = PostgresTraceStore(databases[0], BOUNDS)
    await store.put(head("old"), [])
    async with databases[0].pooled() as connection:
        await connection.execute("UPDATE arrowhead_traces SET stored = stored - interval '8 days'")
    await store.put(head("new"), [])
    assert [await store.get(name, "a") is not None for name in ("old", "new")] == [False, True]


async def test_an_answer_does_not_fail_with_the_database(
    databases: list[Database], postgres: Postgres, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The trace is lost there and logged by its id, and still written to the operator's file; reading is an error."""
    file = TraceFile(tmp_path, 1_000_000)
    store = PostgresTraceStore(databases[0], BOUNDS, file)
    with postgres.unreachable(url):
        began = time.monotonic()
        await store.put(head("t9"), [{"content": "private"}])
        # The answer ends before the wait for a connection does.
        assert time.monotonic() - began < 3.9
        with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of):
            await store.get("t9", "a")
        await store.close()
    assert "trace not stored: id=t9" in caplog.text and "private" not in caplog.text
    assert "t9" in written(tmp_path)


async def test_traces_that_end_together_leave_connections_to_others(
    databases: list[Database], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty wait for a slow one; a statement of another kind gets its connection at once, and all are stored."""
    store = PostgresTraceStore(databases[0], BOUNDS)
    slow = asyncio.Event()
    insert = store._insert

    async def inserted(head: TraceHead, body: bytes) -> None:
        await slow.wait()
        await insert(head, body)

    monkeypatch.setattr(store, "_insert", inserted)
    began = time.monotonic()
    await asyncio.gather(*(store.put(head(f"t{n}"), []) for n in range(30)))
    assert time.monotonic() - began < 25
    async with databases[0].pooled() as connection:
        await connection.execute("SELECT 1")
    slow.set()
    await store.close()
    assert [await store.get(f"t{n}", "a") is not None for n in range(30)] == [True] * 30
