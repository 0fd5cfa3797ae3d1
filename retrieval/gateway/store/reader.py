"""Define the tables of the gateway's SQLite store, and read them.

One table of records and one full-text index per database, cross references, provenance. A record's row number is its
Entrez UID, in the index too. ``number`` is the value for ranges and orders: the day (yyyymmdd) of an article, the
position of a variant, the number of words in the title of an OMIM entry. ``key`` is the accession of a sequence
segment, and the day of an article's electronic publication.

Knows nothing of query syntax, replies or imported files. A store is one file. It is built whole from the sample, or
filled by imports, each in one transaction: a reader sees the state before or after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from retrieval.errors import GatewayDataError
from retrieval.formats.records import (
    DATABASES,
    KINDS,
    Database,
    Gene,
    OmimEntry,
    Organism,
    Record,
    SequenceSegment,
    Snp,
)
from retrieval.formats.tables import is_number
from retrieval.storage.database import ReadPool

_LEVEL: Final = 3  # most of the gain for a third of the time of the default
# Of a text that is not longer: a state of the compressor that is made in an eighth of the time of the default one.
_SHORT: Final = 4096
_WINDOW_BITS, _MEMORY_LEVEL = 12, 4
SCHEMA_VERSION: Final = "4"
# Searched text of each database. UIDs, days and positions are columns of the record, not words of the index.
COLUMNS: Final[Mapping[Database, tuple[str, ...]]] = {
    "gene": (
        *("sym", "alias", "keyword", "name", "designation", "mim", "ens", "chr", "map", "accn", "type", "alive"),
        *("text", "orgn"),
    ),
    "snp": ("gene", "gene_id", "chr", "accn", "fxn", "clin"),
    "omim": ("title", "alt", "map"),
    "nuccore": ("accn", "title", "orgn"),
    "pubmed": (
        *("title", "abstract", "author", "journal", "mesh", "majr", "keyword", "type", "lang", "doi", "pmc", "filter"),
    ),
    "pmc": ("title", "abstract", "body", "author", "journal", "doi", "pmid", "filter"),
    "clinvar": ("name", "gene", "gene_id", "clin", "dis", "type", "chr", "map", "accn", "rs", "review"),
    "taxonomy": ("scientific", "name", "level", "parent", "orgn"),
    "medgen": ("title", "synonym", "definition", "cui", "source", "semtype"),
}
# Databases with human records only: there an organism matches all of them or none.
HUMAN_ONLY: Final[frozenset[Database]] = frozenset({"snp", "omim", "clinvar", "medgen"})
# A value's edges and the separator of a hyphenated word's parts, as words that no text can contain.
EDGE: Final = "|"
PART: Final = "~"
_TOKEN_CHARS: Final = "-._'*|~+@#&%$!?`^"
_COMMON: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE organism (name TEXT NOT NULL, tax_id INTEGER NOT NULL, scientific TEXT NOT NULL,
                       PRIMARY KEY (name, tax_id)) WITHOUT ROWID;
CREATE TABLE link (source TEXT NOT NULL, uid INTEGER NOT NULL, target TEXT NOT NULL, target_uid INTEGER NOT NULL,
                   own INTEGER NOT NULL, PRIMARY KEY (source, uid, target, target_uid, own)) WITHOUT ROWID;
CREATE TABLE imported (kind TEXT NOT NULL, sha256 TEXT NOT NULL, options TEXT NOT NULL, name TEXT NOT NULL,
                       bytes INTEGER NOT NULL, entries INTEGER NOT NULL, bad INTEGER NOT NULL, finished TEXT NOT NULL,
                       PRIMARY KEY (kind, sha256, options)) WITHOUT ROWID;
"""
# Beside the index of pubmed, as a bare word is not searched in these; one row for each article.
CITATION_COLUMNS: Final = ("qualified", "subheading", "affiliation")
_SEPARATORS: Final = re.compile(r"[\s\x00-\x1f\x7f,;:|/\\()\[\]{}\"<>=]+")
_EDGES: Final = ".'-_*!?"
STOPWORDS: Final = frozenset(
    {"a", "an", "and", "are", "by", "due", "for", "in", "is", "of", "on", "or", "the", "to", "with"}
)
SAMPLE, SITE = "sample", "site"
_BATCH: Final = 500
_CONNECTIONS: Final = 8
_MAX_COUNTS: Final = 10_000
_R = TypeVar("_R")


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
        with store_errors(path):
            self._pool = ReadPool(path, _CONNECTIONS)
        version = ""
        try:
            version = self.meta("schema")
        finally:
            if version != SCHEMA_VERSION:
                self.close()
        if version != SCHEMA_VERSION:
            raise GatewayDataError(
                f"{path}: schema {version or 'unknown'}, {SCHEMA_VERSION} needed: delete it and import its files again"
            )

    def close(self) -> None:
        self._pool.close()

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        """Give this thread a consistent view of the store for the block, unaffected by a concurrent import."""
        return self._pool.snapshot()

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with store_errors(self.path), self._pool.acquire() as connection:
            return connection.execute(sql, parameters).fetchall()

    def version(self) -> int:
        """Return a number that grows with every finished import, after which earlier results may be out of date."""
        return int(self.query("SELECT count(*) FROM imported")[0][0])

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
        with store_errors(self.path), self._pool.acquire() as connection:
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


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise ``GatewayDataError`` for what SQLite says of the file of a store."""
    try:
        yield
    except sqlite3.Error as error:
        raise GatewayDataError(f"{path}: the gateway store cannot be read or written ({error})") from error


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


@dataclass(frozen=True, slots=True)
class RankFeatures:
    """Hold what orders equally good hits; ``weight`` grows with how often a record is meant, 0 if unknown."""

    weight: int = 0
    live: bool = True
    human: bool = True
    number: int | None = None


def encode(record: Record) -> bytes:
    text = json.dumps(_values(record), ensure_ascii=False, separators=(",", ":"), default=_values).encode()
    if len(text) > _SHORT:
        return zlib.compress(text, _LEVEL)
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return compressor.compress(text) + compressor.flush()


def decode(db: Database, body: bytes) -> Record:
    """Deserialize a record.

    Raises:
        GatewayDataError: the bytes are damaged.
    """
    try:
        values = {key: _tuples(value) for key, value in json.loads(zlib.decompress(body)).items()}
        if db == "gene":
            values["organism"] = Organism(**{key: _tuples(value) for key, value in values["organism"].items()})
        record: Record = KINDS[db](**values)
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise GatewayDataError(f"a stored record of {db} is damaged ({error})") from error
    return record


def _values(record: Any) -> dict[str, Any]:
    """Return the record's fields; ``dataclasses.asdict`` would copy every value, which takes longer than writing it."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _tuples(value: Any) -> Any:
    """Convert JSON arrays back to the tuples of the records."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def create_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(_COMMON)
    for db in DATABASES:
        connection.execute(
            f"CREATE TABLE {db} (uid INTEGER PRIMARY KEY, key TEXT, weight INTEGER NOT NULL, live INTEGER NOT NULL, "
            "human INTEGER NOT NULL, number INTEGER, body BLOB NOT NULL)"
        )
        connection.execute(f"CREATE INDEX {db}_number ON {db} (number) WHERE number IS NOT NULL")
        connection.execute(f"CREATE VIRTUAL TABLE {db}_index {_full_text(COLUMNS[db])}")
    connection.execute("CREATE UNIQUE INDEX nuccore_key ON nuccore (key)")
    connection.execute("CREATE INDEX pubmed_electronic ON pubmed (key) WHERE key IS NOT NULL")
    connection.execute(f"CREATE VIRTUAL TABLE pubmed_citation {_full_text(CITATION_COLUMNS)}")


def _full_text(columns: Sequence[str]) -> str:
    quoted = _TOKEN_CHARS.replace("'", "''")
    tokenizer = f"unicode61 remove_diacritics 2 tokenchars '{quoted}'"
    return f"USING fts5({', '.join(columns)}, content='', tokenize=\"{tokenizer}\")"


def words_of(text: str) -> tuple[str, ...]:
    """Return lower-case words in order; hyphens, dots and primes inside a word stay (15-lox, ac006042.8)."""
    return tuple(word for word in (part.strip(_EDGES) for part in _SEPARATORS.split(text.lower())) if word)


def index_words(text: str) -> frozenset[str]:
    """Return the words of a record's text, and the parts of its hyphenated ones."""
    words = set(words_of(text))
    for word in tuple(words):
        words.update(part for part in word.split("-") if part)
    return frozenset(words)


def phrase_of(text: str) -> str:
    """Join the words by single blanks, a blank on both ends, so that a phrase can be found as a substring."""
    return f" {' '.join(words_of(text))} "


def year_word(year: int) -> str:
    """Return the index word for the year of an article, which no text contains."""
    return f"inyear{year}"


def whole(text: str) -> int | None:
    return int(text) if is_number(text) else None


def day(date: str) -> int | None:
    """Return "2003-05-02" as 20030502; unknown parts count as 0, so that a year sorts before its months."""
    found = re.match(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", date)
    return int(f"{found[1]}{found[2] or '00'}{found[3] or '00'}") if found else None
