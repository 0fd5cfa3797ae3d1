"""Import one downloaded file: read it into a staging file, then merge it into the store in one transaction.

After a kill at any moment, the store is unchanged or holds the whole file; the next run of the same import resumes
where this one stopped. A bad record is skipped and reported; a bad file changes nothing. Rows of the staging file,
beside the store, are ready to be written (indexed, encoded), in the order of the imported file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from retrieval.errors import GATEWAY_BUSY, ImportFileError, RetrievalError
from retrieval.formats.items import Bad, ReadOptions
from retrieval.formats.records import Database, Entry, Gene, Link, Organism, Removal, Taxon
from retrieval.formats.sources import Source
from retrieval.gateway.importing.human_genes import HUMAN, KIND, TABLE, put_human_genes, withdraw_human_genes
from retrieval.gateway.importing.registry import FileKind
from retrieval.gateway.store.open import SITE_MARK, STORE_NAME, open_store
from retrieval.gateway.store.reader import SAMPLE, SITE, RankFeatures, decode, store_errors
from retrieval.gateway.store.writer import Row, StoreWriter, links_of, organism_of
from retrieval.storage.files import create_file, make_folder, sync

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS staged (n INTEGER PRIMARY KEY, op TEXT NOT NULL, db TEXT, uid INTEGER, key TEXT,
    weight INTEGER, live INTEGER, human INTEGER, number INTEGER, body BLOB, columns TEXT);
CREATE TABLE IF NOT EXISTS progress (id INTEGER PRIMARY KEY CHECK (id = 0), items INTEGER NOT NULL,
    entries INTEGER NOT NULL, bad INTEGER NOT NULL, read_all INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bad (line INTEGER NOT NULL, reason TEXT NOT NULL);
INSERT OR IGNORE INTO progress VALUES (0, 0, 0, 0, 0);
"""
Operation = Row | Link | Removal | Organism
_BATCH: Final = 20_000
_MAX_SHOWN: Final = 20
_CHUNK: Final = 1 << 20
# Files after which gene weights are computed again: one has the links to articles, the other the genes.
_WEIGHING: Final = frozenset({"gene2pubmed", "gene_info"})


@dataclass(frozen=True, slots=True)
class Progress:
    """Report the progress of an import.

    ``phase``: checking, reading or merging; ``done`` of ``total`` bytes, or rows when merging.
    """

    phase: str
    done: int
    total: int
    entries: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Summarize an import; ``already`` True: this very file was imported before, and nothing was done."""

    entries: int
    bad: int
    first_bad: tuple[tuple[int, str], ...]
    already: bool = False


ProgressCallback = Callable[[Progress], None]


def import_file(
    data_dir: Path, kind: FileKind, path: Path, options: ReadOptions, on_progress: ProgressCallback
) -> ImportResult:
    """Import one file; the first import of a site replaces the sample.

    Raises:
        ImportFileError: the file is not of its kind, truncated or damaged; the store is unchanged.
        RetrievalError: another import is running.
        GatewayDataError: the store cannot be read or written.
    """
    make_folder(data_dir)
    with _import_lock(data_dir):
        open_store(data_dir).close()
        digest = _sha256(path, on_progress)
        with _writing(data_dir / STORE_NAME) as store:
            what = _Import(kind.name, digest, _effective_options(kind, options), path)
            if what.is_done(store):
                return ImportResult(0, 0, (), already=True)
            staging = Staging(what.staging_path(data_dir))
            options = replace(options, organisms=_StoredOrganisms(store))
            try:
                _read(staging, kind, path, options, on_progress)
                counts, bad = staging.counts, tuple(staging.bad_records(_MAX_SHOWN))
                _mark(data_dir)
                _merge(store, staging, what, on_progress)
            except ImportFileError:
                staging.discard()
                raise
            except BaseException:
                staging.close()
                raise
            staging.discard()
            return ImportResult(counts.entries, counts.bad, bad)


def add_human_genes(data_dir: Path, table: Path = TABLE) -> int:
    """Add the genes of the package's table to the store, and return how many; 0 where the store needs none.

    It needs none with this very table or NCBI's own file of human genes in it. One transaction: killed at any moment,
    the store has all of them or none, and the next call adds them.

    Raises:
        RetrievalError: another import is running.
        GatewayDataError: the store cannot be read or written.
    """
    make_folder(data_dir)
    with _import_lock(data_dir):
        open_store(data_dir).close()
        content = table.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        with _writing(data_dir / STORE_NAME) as store:
            if _has_human_genes(store, digest):
                return 0
            with _transaction(store):
                _retire_table(store)
                number = put_human_genes(store, content)
                if store.execute("SELECT value FROM meta WHERE key = 'kind'").fetchone() == (SAMPLE,):
                    # The sample has variants of genes that are in neither: no link leads nowhere.
                    StoreWriter(store).remove_dangling_links()
                _record(store, _Import(KIND, digest, "", table), Counts(entries=number))
            return number


def _has_human_genes(store: sqlite3.Connection, digest: str) -> bool:
    rows = store.execute("SELECT kind, sha256, options FROM imported WHERE kind IN (?, 'gene_info')", (KIND,))
    return any(sha == digest if kind == KIND else _is_of_human(kind, options) for kind, sha, options in rows)


def _retire_table(store: sqlite3.Connection) -> None:
    """Mark tables of human genes as replaced; no row goes, as readers tell states of the store by their number."""
    store.execute("UPDATE imported SET entries = 0 WHERE kind = ?", (KIND,))


def _is_of_human(kind: str, options: str) -> bool:
    """Return whether an import, of these options, was of NCBI's file of human genes."""
    return kind == "gene_info" and HUMAN in (json.loads(options).get("tax_ids", [HUMAN]) if options else [HUMAN])


class _StoredOrganisms(Mapping[int, Organism]):
    """Map taxonomy IDs to the organisms of the imported taxonomy, each read on access."""

    def __init__(self, store: sqlite3.Connection) -> None:
        self._store = store

    def __getitem__(self, tax_id: int) -> Organism:
        found = self._store.execute("SELECT body FROM taxonomy WHERE uid = ?", (tax_id,)).fetchone()
        taxon = decode("taxonomy", found[0]) if found else None
        if not isinstance(taxon, Taxon):
            raise KeyError(tax_id)
        return organism_of(taxon)

    def __iter__(self) -> Iterator[int]:
        return (row[0] for row in self._store.execute("SELECT uid FROM taxonomy ORDER BY uid"))

    def __len__(self) -> int:
        return int(self._store.execute("SELECT count(*) FROM taxonomy").fetchone()[0])


@contextlib.contextmanager
def _import_lock(data_dir: Path) -> Iterator[None]:
    """Hold the import lock, which the kernel releases however the process ends.

    Raises:
        RetrievalError: another import holds it.
    """
    handle = os.open(data_dir / "import.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RetrievalError(f"{data_dir}: another import is at work", GATEWAY_BUSY) from error
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    with store_errors(path), contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        # With WAL, readers keep their snapshot while an import writes.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -131072")
        yield connection


def _sha256(path: Path, on_progress: ProgressCallback) -> str:
    """Return the digest of a file, or of a folder's files in the order of their names."""
    digest, done = hashlib.sha256(), 0
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    try:
        total = sum(file.stat().st_size for file in files)
        for file in files:
            with file.open("rb") as handle:
                while chunk := handle.read(_CHUNK):
                    digest.update(chunk)
                    done += len(chunk)
                    on_progress(Progress("checking", done, total))
    except OSError as error:
        raise ImportFileError(path, f"cannot be read: {error.strerror}") from error
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Import:
    """Identify an import by file kind, content and options.

    Another choice of records is another import: what was read under one does not count under the other.
    """

    kind: str
    digest: str
    options: str
    path: Path

    def is_done(self, store: sqlite3.Connection) -> bool:
        sql = "SELECT 1 FROM imported WHERE kind = ? AND sha256 = ? AND options = ?"
        return store.execute(sql, (self.kind, self.digest, self.options)).fetchone() is not None

    def staging_path(self, data_dir: Path) -> Path:
        options = hashlib.sha256(self.options.encode()).hexdigest()
        return data_dir / "import" / f"{self.kind}-{self.digest[:24]}-{options[:8]}.sqlite"


def _effective_options(kind: FileKind, options: ReadOptions) -> str:
    """Return the options given that apply to this kind, as text; "" for none."""
    values = {name: value for name in kind.options if (value := getattr(options, name))}
    return json.dumps(values, default=sorted, sort_keys=True) if values else ""


def _read(staging: Staging, kind: FileKind, path: Path, options: ReadOptions, on_progress: ProgressCallback) -> None:
    counts = staging.counts
    if counts.read_all:
        return
    source = Source(path)
    named: set[int] = set()
    for item in kind.reader(source, options, counts.items):
        counts.items += 1
        if isinstance(item, Bad):
            counts.bad += 1
            staging.add_bad(item.line, item.reason)
        else:
            counts.entries += 1
            for operation in _operations(item.entry, named):
                staging.add(operation)
        if counts.items % _BATCH == 0:
            staging.commit()
            on_progress(Progress("reading", source.consumed, source.total, counts.entries, counts.bad))
    counts.read_all = True
    staging.commit()
    on_progress(Progress("reading", source.total, source.total, counts.entries, counts.bad))


def _operations(entry: Entry, named: set[int]) -> Iterator[Operation]:
    """Yield the operations of an entry on the store; an organism is named once per file."""
    if isinstance(entry, Link | Removal):
        yield entry
        return
    yield Row.of(entry)
    yield from links_of(entry)
    if isinstance(entry, Gene) and entry.organism.tax_id not in named:
        named.add(entry.organism.tax_id)
        yield entry.organism
    elif isinstance(entry, Taxon):
        yield organism_of(entry)


def _mark(data_dir: Path) -> None:
    """Mark the store as the site's, so that it is never rebuilt from the sample."""
    mark = data_dir / SITE_MARK
    if not mark.exists():
        mark.touch()
        sync(data_dir)


def _merge(store: sqlite3.Connection, staging: Staging, what: _Import, on_progress: ProgressCallback) -> None:
    total = staging.num_operations()
    has_table = store.execute("SELECT 1 FROM imported WHERE kind = ? AND entries > 0", (KIND,)).fetchone() is not None
    replaces_table = has_table and _is_of_human(what.kind, what.options)
    with _transaction(store):
        on_progress(Progress("merging", 0, total, staging.counts.entries, staging.counts.bad))
        writer = StoreWriter(store)
        if store.execute("SELECT value FROM meta WHERE key = 'kind'").fetchone() != (SITE,):
            writer.clear()
            store.execute("INSERT OR REPLACE INTO meta VALUES ('kind', ?)", (SITE,))
            if has_table and not replaces_table:
                put_human_genes(store, TABLE.read_bytes())
        for number, operation in enumerate(staging.operations(), 1):
            writer.apply(operation)
            if number % _BATCH == 0:
                on_progress(Progress("merging", number, total, staging.counts.entries, staging.counts.bad))
        if replaces_table:
            withdraw_human_genes(store, TABLE.read_bytes())
            _retire_table(store)
        if what.kind in _WEIGHING:
            writer.update_gene_weights()
        _record(store, what, staging.counts)
    on_progress(Progress("merging", total, total, staging.counts.entries, staging.counts.bad))


@contextlib.contextmanager
def _transaction(store: sqlite3.Connection) -> Iterator[None]:
    store.execute("BEGIN IMMEDIATE")
    try:
        yield
        store.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            store.execute("ROLLBACK")
        raise


def _record(store: sqlite3.Connection, what: _Import, counts: Counts) -> None:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    name, size = what.path.name, _size(what.path)
    row = (what.kind, what.digest, what.options, name, size, counts.entries, counts.bad, finished)
    store.execute("INSERT INTO imported VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


@dataclass(slots=True)
class Counts:
    """Count the items of an import.

    ``items`` were read, of which ``entries`` are records, links or removals and ``bad`` were skipped.
    """

    items: int = 0
    entries: int = 0
    bad: int = 0
    read_all: bool = False


class Staging:
    """Hold one import's rows.

    Serves one process, one thread at a time; ``commit`` makes everything since the previous one permanent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        create_file(path)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        items, entries, bad, read_all = self._connection.execute(
            "SELECT items, entries, bad, read_all FROM progress"
        ).fetchone()
        self.counts = Counts(items, entries, bad, bool(read_all))
        self._waiting: list[tuple[Any, ...]] = []
        self._bad: list[tuple[int, str]] = []

    def add(self, operation: Operation) -> None:
        self._waiting.append(_as_row(operation))

    def add_bad(self, line: int, reason: str) -> None:
        self._bad.append((line, reason))

    def commit(self) -> None:
        self._connection.execute("BEGIN")
        marks = ", ".join("?" * 10)
        names = "op, db, uid, key, weight, live, human, number, body, columns"
        self._connection.executemany(f"INSERT INTO staged ({names}) VALUES ({marks})", self._waiting)
        self._connection.executemany("INSERT INTO bad VALUES (?, ?)", self._bad)
        counts = self.counts
        self._connection.execute(
            "UPDATE progress SET items = ?, entries = ?, bad = ?, read_all = ?",
            (counts.items, counts.entries, counts.bad, counts.read_all),
        )
        self._connection.execute("COMMIT")
        self._waiting, self._bad = [], []

    def num_operations(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(n), 0) FROM staged").fetchone()[0])

    def operations(self) -> Iterator[Operation]:
        """Yield all operations, in the order they were added."""
        names = "op, db, uid, key, weight, live, human, number, body, columns"
        for row in self._connection.execute(f"SELECT {names} FROM staged ORDER BY n"):
            yield _from_row(row)

    def bad_records(self, limit: int) -> list[tuple[int, str]]:
        """Return (line, reason) of the first bad records."""
        return self._connection.execute("SELECT line, reason FROM bad ORDER BY rowid LIMIT ?", (limit,)).fetchall()

    def close(self) -> None:
        self._connection.close()

    def discard(self) -> None:
        """Close and delete the staging file."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def _as_row(operation: Operation) -> tuple[Any, ...]:
    match operation:
        case Row(db=db, uid=uid, key=key, standing=s, body=body, columns=columns):
            return ("put", db, uid, key, s.weight, s.live, s.human, s.number, body, json.dumps(columns))
        case Link(source=source, source_uid=uid, target=target, target_uid=other, own=own):
            return ("link", source, int(uid), target, None, own, None, int(other), None, None)
        case Removal(db=db, uid=uid):
            return ("remove", db, int(uid), None, None, None, None, None, None, None)
        case Organism(tax_id=tax_id, scientific_name=scientific, common_name=common, other_names=others):
            names = json.dumps([scientific, common, others])
            return ("organism", None, tax_id, None, None, None, None, None, None, names)


def _from_row(row: tuple[Any, ...]) -> Operation:
    op, db, uid, key, weight, live, human, number, body, columns = row
    if op == "put":
        return Row(
            db, uid, key, RankFeatures(weight, bool(live), bool(human), number), body, tuple(json.loads(columns))
        )
    if op == "link":
        return Link(db, str(uid), _database(key), str(number), own=bool(live))
    if op == "remove":
        return Removal(db, str(uid))
    scientific, common, others = json.loads(columns)
    return Organism(uid, scientific, common, tuple(others))


def _database(name: Any) -> Database:
    found: Database = name
    return found
