"""Read the gateway's SQLite store.

Knows nothing of query syntax, replies or imported files. A store is one file. It is built whole from the sample, or
filled by imports, each in one transaction: a reader sees the state before or after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from retrieval.formats.records import Corpus, Database, Gene, OmimEntry, Record, SequenceSegment, Snp
from retrieval.gateway.errors import GatewayDataError
from retrieval.gateway.store import schema
from retrieval.gateway.store.indexing import RankFeatures, uid_of
from retrieval.gateway.store.schema import decode, phrase_of
from retrieval.gateway.store.writer import StoreWriter
from retrieval.storage.durable import sync
from retrieval.storage.private_files import make_folder
from retrieval.storage.sqlite_pool import ReadPool

SAMPLE, SITE = "sample", "site"
_BATCH: Final = 500
_CONNECTIONS: Final = 8
_MAX_COUNTS: Final = 10_000
_R = TypeVar("_R")


def build_store(corpus: Corpus, path: Path) -> None:
    """Build the sample's store beside ``path`` and rename it there, so that a reader never sees a partial one."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        _write(corpus, draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        for stale_file in (Path(f"{path}-wal"), Path(f"{path}-shm")):
            stale_file.unlink(missing_ok=True)
        draft.replace(path)
        sync(path.parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)


def _write(corpus: Corpus, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        # No reader sees the draft, and it is synced as a whole: a journal would only cost time.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        with connection:
            schema.create(connection)
            meta = {"schema": schema.SCHEMA_VERSION, "kind": SAMPLE, "fingerprint": corpus.fingerprint}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            writer = StoreWriter(connection)
            for organism in corpus.organisms:
                writer.add_organism_names(organism)
            for record in _distinct((*corpus.genes, *corpus.snps, *corpus.omim, *corpus.segments, *corpus.articles)):
                writer.put(record)
        # The file stores this mode: to set it at the first import would mean to wait until there are no readers.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _distinct(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records; two of one ID are an error in the sample, not an update.

    Raises:
        GatewayDataError: two records have one ID.
    """
    seen: set[tuple[type[Any], object]] = set()
    for record in records:
        key = (type(record), record.uid if isinstance(record, SequenceSegment) else uid_of(record))
        if key in seen:
            raise GatewayDataError(f"the sample has two records of one id: {key[0].__name__} {key[1]}")
        seen.add(key)
        yield record


class GatewayStore:
    """Read one store file, also while an import writes it.

    Safe for concurrent use by many threads; every call is short.
    """

    def __init__(self, path: Path) -> None:
        """Open the store.

        Raises:
            GatewayDataError: the file is missing, not a store, or of another schema.
        """
        self.path = path
        self._counts: dict[tuple[int, bytes], int] = {}
        self._counts_lock = threading.Lock()
        try:
            self._pool = ReadPool(path, _CONNECTIONS)
        except sqlite3.Error as error:
            raise GatewayDataError(f"{path}: not a gateway store ({error})") from error
        try:
            version = self.meta("schema")
        except sqlite3.Error as error:
            self.close()
            raise GatewayDataError(f"{path}: not a gateway store ({error})") from error
        if version != schema.SCHEMA_VERSION:
            self.close()
            raise GatewayDataError(f"{path}: schema {version or 'unknown'}, {schema.SCHEMA_VERSION} needed")

    def close(self) -> None:
        self._pool.close()

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Give this thread a consistent view of the store for the block, unaffected by a concurrent import."""
        return self._pool.snapshot()

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._pool.acquire() as connection:
            return connection.execute(sql, parameters).fetchall()

    def version(self) -> int:
        """Return a number that grows with every finished import, after which earlier results may be out of date."""
        with self._pool.acquire() as connection:
            return int(connection.execute("SELECT count(*) FROM imported").fetchone()[0])

    def count_rows(self, select: str, parameters: Sequence[object] = ()) -> int:
        """Return how many rows a statement selects; cached until the next import, since common words recur."""
        statement = repr((select, *parameters)).encode()
        key = (self.version(), hashlib.blake2b(statement, digest_size=16).digest())
        with self._counts_lock:
            known = self._counts.get(key)
        if known is None:
            known = int(self.query(f"SELECT count(*) FROM ({select})", parameters)[0][0])
            with self._counts_lock:
                if len(self._counts) >= _MAX_COUNTS:
                    self._counts.clear()
                self._counts[key] = known
        return known

    @property
    def kind(self) -> str:
        """Return ``SAMPLE``, or ``SITE`` after the first import, which may happen while the store is being read."""
        return self.meta("kind")

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the sample that the store was built from."""
        return self.meta("fingerprint")

    def meta(self, key: str) -> str:
        rows = self.query("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def count(self, db: Database) -> int:
        return self.count_rows(f"SELECT uid FROM {db}")

    def vocabulary(self, db: Database, where: str, parameters: Sequence[object]) -> list[tuple[str, int]]:
        """Return words of a full-text index, each with the number of its records; ``where`` selects by ``term``."""
        table = f"{db}_vocabulary"
        with self._pool.acquire() as connection:
            connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table} USING fts5vocab(main, {db}_index, row)"
            )
            return connection.execute(f"SELECT term, doc FROM temp.{table} WHERE {where}", parameters).fetchall()

    def record(self, db: Database, uid: str) -> Record | None:
        """Return a record by its Entrez UID, or in nuccore by accession and segment."""
        column = "key" if db == "nuccore" else "uid"
        rows = self.query(f"SELECT body FROM {db} WHERE {column} = ?", (uid,))
        return decode(db, rows[0][0]) if rows else None

    def gene(self, uid: str) -> Gene | None:
        return _as(Gene, self.record("gene", uid))

    def snp(self, uid: str) -> Snp | None:
        return _as(Snp, self.record("snp", uid))

    def omim(self, uid: str) -> OmimEntry | None:
        return _as(OmimEntry, self.record("omim", uid))

    def segments(self, accession: str | None = None) -> tuple[SequenceSegment, ...]:
        """Return all segments, or those of one accession (with or without its version), by accession and start."""
        rows = self.query("SELECT body FROM nuccore")
        found = [s for (body,) in rows if isinstance(s := decode("nuccore", body), SequenceSegment)]
        matches = (s for s in found if accession is None or accession in (s.accession, s.accession.split(".")[0]))
        return tuple(sorted(matches, key=lambda s: (s.accession, s.start)))

    def tax_ids(self, name: str) -> list[int]:
        """Return the organisms that have this name, the lowest taxonomy ID first."""
        rows = self.query("SELECT tax_id FROM organism WHERE name = ? ORDER BY tax_id", (phrase_of(name).strip(),))
        return [int(row[0]) for row in rows]

    def organism(self, name: str) -> str | None:
        """Return the scientific name for any name of an organism of the store."""
        sql = "SELECT scientific FROM organism WHERE name = ? ORDER BY tax_id LIMIT 1"
        rows = self.query(sql, (phrase_of(name).strip(),))
        return str(rows[0][0]) if rows else None

    def rank_features(self, db: Database, uids: Iterable[int]) -> dict[int, RankFeatures]:
        uid_list = list(uids)
        found: dict[int, RankFeatures] = {}
        for first in range(0, len(uid_list), _BATCH):
            batch = uid_list[first : first + _BATCH]
            marks = ",".join("?" * len(batch))
            rows = self.query(f"SELECT uid, weight, live, human, number FROM {db} WHERE uid IN ({marks})", batch)
            found |= {
                uid: RankFeatures(weight, bool(live), bool(human), number) for uid, weight, live, human, number in rows
            }
        return found

    def keys(self, uids: Sequence[int]) -> list[str]:
        """Return accession and segment of nuccore rows, in the same order."""
        return [str(self.query("SELECT key FROM nuccore WHERE uid = ?", (uid,))[0][0]) for uid in uids]

    def links(self, source: Database, uid: str, target: Database) -> list[str]:
        """Return the linked UIDs, the lowest first."""
        sql = "SELECT DISTINCT target_uid FROM link WHERE source = ? AND uid = ? AND target = ? ORDER BY target_uid"
        return [str(row[0]) for row in self.query(sql, (source, uid, target))]


def _as(kind: type[_R], record: Record | None) -> _R | None:
    return record if isinstance(record, kind) else None


class SegmentLookup:
    """Look up the segments of one call; the store is read once, and only for the first ID."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store
        self._known: dict[str, list[SequenceSegment]] | None = None

    def named(self, uid: str) -> list[SequenceSegment]:
        """Return the segments of an ID, by accession and start; an accession names all its segments."""
        if self._known is None:
            self._known = _by_name(self._store)
        return self._known.get(uid, [])


def _by_name(store: GatewayStore) -> dict[str, list[SequenceSegment]]:
    found: dict[str, list[SequenceSegment]] = defaultdict(list)
    for segment in store.segments():
        for name in {segment.uid, segment.accession, segment.accession.split(".")[0]}:
            found[name].append(segment)
    return dict(found)
