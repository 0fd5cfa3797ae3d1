"""Store keys in the database, for the command line and for every server of it.

A change locks one row, so that changes come one after the other, and is told to the servers (LISTEN, NOTIFY). Each
server follows on a thread with a connection of its own; a request never waits for the database.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from server.auth.keys import KeySnapshot, KeyStoreError, NewKey, StoredKey, Version, key_for, retained, revoked
from server.errors import StateUnavailable
from server.state.database import Database

if TYPE_CHECKING:
    from psycopg import Connection

    _Connection = Connection[tuple[Any, ...]]

log = logging.getLogger(__name__)
_CHANNEL: Final = "arrowhead_keys"
# A notice can be lost with its connection: the number of changes is read this often in any case.
_LOOK_S: Final = 1.0
_SELECT: Final = "SELECT id, digest, name, created, expires, revoked, scopes FROM arrowhead_keys ORDER BY place"
_NUMBER: Final = "SELECT number FROM arrowhead_key_changes"
_INSERT: Final = """
INSERT INTO arrowhead_keys (id, digest, name, created, expires, scopes) VALUES (%s, %s, %s, %s, %s, %s)
"""


class PostgresKeyStore:
    """Read and change the keys of the database.

    The first ``version`` or ``read`` reads them and starts the thread that follows. A server that has heard nothing of
    the database for ``max_age_s`` accepts no key of it any more, since one of them may have been revoked.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        max_age_s: float = 30.0,
    ) -> None:
        self._database = database
        self._now = now
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._seen = KeySnapshot((), None)
        self._heard = 0.0
        self._interruptions = 0
        self._follower: threading.Thread | None = None
        self._closing = threading.Event()

    def known(self) -> tuple[StoredKey, ...]:
        with _as_keys(), self._database.connection() as connection:
            return _keys(connection)

    def version(self) -> Version | None:
        return self.read().version

    def read(self) -> KeySnapshot:
        with self._lock:
            if self._follower is None:
                self._begin()
            if time.monotonic() - self._heard > self._max_age_s:
                raise KeyStoreError(f"the database of keys has not answered for {self._max_age_s:g} s")
            return self._seen

    def create(self, new_key: NewKey) -> tuple[str, StoredKey]:
        with self._changing() as (connection, keys):
            secret, key = key_for(new_key, keys, self._now())
            scopes = json.dumps(asdict(key.scopes))
            connection.execute(_INSERT, (key.id, key.digest, key.name, key.created, key.expires, scopes))
            kept = {one.id for one in retained((*keys, key))}
            dropped = [one.id for one in keys if one.id not in kept]
            if dropped:
                connection.execute("DELETE FROM arrowhead_keys WHERE id = ANY(%s)", (dropped,))
        return secret, key

    def revoke(self, which: str) -> StoredKey:
        with self._changing() as (connection, keys):
            key = revoked(which, keys, self._now())
            connection.execute("UPDATE arrowhead_keys SET revoked = %s WHERE id = %s", (key.revoked, key.id))
        return key

    def close(self) -> None:
        with self._lock:
            follower, self._follower = self._follower, None
        if follower is not None:
            self._closing.set()
            follower.join(_LOOK_S * 3)

    @contextmanager
    def _changing(self) -> Iterator[tuple[_Connection, tuple[StoredKey, ...]]]:
        """Yield a connection in a transaction that no other change runs beside, and the keys before the change."""
        with _as_keys(), self._database.connection() as connection, connection.transaction():
            connection.execute("UPDATE arrowhead_key_changes SET number = number + 1")
            yield connection, _keys(connection)
            connection.execute(f"NOTIFY {_CHANNEL}")

    def _begin(self) -> None:
        """Read the keys and start to follow; the caller holds the lock."""
        with _as_keys(), self._database.connection() as connection:
            self._take(connection)
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, args=(self._closing,), name="keys", daemon=True)
        self._follower.start()

    def _follow(self, closing: threading.Event) -> None:
        while not closing.is_set():
            try:
                with self._database.connection() as connection:
                    connection.execute(f"LISTEN {_CHANNEL}")
                    while not closing.is_set():
                        self._take(connection)
                        for _ in connection.notifies(timeout=_LOOK_S, stop_after=1):
                            pass
            except (StateUnavailable, KeyStoreError) as error:
                log.warning("keys are not followed: %s", error.message)
                # A server that refused the keys meanwhile has to take them again, whether or not one has changed.
                self._interruptions += 1
                closing.wait(_LOOK_S)

    def _take(self, connection: _Connection) -> None:
        """Read the keys if they have changed."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            (number,) = connection.execute(_NUMBER).fetchone() or (0,)
            version = (self._interruptions, number) if number else None
            seen = self._seen if version == self._seen.version else KeySnapshot(_keys(connection), version)
        self._seen, self._heard = seen, time.monotonic()


def _keys(connection: _Connection) -> tuple[StoredKey, ...]:
    names = ("id", "digest", "name", "created", "expires", "revoked", "scopes")
    rows = [dict(zip(names, row, strict=True)) for row in connection.execute(_SELECT).fetchall()]
    try:
        return TypeAdapter(tuple[StoredKey, ...]).validate_python(rows)
    except ValidationError:
        # The validation error is not chained or quoted, as it cites the rows.
        raise KeyStoreError("the table of keys is damaged, or of a later version") from None


@contextmanager
def _as_keys() -> Iterator[None]:
    try:
        yield
    except StateUnavailable as error:
        raise KeyStoreError("the keys cannot be read or written: the database does not answer") from error
