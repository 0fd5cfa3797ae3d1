"""Keys of one database: every server follows them, and none outlives its contact to the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from server.auth.authentication import ApiKeyLookup
from server.auth.keys import KeyStoreError, NewKey
from server.errors import RequestError
from server.state.database import Database
from server.state.keys import PostgresKeyStore

if TYPE_CHECKING:
    from postgres_server import Postgres

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def server(url: str) -> Iterator[PostgresKeyStore]:
    store = PostgresKeyStore(Database(url, timeout_s=2), lambda: NOW, max_age_s=4)
    yield store
    store.close()


def until(holds: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def accepts(ring: ApiKeyLookup, secret: str) -> bool:
    try:
        return bool(ring.find(secret).owner)
    except (RequestError, KeyStoreError):
        return False


def test_a_server_follows_keys_without_asking(server: PostgresKeyStore, url: str) -> None:
    """A new key counts within moments, and a revoked one no longer."""
    ring, operator = ApiKeyLookup((), server, lambda: NOW), PostgresKeyStore(Database(url), lambda: NOW)
    secret, _ = operator.create(NewKey(name="anna"))
    assert until(lambda: accepts(ring, secret))
    operator.revoke("anna")
    assert until(lambda: not accepts(ring, secret))


def test_no_key_outlives_the_contact_to_the_database(server: PostgresKeyStore, url: str, postgres: Postgres) -> None:
    """One may have been revoked meanwhile; when the database is back, the others count again, this one does not."""
    ring, operator = ApiKeyLookup((), server, lambda: NOW), PostgresKeyStore(Database(url), lambda: NOW)
    secrets = [operator.create(NewKey(name=name))[0] for name in ("anna", "ben")]
    assert until(lambda: accepts(ring, secrets[1]))
    with postgres.unreachable(url):
        assert until(lambda: not accepts(ring, secrets[0]))
        with pytest.raises(KeyStoreError):
            ring.find(secrets[0])
        with pytest.raises(KeyStoreError, match="does not answer"):
            operator.create(NewKey(name="carl"))
    operator.revoke("anna")
    # Between the database's return and this revocation the server may have read the keys once.
    assert until(lambda: not accepts(ring, secrets[0]))
    assert until(lambda: accepts(ring, secrets[1]))


def test_a_server_without_keys_needs_none_when_the_database_is_back(
    server: PostgresKeyStore, url: str, postgres: Postgres
) -> None:
    """While it is gone, the first key may have been made at another server."""
    ring = ApiKeyLookup((), server, lambda: NOW)
    assert not ring.requires_key
    with postgres.unreachable(url):
        assert until(lambda: ring.requires_key)
    assert until(lambda: not ring.requires_key)
    assert ring.principal_of("").is_operator


def test_rows_of_another_make_are_refused_whole(server: PostgresKeyStore, url: str) -> None:
    """A scope that this version does not know must not be read as no scope."""
    operator = PostgresKeyStore(Database(url), lambda: NOW)
    operator.create(NewKey(name="anna"))
    with Database(url).connection() as connection:
        connection.execute("UPDATE arrowhead_keys SET scopes = '{\"requests_per_minute\": -5}'")
    with pytest.raises(KeyStoreError, match="damaged"):
        operator.known()
    with pytest.raises(KeyStoreError, match="damaged"):
        server.read()
