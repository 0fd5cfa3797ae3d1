"""Keep the stores of namespaces in a PostgreSQL database that several servers share.

The folder ``NAME/`` of each server has the indices that it derives for itself, which follow the log of changes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval.corpus.store.base import Target
from retrieval.corpus.store.postgres_reader import PostgresPassageStore
from retrieval.corpus.store.postgres_writer import Positions, PostgresPassageWriter, SharedNamespace
from retrieval.corpus.store.sqlite_stores import locked
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceUnknown
from retrieval.storage.database import Connection, SharedDatabase

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

_OWN_WAIT_S: Final = 60.0


class PostgresPassageStores:
    """Implement ``PassageStores``.

    ``root``: the folder of this server's own indices. ``drop_indices`` removes the indices of a namespace that lie in
    the database, as part of the transaction that deletes it. A lock of a name is waited for ``wait_s``.
    """

    own_targets: Final[frozenset[Target]] = frozenset(("words",))

    def __init__(
        self,
        root: Path,
        database: SharedDatabase,
        drop_indices: Callable[[Connection, int], None],
        *,
        wait_s: float = 0.0,
    ) -> None:
        self._root = root
        self._database = database
        self._drop_indices = drop_indices
        self._wait_s = wait_s
        self._locked: dict[str, Connection] = {}

    def names(self) -> list[str]:
        with self._database.connection() as connection:
            return [str(row[0]) for row in connection.rows("SELECT name FROM arrowhead_namespaces ORDER BY name")]

    def exists(self, name: str) -> bool:
        return self.identity(name) is not None

    def identity(self, name: str) -> str | None:
        found = self._found(name)
        return None if found is None else found.uid

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        connection = self._database.session()
        try:
            if not connection.lock(_lock_number(name), self._wait_s):
                raise NamespaceBusy(f"namespace {name} is being changed by another server or process")
            with self._own_lock(name, _OWN_WAIT_S):
                # A writer shares this connection: one that lost the lock cannot write either.
                self._locked[name] = connection
                try:
                    yield
                finally:
                    del self._locked[name]
        finally:
            connection.close()

    def own_lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self._own_lock(name, 0.0)

    @contextlib.contextmanager
    def _own_lock(self, name: str, wait_s: float) -> Iterator[None]:
        busy = f"namespace {name} is being changed by another process of this server"
        with locked(self._root / name, wait_s, busy):
            found = self._found(name)
            if found is not None:
                self._positions(found).claim()
            yield

    @contextlib.contextmanager
    def creating(
        self, name: str, meta: Mapping[str, str], chunker: Chunker, targets: Sequence[Target]
    ) -> Iterator[PostgresPassageWriter]:
        with self.lock(name):
            if self.exists(name):
                raise CorpusError(f"there is a namespace {name} already", NAMESPACE_EXISTS)
            connection = self._locked[name]
            own = [target for target in targets if target in self.own_targets]
            with connection.transaction():
                rows = connection.rows(
                    "INSERT INTO arrowhead_namespaces (name, own) VALUES (%s, %s::text[]) RETURNING id, uid::text",
                    (name, own),
                )
                of = SharedNamespace(int(rows[0][0]), name, str(rows[0][1]), frozenset(own))
                values = {"indexed": "0", **meta}
                connection.run(
                    "INSERT INTO arrowhead_namespace_values SELECT %s, * FROM unnest(%s::text[], %s::text[])",
                    (of.id, list(values), list(values.values())),
                )
                yield self._writer(of, chunker, targets)

    def open(self, name: str) -> PostgresPassageStore:
        of = self._found(name)
        if of is None:
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        write = functools.partial(self._writer, of)
        return PostgresPassageStore(self._database, of, self._positions(of), write)

    def sweep(self) -> list[str]:
        """Remove nothing: a killed change is a transaction that never was."""
        return []

    def delete(self, name: str) -> None:
        """Delete a namespace for all servers at once; the indices of other servers go when the name is used again."""
        of = self._found(name)
        if of is None:
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        connection = self._locked[name]
        with connection.transaction():
            self._drop_indices(connection, of.id)
            for table in ("arrowhead_passages", "arrowhead_passage_twins", "arrowhead_documents"):
                connection.run(f"DELETE FROM {table} WHERE namespace = %s", (of.id,))
            connection.run("DELETE FROM arrowhead_namespaces WHERE id = %s", (of.id,))
        shutil.rmtree(self._root / name, ignore_errors=True)

    def _found(self, name: str) -> SharedNamespace | None:
        sql = "SELECT id, uid::text, own FROM arrowhead_namespaces WHERE name = %s"
        with self._database.connection() as connection:
            rows = connection.rows(sql, (name,))
        return SharedNamespace(int(rows[0][0]), name, str(rows[0][1]), frozenset(rows[0][2])) if rows else None

    def _positions(self, of: SharedNamespace) -> Positions:
        return Positions(self._root / of.name, of.uid)

    def _writer(self, of: SharedNamespace, chunker: Chunker, targets: Sequence[Target]) -> PostgresPassageWriter:
        held = self._locked.get(of.name)
        connect = self._database.session if held is None else lambda: _Borrowed(held)
        return PostgresPassageWriter(of, self._positions(of), connect, (chunker, targets))


class _Borrowed:
    """Use the connection of a lock, which the lock closes."""

    def __init__(self, connection: Connection) -> None:
        self.rows = connection.rows
        self.run = connection.run
        self.transaction = connection.transaction
        self.lock = connection.lock

    def close(self) -> None:
        """Do nothing."""


def _lock_number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"arrowhead namespace {name}".encode()).digest()[:8], "big", signed=True)
