"""The database of shared state: its tables are made once, and its failures name no address."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.settings.loading import SettingsInvalid
from server.state.database import Database

if TYPE_CHECKING:
    from postgres_server import Postgres

TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'arrowhead\\_%'"


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest_asyncio.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, timeout_s=2)
    yield database
    await database.close()


def test_servers_that_start_at_once_make_the_tables_once(postgres: Postgres) -> None:
    """Six migrate an empty database, and again a finished one."""
    url = postgres.new_database(empty=True)
    for _ in range(2):
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda _: Database(url).migrate(), range(6)))
    with Database(url).connection() as connection:
        assert connection.execute(TABLES).fetchone() == (20,)
        assert connection.execute("SELECT number FROM arrowhead_key_changes").fetchall() == [(0,)]
        assert connection.execute("SELECT DISTINCT hostname FROM _yoyo_log").fetchall() == [("",)]


async def test_an_exception_rolls_a_transaction_back(database: Database) -> None:
    """What the block wrote before is gone, and the connection serves the next one."""
    with pytest.raises(ZeroDivisionError):
        async with database.pooled() as connection:
            await connection.execute("DELETE FROM arrowhead_key_changes")
            raise ZeroDivisionError
    async with database.pooled() as connection:
        assert await (await connection.execute("SELECT number FROM arrowhead_key_changes")).fetchall() == [(0,)]


async def test_a_database_that_is_gone_is_an_error_in_time(postgres: Postgres, url: str, database: Database) -> None:
    """Both kinds of connection fail within their bound, and work again when the database is back."""
    async with database.pooled() as connection:
        await connection.execute("SELECT 1")
    with postgres.unreachable(url):
        started = time.monotonic()
        with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of):
            async with database.pooled() as connection:
                await connection.execute("SELECT 1")
        with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of), database.connection():
            pass
        assert time.monotonic() - started < 30
    async with database.pooled() as connection:
        await connection.execute("SELECT 1")


async def test_a_statement_that_hangs_is_ended(database: Database) -> None:
    """The limit is the database's own, so nothing runs on there."""
    with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of):
        async with database.pooled() as connection:
            await connection.execute("SELECT pg_sleep(60)")


def test_no_message_names_the_address(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the error nor the log has user, password or host."""
    database = Database("postgresql://anna:secret@127.0.0.1:1/private?connect_timeout=2")
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of) as failed,
        database.connection(),
    ):
        pass
    told = caplog.text + failed.value.message + repr(failed.value)
    assert not [word for word in ("anna", "secret", "127.0.0.1", "private") if word in told]


def test_an_address_that_libpq_cannot_read_is_refused() -> None:
    """The message names the setting and cites nothing."""
    with pytest.raises(SettingsInvalid, match=r"state\.url") as refused:
        Database("postgresql://anna:secret@host/db?nonsense=1")
    assert "secret" not in refused.value.message
