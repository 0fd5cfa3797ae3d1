"""Define the store's tables: one of records and one full-text index per database, cross references, provenance.

A record's row number is its Entrez UID, in the index too. ``number`` is the value for ranges and orders: the day
(yyyymmdd) of an article, the position of a variant, the number of words in the title of an OMIM entry.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from retrieval.gateway.records import DATABASES, Database

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
