"""Store the token codes of a shared namespace's passages in the database, beside their vectors.

Changes become visible and durable with ``commit``; a crash leaves the last commit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from models.encoders.base import Codes, EncoderFingerprint
from models.encoders.token_codes import bytes_per_token
from retrieval.errors import INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.token_store import identity_of
from retrieval.storage.database import Connection, SharedDatabase

_KEY: Final = "token_codes"
_ROWS: Final = 500


class SharedTokenStore:
    """Implement ``TokenCodes`` for one namespace."""

    def __init__(
        self, database: SharedDatabase, namespace: str, fingerprint: EncoderFingerprint, *, write: bool
    ) -> None:
        """Open the codes of a namespace.

        Raises:
            IndexDamaged: there is no such namespace.
            IndexFault: another encoder, or another version of this program, made its codes.
        """
        self._database = database
        self._width = bytes_per_token(fingerprint.dim)
        self._lock = threading.Lock()
        with database.connection() as connection:
            rows = connection.rows("SELECT id FROM arrowhead_namespaces WHERE name = %s", (namespace,))
        if not rows:
            raise IndexDamaged(f"namespace {namespace} was deleted meanwhile")
        self._namespace = int(rows[0][0])
        self._check(identity_of(fingerprint), write=write)
        self._session: Connection | None = database.session() if write else None
        self._block: contextlib.ExitStack | None = None

    def _check(self, identity: str, *, write: bool) -> None:
        with self._database.connection() as connection:
            if write:
                connection.run(
                    "INSERT INTO arrowhead_namespace_values (namespace, key, value) VALUES (%s, %s, %s) "
                    "ON CONFLICT (namespace, key) DO NOTHING",
                    (self._namespace, _KEY, identity),
                )
            rows = connection.rows(
                "SELECT value FROM arrowhead_namespace_values WHERE namespace = %s AND key = %s",
                (self._namespace, _KEY),
            )
        if not rows or rows[0][0] != identity:
            raise IndexFault("the token vectors are of another encoder or version", INDEX_MISMATCH, param="encoder")

    def put(self, ids: Sequence[int], codes: Sequence[Codes]) -> None:
        sql = (
            "INSERT INTO arrowhead_token_codes (namespace, passage_id, data) SELECT %s, * FROM "
            "unnest(%s::bigint[], %s::bytea[]) ON CONFLICT (namespace, passage_id) DO UPDATE SET data = excluded.data"
        )
        with self._writing() as connection:
            for first in range(0, len(ids), _ROWS):
                some = [int(number) for number in ids[first : first + _ROWS]]
                data = [one.tobytes() for one in codes[first : first + _ROWS]]
                connection.run(sql, (self._namespace, some, data))

    def delete(self, ids: Sequence[int]) -> None:
        sql = "DELETE FROM arrowhead_token_codes WHERE namespace = %s AND passage_id = ANY(%s::bigint[])"
        with self._writing() as connection:
            connection.run(sql, (self._namespace, [int(number) for number in ids]))

    def commit(self) -> None:
        with self._lock:
            block, self._block = self._block, None
            if block is not None:
                block.close()

    def get(self, ids: Sequence[int]) -> dict[int, Codes]:
        """Return the codes uint8 [tokens, bytes] of those passages that have any.

        Raises:
            IndexDamaged: a row is of another width.
        """
        sql = (
            "SELECT passage_id, data FROM arrowhead_token_codes WHERE namespace = %s AND passage_id = ANY(%s::bigint[])"
        )
        with self._database.connection() as connection:
            rows = connection.rows(sql, (self._namespace, [int(number) for number in ids]))
        return {int(number): self._codes(int(number), bytes(data)) for number, data in rows}

    def missing(self, ids: Sequence[int]) -> list[int]:
        found = self.get(ids)
        return [number for number in ids if number not in found]

    def __len__(self) -> int:
        sql = "SELECT count(*) FROM arrowhead_token_codes WHERE namespace = %s"
        with self._database.connection() as connection:
            return int(connection.rows(sql, (self._namespace,))[0][0])

    def close(self) -> None:
        """Close the store and discard uncommitted changes."""
        with self._lock:
            session, self._session, self._block = self._session, None, None
            if session is not None:
                session.close()

    def _codes(self, number: int, data: bytes) -> Codes:
        if len(data) % self._width:
            raise IndexDamaged(f"the token vectors of passage {number} are not what was written")
        return np.frombuffer(data, np.uint8).reshape(-1, self._width)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._lock:
            if self._session is None:
                raise IndexFault("the token vectors were opened for reading, or are closed")
            if self._block is None:
                self._block = contextlib.ExitStack()
                self._block.enter_context(self._session.transaction())
            yield self._session


def has_codes(database: SharedDatabase, namespace: str) -> bool:
    """Return whether a namespace was ever given codes."""
    sql = (
        "SELECT 1 FROM arrowhead_namespace_values v JOIN arrowhead_namespaces n ON n.id = v.namespace "
        "WHERE n.name = %s AND v.key = %s"
    )
    with database.connection() as connection:
        return bool(connection.rows(sql, (namespace, _KEY)))


def remove_codes(database: SharedDatabase, namespace: str) -> None:
    """Remove all codes of a namespace, so that those of another encoder can be stored."""
    with database.connection() as connection, connection.transaction():
        for table, condition in (("arrowhead_token_codes", "true"), ("arrowhead_namespace_values", f"key = '{_KEY}'")):
            connection.run(
                f"DELETE FROM {table} WHERE {condition} AND namespace = "
                "(SELECT id FROM arrowhead_namespaces WHERE name = %s)",
                (namespace,),
            )
