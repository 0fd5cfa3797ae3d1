"""Write records into a store.

Owns what a change of a record means for index and links; opens no transaction.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterable
from typing import Final

from retrieval.gateway import indexing, schema
from retrieval.gateway.codec import decode, encode
from retrieval.gateway.importing.concepts import merge_concepts, merge_omim
from retrieval.gateway.importing.dbsnp_vcf import merge_snps
from retrieval.gateway.importing.organisms import organism_of
from retrieval.gateway.records import (
    Concept,
    Database,
    Entry,
    Gene,
    Link,
    OmimEntry,
    Organism,
    Record,
    Removal,
    SequenceSegment,
    Snp,
    Taxon,
    database_of,
)
from retrieval.gateway.tokens import phrase_of

_SNP_CHROMOSOME: Final = schema.COLUMNS["snp"].index("chr")
_ON_Y: Final = f"{schema.EDGE} y {schema.EDGE}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Hold a record as the store keeps it, ready to be written: everything costly is done."""

    db: Database
    uid: int
    key: str | None
    standing: indexing.Standing
    body: bytes
    columns: tuple[str, ...]

    @classmethod
    def of(cls, record: Record) -> Row:
        key = record.uid if isinstance(record, SequenceSegment) else None
        return cls(
            database_of(record),
            indexing.uid_of(record),
            key,
            indexing.standing_of(record),
            encode(record),
            indexing.columns_of(record),
        )


class StoreWriter:
    """Write over one connection, inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, entry: Entry) -> None:
        """Write an entry; a record replaces the one of its UID.

        What only the old record knew of an OMIM entry or concept is preserved.
        """
        if isinstance(entry, Removal):
            self.remove(entry.db, int(entry.uid))
        elif isinstance(entry, Link):
            self.link(entry)
        else:
            self.put_row(Row.of(self._completed(entry)))
            self._put_links(links_of(entry))
            self._put_organism(entry)

    def apply(self, operation: Row | Link | Removal | Organism) -> None:
        """Apply one staged operation; a record that several files describe is merged with the stored one."""
        match operation:
            case Row() as row:
                self.put_row(Row.of(self._completed(decode(row.db, row.body))) if _is_part(row) else row)
            case Link():
                self.link(operation)
            case Removal(db=db, uid=uid):
                self.remove(db, int(uid))
            case Organism():
                self.name_organism(operation)

    def put_row(self, row: Row) -> None:
        uid = row.uid or self._uid_of_key(row.key)
        old = self._remove_index(row.db, uid)
        if old is not None:
            self._connection.execute(f"DELETE FROM {row.db} WHERE uid = ?", (uid,))
            self._unlink(links_of(old))
        standing = row.standing
        self._connection.execute(
            f"INSERT INTO {row.db} VALUES (?, ?, ?, ?, ?, ?, ?)",
            (uid, row.key, standing.weight, standing.live, standing.human, standing.number, row.body),
        )
        marks = ", ".join("?" * len(row.columns))
        names = ", ".join(schema.COLUMNS[row.db])
        self._connection.execute(
            f"INSERT INTO {row.db}_index (rowid, {names}) VALUES (?, {marks})", (uid, *row.columns)
        )

    def remove(self, db: Database, uid: int) -> None:
        """Delete the record with its links, if there is one."""
        if self._remove_index(db, uid) is not None:
            self._connection.execute(f"DELETE FROM {db} WHERE uid = ?", (uid,))
        sql = "SELECT target, target_uid, source, uid FROM link WHERE source = ? AND uid = ?"
        there = self._connection.execute(sql, (db, uid)).fetchall()
        back = [(source, own, target, other) for target, other, source, own in there]
        self._connection.executemany(
            "DELETE FROM link WHERE source = ? AND uid = ? AND target = ? AND target_uid = ?", [*there, *back]
        )

    def link(self, link: Link) -> None:
        self._put_links([link])

    def weigh_genes(self) -> None:
        """Set each gene's weight to the number of articles linked to it: NCBI's own weight is in none of its files."""
        self._connection.execute(
            "UPDATE gene SET weight = (SELECT count(DISTINCT target_uid) FROM link "
            "WHERE source = 'gene' AND link.uid = gene.uid AND target = 'pubmed')"
        )

    def clear(self) -> None:
        """Delete all records, links, organisms and the import history; the schema stays."""
        for db in schema.COLUMNS:
            self._connection.execute(f"DELETE FROM {db}")
            self._connection.execute(f"INSERT INTO {db}_index ({db}_index) VALUES ('delete-all')")
        for table in ("link", "organism", "imported"):
            self._connection.execute(f"DELETE FROM {table}")

    def name_organism(self, organism: Organism) -> None:
        rows = [
            (phrase_of(name).strip(), organism.tax_id, organism.scientific_name)
            for name in indexing.organism_names(organism)
        ]
        self._connection.executemany("INSERT OR IGNORE INTO organism VALUES (?, ?, ?)", rows)

    def _remove_index(self, db: Database, uid: int) -> Record | None:
        """Delete the record's words from the index, and return the record, None if there is none.

        The index stores no text, so a deletion must pass the indexed words, which are computed from the record.
        """
        found = self._connection.execute(f"SELECT body FROM {db} WHERE uid = ?", (uid,)).fetchone()
        if found is None:
            return None
        record = decode(db, found[0])
        columns = indexing.columns_of(record)
        names, marks = ", ".join(schema.COLUMNS[db]), ", ".join("?" * len(columns))
        sql = f"INSERT INTO {db}_index ({db}_index, rowid, {names}) VALUES ('delete', ?, {marks})"
        self._connection.execute(sql, (uid, *columns))
        return record

    def _uid_of_key(self, key: str | None) -> int:
        found = self._connection.execute("SELECT uid FROM nuccore WHERE key = ?", (key,)).fetchone()
        if found is None:
            found = self._connection.execute("SELECT coalesce(max(uid), 0) + 1 FROM nuccore").fetchone()
        return int(found[0])

    def _completed(self, record: Record) -> Record:
        if not isinstance(record, Concept | OmimEntry | Snp):
            return record
        db, uid = database_of(record), indexing.uid_of(record)
        found = self._connection.execute(f"SELECT body FROM {db} WHERE uid = ?", (uid,)).fetchone()
        return record if found is None else _merged(decode(db, found[0]), record)

    def _put_links(self, links: Iterable[Link]) -> None:
        rows = [row for link in links for row in _both_ways(link)]
        self._connection.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?, ?, ?)", rows)

    def _unlink(self, links: Iterable[Link]) -> None:
        """Delete the links that a replaced record itself stated; those from link files stay."""
        rows = [row for link in links for row in _both_ways(link)]
        self._connection.executemany(
            "DELETE FROM link WHERE source = ? AND uid = ? AND target = ? AND target_uid = ? AND own = ?", rows
        )

    def _put_organism(self, record: Record) -> None:
        if isinstance(record, Gene):
            self.name_organism(record.organism)
        elif isinstance(record, Taxon):
            self.name_organism(organism_of(record))


def _is_part(row: Row) -> bool:
    """Return whether the store may already hold another part of this very record."""
    return row.db in {"omim", "medgen"} or (row.db == "snp" and row.columns[_SNP_CHROMOSOME] == _ON_Y)


def _both_ways(link: Link) -> list[tuple[str, int, str, int, bool]]:
    source, target = int(link.source_uid), int(link.target_uid)
    return [
        (link.source, source, link.target, target, link.own),
        (link.target, target, link.source, source, link.own),
    ]


def _merged(old: Record, new: Record) -> Record:
    """Merge two parts of one record from different files or rows.

    Several files each know a part of a concept or an entry. A variant of the ends that X and Y share has in one file a
    row on each, X first.
    """
    if isinstance(old, Concept) and isinstance(new, Concept):
        return merge_concepts(old, new)
    if isinstance(old, Snp) and isinstance(new, Snp):
        return merge_snps(old, new) if (old.chromosome, new.chromosome) == ("X", "Y") else new
    return merge_omim(old, new) if isinstance(old, OmimEntry) and isinstance(new, OmimEntry) else new


def links_of(record: Record) -> list[Link]:
    """Return the cross references a record carries itself."""
    if isinstance(record, Gene):
        return [Link("gene", str(record.gene_id), "omim", mim, own=True) for mim in record.mim if mim.isdigit()]
    if isinstance(record, Snp):
        return [Link("snp", str(record.snp_id), "gene", gene, own=True) for _, gene in record.genes if gene.isdigit()]
    return []
