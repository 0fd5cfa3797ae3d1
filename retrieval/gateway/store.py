"""The gateway's SQLite store: built once from a corpus, then read only. Knows nothing of queries' syntax or replies.

``record`` holds each record as JSON; ``word`` is the inverted index (database, word, field, uid); ``phrase`` holds the
normalised field texts for phrase search; ``link`` holds the cross references.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.gateway import indexing
from retrieval.gateway.errors import GatewayDataError
from retrieval.gateway.records import Corpus, Database, Gene, OmimEntry, Organism, SequenceSegment, Snp
from retrieval.gateway.tokens import index_words, phrase_of

SCHEMA_VERSION: Final = "1"
_BATCH: Final = 500
_Key = tuple[Database, str]
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE organism (name TEXT NOT NULL, tax_id INTEGER NOT NULL, scientific TEXT NOT NULL,
                       PRIMARY KEY (name, tax_id)) WITHOUT ROWID;
CREATE TABLE record (db TEXT NOT NULL, uid TEXT NOT NULL, weight INTEGER NOT NULL, live INTEGER NOT NULL,
                     human INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (db, uid)) WITHOUT ROWID;
CREATE TABLE word (db TEXT NOT NULL, word TEXT NOT NULL, field TEXT NOT NULL, uid TEXT NOT NULL,
                   PRIMARY KEY (db, word, field, uid)) WITHOUT ROWID;
CREATE TABLE phrase (db TEXT NOT NULL, uid TEXT NOT NULL, field TEXT NOT NULL, text TEXT NOT NULL,
                     PRIMARY KEY (db, uid, field, text)) WITHOUT ROWID;
CREATE TABLE link (source TEXT NOT NULL, uid TEXT NOT NULL, target TEXT NOT NULL, target_uid TEXT NOT NULL,
                   PRIMARY KEY (source, uid, target, target_uid)) WITHOUT ROWID;
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """What orders equally good hits. ``weight`` is NCBI's own gene weight where known, else 0."""

    weight: int
    live: bool
    human: bool


def build_store(corpus: Corpus, path: Path) -> None:
    """Writes the store beside ``path`` and renames it there, so that a reader never sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        _write(corpus, draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_directory(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(corpus: Corpus, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        # No reader sees the draft, and it is synced as a whole: a journal would only cost time.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(_SCHEMA)
        with connection:
            _fill(connection, corpus)
    finally:
        connection.close()


def _fill(connection: sqlite3.Connection, corpus: Corpus) -> None:
    meta = {"schema": SCHEMA_VERSION, "fingerprint": corpus.fingerprint}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.executemany("INSERT OR IGNORE INTO organism VALUES (?, ?, ?)", _organism_rows(corpus.organisms))
    organisms = {organism.tax_id: organism for organism in corpus.organisms}
    for gene in corpus.genes:
        standing = Standing(gene.weight, gene.status == 0, gene.organism.tax_id == 9606)
        _insert(connection, ("gene", str(gene.gene_id)), gene, standing, indexing.gene_fields(gene))
    for snp in corpus.snps:
        _insert(connection, ("snp", str(snp.snp_id)), snp, Standing(0, True, True), indexing.snp_fields(snp))
    for entry in corpus.omim:
        standing = Standing(0, entry.prefix != "^", True)
        _insert(connection, ("omim", str(entry.mim_number)), entry, standing, indexing.omim_fields(entry))
    for segment in corpus.segments:
        organism = organisms[segment.tax_id]
        standing = Standing(0, True, segment.tax_id == 9606)
        _insert(connection, ("nuccore", segment.uid), segment, standing, indexing.segment_fields(segment, organism))
    connection.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?)", _links(corpus))


def _organism_rows(organisms: Iterable[Organism]) -> Iterator[tuple[str, int, str]]:
    for organism in organisms:
        for name in indexing.organism_names(organism):
            yield phrase_of(name).strip(), organism.tax_id, organism.scientific_name


def _insert(
    connection: sqlite3.Connection, key: _Key, record: Any, standing: Standing, fields: indexing.Fields
) -> None:
    db, uid = key
    body = json.dumps(dataclasses.asdict(record), ensure_ascii=False, separators=(",", ":"))
    row = (db, uid, standing.weight, standing.live, standing.human, body)
    connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", row)
    for field, text in fields:
        if text:
            rows = [(db, word, field, uid) for word in index_words(text)]
            connection.executemany("INSERT OR IGNORE INTO word VALUES (?, ?, ?, ?)", rows)
            connection.execute("INSERT OR IGNORE INTO phrase VALUES (?, ?, ?, ?)", (db, uid, field, phrase_of(text)))


def _links(corpus: Corpus) -> Iterator[tuple[str, str, str, str]]:
    """Both directions of gene-omim and gene-snp; the other end need not be in the store to be known."""
    for gene in corpus.genes:
        for mim in gene.mim:
            yield "gene", str(gene.gene_id), "omim", mim
            yield "omim", mim, "gene", str(gene.gene_id)
    for snp in corpus.snps:
        for _, gene_id in snp.genes:
            yield "snp", str(snp.snp_id), "gene", gene_id
            yield "gene", gene_id, "snp", str(snp.snp_id)


class GatewayStore:
    """Reads one store file. Safe from many threads; every call is short."""

    def __init__(self, path: Path) -> None:
        """GatewayDataError where the file is missing, no store, or of another schema."""
        self.path = path
        self._lock = threading.Lock()
        try:
            uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            version = self._meta("schema")
        except sqlite3.Error as error:
            raise GatewayDataError(f"{path}: not a gateway store ({error})") from error
        if version != SCHEMA_VERSION:
            self._connection.close()
            raise GatewayDataError(f"{path}: schema {version or 'unknown'}, {SCHEMA_VERSION} needed")
        self.fingerprint = self._meta("fingerprint")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, parameters).fetchall()

    def _meta(self, key: str) -> str:
        rows = self._query("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def count(self, db: Database) -> int:
        return int(self._query("SELECT count(*) FROM record WHERE db = ?", (db,))[0][0])

    def _body(self, db: Database, uid: str) -> dict[str, Any] | None:
        rows = self._query("SELECT body FROM record WHERE db = ? AND uid = ?", (db, uid))
        return json.loads(rows[0][0]) if rows else None

    def gene(self, uid: str) -> Gene | None:
        body = self._body("gene", uid)
        if body is None:
            return None
        return Gene(**_tuples(body) | {"organism": Organism(**_tuples(body["organism"]))})

    def snp(self, uid: str) -> Snp | None:
        body = self._body("snp", uid)
        return None if body is None else Snp(**_tuples(body))

    def omim(self, uid: str) -> OmimEntry | None:
        body = self._body("omim", uid)
        return None if body is None else OmimEntry(**body)

    def segments(self, accession: str | None = None) -> tuple[SequenceSegment, ...]:
        """All stretches, or those of one accession (with or without its version), by accession and start."""
        rows = self._query("SELECT body FROM record WHERE db = 'nuccore'")
        found = (SequenceSegment(**json.loads(body)) for (body,) in rows)
        kept = (s for s in found if accession is None or accession in (s.accession, s.accession.split(".")[0]))
        return tuple(sorted(kept, key=lambda s: (s.accession, s.start)))

    def uids_with_word(self, db: Database, word: str, fields: Sequence[str] = ()) -> dict[str, set[str]]:
        """uid -> the fields that hold the word; ``fields`` empty means any; a trailing * matches a prefix."""
        if word.endswith("*"):
            clause, values = "word >= ? AND word < ?", [word[:-1], word[:-1] + "\U0010ffff"]
        else:
            clause, values = "word = ?", [word]
        if fields:
            clause += f" AND field IN ({','.join('?' * len(fields))})"
        found: dict[str, set[str]] = {}
        for uid, field in self._query(f"SELECT uid, field FROM word WHERE db = ? AND {clause}", (db, *values, *fields)):
            found.setdefault(uid, set()).add(field)
        return found

    def phrase_fields(self, db: Database, uid: str) -> list[tuple[str, str]]:
        """(field, normalised text) of one record."""
        return self._query("SELECT field, text FROM phrase WHERE db = ? AND uid = ?", (db, uid))

    def organism(self, name: str) -> str | None:
        """The scientific name for any name of an organism of the store."""
        sql = "SELECT scientific FROM organism WHERE name = ? ORDER BY tax_id LIMIT 1"
        rows = self._query(sql, (phrase_of(name).strip(),))
        return str(rows[0][0]) if rows else None

    def standings(self, db: Database, uids: Iterable[str]) -> dict[str, Standing]:
        wanted = list(uids)
        found: dict[str, Standing] = {}
        for first in range(0, len(wanted), _BATCH):
            batch = wanted[first : first + _BATCH]
            sql = f"SELECT uid, weight, live, human FROM record WHERE db = ? AND uid IN ({','.join('?' * len(batch))})"
            rows = self._query(sql, (db, *batch))
            found |= {uid: Standing(weight, bool(live), bool(human)) for uid, weight, live, human in rows}
        return found

    def links(self, source: Database, uid: str, target: Database) -> list[str]:
        sql = "SELECT target_uid FROM link WHERE source = ? AND uid = ? AND target = ?"
        return sorted((row[0] for row in self._query(sql, (source, uid, target))), key=int)


def _tuples(body: dict[str, Any]) -> dict[str, Any]:
    """JSON arrays back to the tuples the records hold (one level of nesting)."""
    return {key: _as_tuple(value) if isinstance(value, list) else value for key, value in body.items()}


def _as_tuple(items: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(item) if isinstance(item, list) else item for item in items)
