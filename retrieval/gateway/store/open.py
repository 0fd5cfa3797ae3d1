"""Open the gateway's store, or build it from the sample of facts that the package carries.

The sample's articles become PubMed records, which say of themselves whose words they are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from retrieval.errors import GatewayDataError
from retrieval.formats.pubmed_xml import article_of
from retrieval.formats.records import (
    Article,
    Corpus,
    Database,
    Gene,
    Link,
    OmimEntry,
    Organism,
    Record,
    SequenceSegment,
    Snp,
)
from retrieval.gateway.store.indexing import uid_of
from retrieval.gateway.store.reader import SAMPLE, SCHEMA_VERSION, SITE, GatewayStore, create_tables
from retrieval.gateway.store.writer import StoreWriter, entry_of
from retrieval.storage.files import make_folder, sync

# Readers and models see it wherever they see the abstract.
NOTICE: Final = (
    "This summary is not the authors' abstract: Arrowhead's maintainers wrote it from the facts of the article, and "
    "chose the headings. What the record lacks (authors, journal, year) is unknown here, not to the article."
)
log = logging.getLogger(__name__)
_FILES: Final = ("organisms.tsv", "genes.tsv", "snps.tsv", "omim.tsv", "sequences.tsv", "articles.tsv")
_SNP_TEXTS: Final = (
    "accession",
    "chromosome",
    "position",
    "position_grch37",
    "spdi",
    "function_class",
    "snp_class",
    "allele",
    "docsum",
    "clinical",
    "handles",
    "validated",
    "ss",
    "orig_build",
    "upd_build",
    "created",
    "updated",
)
# Of how a store is made from the files: a store that was made otherwise is built again.
_BUILD: Final = b"2"
STORE_NAME: Final = "gateway.sqlite"
SITE_MARK: Final = "filled-by-imports"  # beside the store: a site's own data, never rebuilt from the sample
SAMPLE_DIR: Final = Path(__file__).parent / "sample"


def open_store(data_dir: Path, sample_dir: Path = SAMPLE_DIR) -> GatewayStore:
    """Open the store in ``data_dir``; build it from the sample if it is missing, damaged or of another sample.

    Raises:
        GatewayDataError: a store that a site filled cannot be read (it is never overwritten), or a new one cannot be
            written.
    """
    path = data_dir / STORE_NAME
    try:
        store = GatewayStore(path)
        is_current = store.fingerprint == corpus_fingerprint(sample_dir)
        if store.kind == SITE or (is_current and store.query("PRAGMA quick_check(1)") == [("ok",)]):
            return store
        store.close()
    except GatewayDataError:
        if (data_dir / SITE_MARK).exists():
            raise
    return _built(path, sample_dir)


def _built(path: Path, sample_dir: Path) -> GatewayStore:
    try:
        build_store(load_corpus(sample_dir), path)
    except OSError as error:
        raise GatewayDataError(f"{path}: cannot be written: {error.strerror}") from error
    log.info("gateway store built at %s", path)
    return GatewayStore(path)


def build_store(corpus: Corpus, path: Path) -> None:
    """Build the sample's store beside ``path`` and rename it there, so that a reader never sees a partial one."""
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    draft = Path(name)
    try:
        _write_sample(corpus, draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        for stale_file in (Path(f"{path}-wal"), Path(f"{path}-shm")):
            stale_file.unlink(missing_ok=True)
        draft.replace(path)
        sync(path.parent)
    finally:
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm")):
            leftover.unlink(missing_ok=True)


def _write_sample(corpus: Corpus, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        # No reader sees the draft, and it is synced as a whole: a journal would only cost time.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        with connection:
            create_tables(connection)
            meta = {"schema": SCHEMA_VERSION, "kind": SAMPLE, "fingerprint": corpus.fingerprint}
            meta["sample"] = json.dumps(_sizes(corpus))
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            writer = StoreWriter(connection)
            for organism in corpus.organisms:
                writer.add_organism_names(organism)
            for record in _distinct((*corpus.genes, *corpus.snps, *corpus.omim, *corpus.segments, *corpus.articles)):
                writer.put(record)
            for entry in _entries_of_genes(corpus):
                writer.put(entry)
            for link in corpus.links:
                writer.link(link)
        # The file stores this mode: to set it at the first import would mean to wait until there are no readers.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _sizes(corpus: Corpus) -> dict[Database, int]:
    return {
        "gene": len(corpus.genes),
        "snp": len(corpus.snps),
        "omim": len(corpus.omim) + len(_entries_of_genes(corpus)),
        "nuccore": len(corpus.segments),
        "pubmed": len(corpus.articles),
    }


def _entries_of_genes(corpus: Corpus) -> list[OmimEntry]:
    """Return an entry for each OMIM number that a gene names and the sample has no title of."""
    known = {entry.mim_number for entry in corpus.omim}
    named = {int(mim): entry_of(gene, mim) for gene in corpus.genes for mim in gene.mim}
    return [entry for number, entry in named.items() if number not in known]


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


def load_corpus(directory: Path = SAMPLE_DIR) -> Corpus:
    """Read the records of one directory of TSV files.

    Raises:
        GatewayDataError: a file is missing or malformed; the message names it.
    """
    organisms = {o.tax_id: o for o in map(_organism, _rows(directory / "organisms.tsv"))}
    try:
        return Corpus(
            fingerprint=corpus_fingerprint(directory),
            organisms=tuple(organisms.values()),
            genes=tuple(_gene(row, organisms) for row in _rows(directory / "genes.tsv")),
            snps=tuple(map(_snp, _rows(directory / "snps.tsv"))),
            omim=tuple(map(_omim, _rows(directory / "omim.tsv"))),
            links=tuple(link for row in _rows(directory / "omim.tsv") for link in _links_of_entry(row)),
            segments=tuple(map(_segment, _rows(directory / "sequences.tsv"))),
            articles=tuple(map(sample_article, _rows(directory / "articles.tsv"))),
        )
    except (KeyError, ValueError) as error:
        raise GatewayDataError(f"{directory}: a record is malformed: {error!r}") from error


def corpus_fingerprint(directory: Path = SAMPLE_DIR) -> str:
    """Return the SHA-256 over the names and bytes of the files, in hexadecimal."""
    digest = hashlib.sha256(_BUILD)
    for name in _FILES:
        digest.update(name.encode() + b"\0" + _read(directory / name).encode() + b"\0")
    return digest.hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise GatewayDataError(f"{path}: cannot be read: {error.strerror}") from error


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    header, *lines = _read(path).rstrip("\n").split("\n")
    columns = header.split("\t")
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise GatewayDataError(f"{path}:{number}: {len(cells)} cells, {len(columns)} expected")
        yield dict(zip(columns, cells, strict=True))


def _many(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split("|") if part)


def _pairs(cell: str) -> tuple[tuple[str, str], ...]:
    return tuple((left, right) for left, _, right in (part.partition(":") for part in _many(cell)))


def _whole(cell: str) -> int | None:
    return int(cell) if cell else None


def _organism(row: Mapping[str, str]) -> Organism:
    return Organism(int(row["tax_id"]), row["scientific_name"], row["common_name"], _many(row["other_names"]))


def _gene(row: Mapping[str, str], organisms: Mapping[int, Organism]) -> Gene:
    return Gene(
        gene_id=int(row["gene_id"]),
        symbol=row["symbol"],
        name=row["name"],
        organism=organisms[int(row["tax_id"])],
        official_symbol=row["official_symbol"],
        gene_type=row["gene_type"],
        chromosome=row["chromosome"],
        map_location=row["map_location"],
        aliases=_many(row["aliases"]),
        designations=_many(row["designations"]),
        mim=_many(row["mim"]),
        ensembl=row["ensembl"],
        accession=row["accession"],
        start=_whole(row["start"]),
        stop=_whole(row["stop"]),
        exons=_whole(row["exons"]) or 0,
        weight=_whole(row["weight"]) or 0,
        status=_whole(row["status"]) or 0,
        current_id=_whole(row["current_id"]) or 0,
        nomenclature=row["nomenclature"],
        summary=row["summary"],
        keywords=_many(row["keywords"]),
    )


def _snp(row: Mapping[str, str]) -> Snp:
    texts = {name: row[name] for name in _SNP_TEXTS}
    return Snp(snp_id=int(row["snp_id"]), genes=_pairs(row["genes"]), mafs=_pairs(row["mafs"]), **texts)


def _omim(row: Mapping[str, str]) -> OmimEntry:
    return OmimEntry(int(row["mim_number"]), row["prefix"], row["title"], row["alternative_titles"], row["locus"])


def _links_of_entry(row: Mapping[str, str]) -> list[Link]:
    """Return links to the genes that cause a disease; the one of a gene's entry is that gene's own."""
    is_gene = row["prefix"] == "*"
    return [Link("gene", gene, "omim", row["mim_number"], own=is_gene) for gene in _many(row["gene_ids"])]


def _segment(row: Mapping[str, str]) -> SequenceSegment:
    segment = SequenceSegment(
        row["accession"],
        int(row["start"]),
        int(row["stop"]),
        int(row["record_length"]),
        int(row["tax_id"]),
        row["title"],
        row["sequence"],
    )
    if segment.stop - segment.start + 1 != len(segment.sequence):
        raise ValueError(f"{segment.uid}: the coordinates span another length than the sequence")
    return segment


def sample_article(row: Mapping[str, str]) -> Article:
    """Return the record of one row, with the XML that efetch sends.

    Raises:
        MalformedRecord: the PMID is no number.
        KeyError: a column is missing.
    """
    record = Element("PubmedArticle")
    citation = SubElement(record, "MedlineCitation", Status="PubMed-not-MEDLINE", Owner="NOTNLM")
    _put(citation, "PMID", row["pmid"])
    _article(SubElement(citation, "Article", PubModel="Print"), row)
    if row["journal"]:
        _put(SubElement(citation, "MedlineJournalInfo"), "MedlineTA", row["journal"])
    _retraction(citation, row["retracted_by"])
    headings = SubElement(citation, "MeshHeadingList")
    for name in _many(row["mesh"]):
        _put(SubElement(headings, "MeshHeading"), "DescriptorName", name, MajorTopicYN="N")
    _put(SubElement(citation, "KeywordList", Owner="NOTNLM"), "Keyword", row["topic"], MajorTopicYN="N")
    ids = SubElement(SubElement(record, "PubmedData"), "ArticleIdList")
    _put(ids, "ArticleId", row["pmid"], IdType="pubmed")
    return article_of(tostring(record, encoding="unicode"))


def _article(article: Element, row: Mapping[str, str]) -> None:
    journal = SubElement(article, "Journal")
    date = SubElement(SubElement(journal, "JournalIssue", CitedMedium="Internet"), "PubDate")
    if row["year"]:
        _put(date, "Year", row["year"])
    if row["journal"]:
        _put(journal, "ISOAbbreviation", row["journal"])
    _put(article, "ArticleTitle", row["title"])
    abstract = SubElement(article, "Abstract")
    _put(abstract, "AbstractText", row["summary"])
    _put(abstract, "CopyrightInformation", NOTICE)
    _put(article, "Language", row["language"])
    types = SubElement(article, "PublicationTypeList")
    for name in _many(row["types"]):
        _put(types, "PublicationType", name)


def _retraction(citation: Element, notice: str) -> None:
    if notice:
        comments = SubElement(citation, "CommentsCorrectionsList")
        retraction = SubElement(comments, "CommentsCorrections", RefType="RetractionIn")
        _put(retraction, "RefSource", "Retraction notice")
        _put(retraction, "PMID", notice)


def _put(parent: Element, tag: str, text: str, **attributes: str) -> None:
    SubElement(parent, tag, attributes).text = text
