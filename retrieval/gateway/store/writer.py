"""Write records into a store.

Owns what a change of a record means for index and links; opens no transaction.
"""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from retrieval.formats.items import MalformedRecord, shown
from retrieval.formats.records import (
    Article,
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
from retrieval.gateway.store import indexing
from retrieval.gateway.store.reader import CITATION_COLUMNS, COLUMNS, EDGE, RankFeatures, decode, encode, phrase_of

_CUI: Final = re.compile(r"(CN?)([0-9]{1,8})", re.ASCII)
_FIRST: Final = {"C": 1_000_000_000, "CN": 2_000_000_000}


def concept_uid(cui: str) -> int:
    """Return a number for a concept: 1000000000 + n for UMLS's Cn, 2000000000 + n for NCBI's CNn.

    Entrez's own numbers (below ten million) are in none of MedGen's tables of names, identifiers and definitions, and
    links must resolve whichever file is read first; so the number is derived from the identifier that all files share.

    Raises:
        MalformedRecord: ``cui`` is no such identifier.
    """
    found = _CUI.fullmatch(cui)
    if found is None:
        raise MalformedRecord(f"CUI: C or CN and digits were expected, not {shown(cui)}")
    return _FIRST[found[1]] + int(found[2])


def merge_concepts(old: Concept, new: Concept) -> Concept:
    """Merge two parts of one concept: an empty field is unknown, a non-empty field of ``new`` wins, lists are joined.

    A name that ``new`` replaces stays searchable as a synonym.
    """
    if old.uid != new.uid:
        raise ValueError(f"concepts {old.cui} and {new.cui} are not one")
    name = new.name or old.name
    names = dict.fromkeys((*old.synonyms, *new.synonyms, old.name))
    return replace(
        old,
        name=name,
        definition=new.definition or old.definition,
        synonyms=tuple(synonym for synonym in names if synonym and synonym != name),
        source_ids=tuple(dict.fromkeys((*old.source_ids, *new.source_ids))),
        semantic_type=new.semantic_type or old.semantic_type,
    )


def entry_of(gene: Gene, mim: str) -> OmimEntry:
    """Return the OMIM entry of a gene, as far as NCBI's record of the gene tells it."""
    return OmimEntry(int(mim), "*", f"{gene.name}; {gene.symbol}", "", gene.map_location, is_of_gene=True)


def merge_omim(old: OmimEntry, new: OmimEntry) -> OmimEntry:
    """Merge two parts of one entry (mimTitles, genemap2, MedGen's names, genes); an empty field is unknown.

    OMIM's own title stands before that of the gene's record, and this one before MedGen's name for the entry.
    """
    if old.mim_number != new.mim_number:
        raise ValueError(f"entries {old.mim_number} and {new.mim_number} are not one")
    titled = old if _title_rank(old) > _title_rank(new) else new
    first, second = (old, new) if new.is_of_gene and not old.is_of_gene else (new, old)
    return OmimEntry(
        old.mim_number,
        first.prefix or second.prefix,
        titled.title,
        first.alternative_titles or second.alternative_titles,
        first.locus or second.locus,
        titled.is_of_gene,
    )


def _title_rank(entry: OmimEntry) -> int:
    """Return 3 for OMIM's own title, of which most are in capitals, 2 for a gene's, 1 for MedGen's name, 0 for none."""
    if not entry.title:
        return 0
    if entry.is_of_gene:
        return 2
    return 3 if entry.prefix or entry.title.isupper() else 1


# Other common names of some of them.
_CALLED: Final[Mapping[int, tuple[str, ...]]] = {
    4932: ("yeast", "baker's yeast"),
    559292: ("yeast", "baker's yeast"),
    6239: ("worm", "nematode"),
    7227: ("fly",),
    9913: ("cow", "bovine"),
    10090: ("mouse",),
    10116: ("rat",),
}
# (scientific name, common name as NCBI Gene prints it) of the organisms whose genes are queried most.
_USUAL: Final[Mapping[int, tuple[str, str]]] = {
    3702: ("Arabidopsis thaliana", "thale cress"),
    4896: ("Schizosaccharomyces pombe", "fission yeast"),
    4932: ("Saccharomyces cerevisiae", "brewer's yeast"),
    6239: ("Caenorhabditis elegans", ""),
    7227: ("Drosophila melanogaster", "fruit fly"),
    7955: ("Danio rerio", "zebrafish"),
    8355: ("Xenopus laevis", "African clawed frog"),
    8364: ("Xenopus tropicalis", "tropical clawed frog"),
    9031: ("Gallus gallus", "chicken"),
    9544: ("Macaca mulatta", "Rhesus monkey"),
    9598: ("Pan troglodytes", "chimpanzee"),
    9606: ("Homo sapiens", "human"),
    9615: ("Canis lupus familiaris", "dog"),
    9685: ("Felis catus", "domestic cat"),
    9823: ("Sus scrofa", "pig"),
    9913: ("Bos taurus", "cattle"),
    9986: ("Oryctolagus cuniculus", "rabbit"),
    10090: ("Mus musculus", "house mouse"),
    10116: ("Rattus norvegicus", "Norway rat"),
    284812: ("Schizosaccharomyces pombe 972h-", ""),
    511145: ("Escherichia coli str. K-12 substr. MG1655", ""),
    559292: ("Saccharomyces cerevisiae S288C", ""),
}
_COMMON: Final = ("genbank common name", "common name")


def organism(tax_id: int, known: Mapping[int, Organism]) -> Organism:
    """Return the organism from ``known``, else from the built-in ones, else with the scientific name "taxid N"."""
    if tax_id in known:
        return known[tax_id]
    scientific, common = _USUAL.get(tax_id, (f"taxid {tax_id}", ""))
    return Organism(tax_id, scientific, common, _CALLED.get(tax_id, ()))


def organism_of(taxon: Taxon) -> Organism:
    """Return the taxon as gene records name it.

    Synonyms, acronyms and further common names become ``other_names``.
    """
    names: dict[str, list[str]] = {}
    for name, kind in taxon.names:
        names.setdefault(kind, []).append(name)
    common = next((names[kind][0] for kind in _COMMON if kind in names), "")
    searched = ("common name", "synonym", "equivalent name", "acronym", "genbank acronym", "genbank common name")
    others = dict.fromkeys(name for kind in searched for name in names.get(kind, ()) if name != common)
    return Organism(taxon.tax_id, taxon.scientific_name, common, tuple(others))


def merge_snps(old: Snp, new: Snp) -> Snp:
    """Merge two rows of one file with the same rs number; position and class are those of ``old``."""
    if old.snp_id != new.snp_id:
        raise ValueError(f"rs{old.snp_id} and rs{new.snp_id} are not one")
    studies = {study for study, _ in old.mafs}
    return replace(
        old,
        genes=tuple(dict.fromkeys((*old.genes, *new.genes))),
        spdi=_joined(old.spdi, new.spdi),
        function_class=_joined(old.function_class, new.function_class),
        allele=old.allele if old.allele == new.allele else "N",
        mafs=(*old.mafs, *(maf for maf in new.mafs if maf[0] not in studies)),
        clinical=_joined(old.clinical, new.clinical),
        validated=_joined(old.validated, new.validated),
    )


def _joined(old: str, new: str) -> str:
    return ",".join(dict.fromkeys(filter(None, (*old.split(","), *new.split(",")))))


_SNP_CHROMOSOME: Final = COLUMNS["snp"].index("chr")
_ON_Y: Final = f"{EDGE} y {EDGE}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Hold a record as the store keeps it, ready to be written: everything costly is done.

    ``key``: the accession of a sequence segment, the day of an article's electronic publication, else None.
    ``columns`` are those of the database's index, of an article also those of ``pubmed_citation``.
    """

    db: Database
    uid: int
    key: str | None
    standing: RankFeatures
    body: bytes
    columns: tuple[str, ...]

    @classmethod
    def of(cls, record: Record) -> Row:
        key = record.uid if isinstance(record, SequenceSegment) else None
        columns = indexing.columns_of(record)
        if isinstance(record, Article):
            key = indexing.electronic_day(record) or None
            columns += indexing.citation_columns_of(record)
        return cls(
            database_of(record),
            indexing.uid_of(record),
            key,
            indexing.rank_features_of(record),
            encode(record),
            columns,
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
                self.add_organism_names(operation)

    def put_row(self, row: Row) -> None:
        uid = row.uid or self._uid_of_key(row.key)
        if row.db == "pubmed" and self._has_newer_version(uid, row.body):
            return
        old = self._remove_index(row.db, uid)
        if old is not None:
            self._connection.execute(f"DELETE FROM {row.db} WHERE uid = ?", (uid,))
            self._unlink(links_of(old))
        standing = row.standing
        self._connection.execute(
            f"INSERT INTO {row.db} VALUES (?, ?, ?, ?, ?, ?, ?)",
            (uid, row.key, standing.weight, standing.live, standing.human, standing.number, row.body),
        )
        number = len(COLUMNS[row.db])
        self._index(f"{row.db}_index", uid, dict(zip(COLUMNS[row.db], row.columns[:number], strict=True)))
        if further := row.columns[number:]:
            self._index("pubmed_citation", uid, dict(zip(CITATION_COLUMNS, further, strict=True)))

    def _index(self, table: str, uid: int, texts: Mapping[str, str]) -> None:
        marks = ", ".join("?" * len(texts))
        self._connection.execute(
            f"INSERT INTO {table} (rowid, {', '.join(texts)}) VALUES (?, {marks})", (uid, *texts.values())
        )

    def _has_newer_version(self, pmid: int, body: bytes) -> bool:
        """Return whether the store holds a later version of an article; files have versions in any order."""
        found = self._connection.execute("SELECT body FROM pubmed WHERE uid = ?", (pmid,)).fetchone()
        stored = None if found is None else decode("pubmed", found[0])
        if not isinstance(stored, Article) or stored.version == 1:
            return False
        new = decode("pubmed", body)
        return isinstance(new, Article) and new.version < stored.version

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

    def update_gene_weights(self) -> None:
        """Set each gene's weight to the number of articles linked to it: NCBI's own weight is in none of its files."""
        self._connection.execute(
            "UPDATE gene SET weight = (SELECT count(DISTINCT target_uid) FROM link "
            "WHERE source = 'gene' AND link.uid = gene.uid AND target = 'pubmed')"
        )

    def clear(self) -> None:
        """Delete all records, links and organisms; the schema and the history of imports stay."""
        for db in COLUMNS:
            self._connection.execute(f"DELETE FROM {db}")
            self._connection.execute(f"INSERT INTO {db}_index ({db}_index) VALUES ('delete-all')")
        self._connection.execute("INSERT INTO pubmed_citation (pubmed_citation) VALUES ('delete-all')")
        for table in ("link", "organism"):
            self._connection.execute(f"DELETE FROM {table}")

    def remove_dangling_links(self) -> None:
        """Delete the links to and from genes that the store does not have."""
        for end, db in (("uid", "source"), ("target_uid", "target")):
            self._connection.execute(
                f"DELETE FROM link WHERE {db} = 'gene' AND NOT EXISTS (SELECT 1 FROM gene WHERE gene.uid = link.{end})"
            )

    def add_organism_names(self, organism: Organism) -> None:
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
        self._remove_words(f"{db}_index", uid, COLUMNS[db], indexing.columns_of(record))
        if isinstance(record, Article):
            self._remove_words("pubmed_citation", uid, CITATION_COLUMNS, indexing.citation_columns_of(record))
        return record

    def _remove_words(self, table: str, uid: int, names: Sequence[str], texts: Sequence[str]) -> None:
        marks = ", ".join("?" * len(texts))
        sql = f"INSERT INTO {table} ({table}, rowid, {', '.join(names)}) VALUES ('delete', ?, {marks})"
        self._connection.execute(sql, (uid, *texts))

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
            self.add_organism_names(record.organism)
        elif isinstance(record, Taxon):
            self.add_organism_names(organism_of(record))


def _is_part(row: Row) -> bool:
    """Return whether the store may already hold another part of this very record."""
    return row.db in {"omim", "medgen"} or (row.db == "snp" and row.columns[_SNP_CHROMOSOME] == _ON_Y)


def _both_ways(link: Link) -> list[tuple[str, int, str, int, bool]]:
    source, target = int(link.source_uid), int(link.target_uid)
    return [(link.source, source, link.target, target, link.own), (link.target, target, link.source, source, link.own)]


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
