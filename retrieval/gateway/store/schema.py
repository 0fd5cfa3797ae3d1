"""Define the store's tables: one of records and one full-text index per database, cross references, provenance.

A record's row number is its Entrez UID, in the index too. ``number`` is the value for ranges and orders: the day
(yyyymmdd) of an article, the position of a variant, the number of words in the title of an OMIM entry.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, Final

from retrieval.formats.records import DATABASES, KINDS, Database, Organism, Record

_LEVEL: Final = 3  # most of the gain for a third of the time of the default


def encode(record: Record) -> bytes:
    text = json.dumps(_values(record), ensure_ascii=False, separators=(",", ":"), default=_values)
    return zlib.compress(text.encode(), _LEVEL)


def decode(db: Database, body: bytes) -> Record:
    """Deserialize a record.

    Raises:
        zlib.error, ValueError: the bytes are damaged.
    """
    values = {key: _tuples(value) for key, value in json.loads(zlib.decompress(body)).items()}
    if db == "gene":
        values["organism"] = Organism(**{key: _tuples(value) for key, value in values["organism"].items()})
    record: Record = KINDS[db](**values)
    return record


def _values(record: Any) -> dict[str, Any]:
    """Return the record's fields; ``dataclasses.asdict`` would copy every value, which takes longer than writing it."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _tuples(value: Any) -> Any:
    """Convert JSON arrays back to the tuples of the records."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


SCHEMA_VERSION: Final = "3"
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


def create(connection: sqlite3.Connection) -> None:
    connection.executescript(_COMMON)
    for db in DATABASES:
        columns = ", ".join(COLUMNS[db])
        quoted = _TOKEN_CHARS.replace("'", "''")
        connection.execute(
            f"CREATE TABLE {db} (uid INTEGER PRIMARY KEY, key TEXT, weight INTEGER NOT NULL, live INTEGER NOT NULL, "
            "human INTEGER NOT NULL, number INTEGER, body BLOB NOT NULL)"
        )
        connection.execute(f"CREATE INDEX {db}_number ON {db} (number) WHERE number IS NOT NULL")
        connection.execute(
            f"CREATE VIRTUAL TABLE {db}_index USING fts5({columns}, content='', "
            f"tokenize=\"unicode61 remove_diacritics 2 tokenchars '{quoted}'\")"
        )
    connection.execute("CREATE UNIQUE INDEX nuccore_key ON nuccore (key)")


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
_SEPARATORS: Final = re.compile(r"[\s\x00-\x1f\x7f,;:|/\\()\[\]{}\"<>=]+")
_EDGES: Final = ".'-_*!?"
STOPWORDS: Final = frozenset(
    {"a", "an", "and", "are", "by", "due", "for", "in", "is", "of", "on", "or", "the", "to", "with"}
)


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
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def day(date: str) -> int | None:
    """Return "2003-05-02" as 20030502; unknown parts count as 0, so that a year sorts before its months."""
    found = re.match(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", date)
    return int(f"{found[1]}{found[2] or '00'}{found[3] or '00'}") if found else None
