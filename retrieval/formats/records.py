"""Define the records of the gateway's store.

Knows nothing of SQL, queries or reply formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Database = Literal["gene", "snp", "omim", "nuccore", "pubmed", "pmc", "clinvar", "taxonomy", "medgen"]
DATABASES: Final[tuple[Database, ...]] = (
    "gene", "snp", "omim", "nuccore", "pubmed", "pmc", "clinvar", "taxonomy", "medgen",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Organism:
    """Hold one organism.

    ``common_name`` as NCBI Gene prints it (may be ""); ``other_names`` are further words people search with.
    """

    tax_id: int
    scientific_name: str
    common_name: str
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gene:
    """Hold one NCBI Gene record.

    ``official_symbol`` only where it is not ``symbol``. ``start`` and ``stop`` are 0-based on ``accession``;
    ``start > stop`` means the minus strand; None where unknown. ``status`` 0 live, 1 replaced by ``current_id``,
    2 discontinued. ``nomenclature`` is "Official", "Interim" or "". ``keywords``: words under which NCBI finds the
    record though no field shows them. ``locus_type`` and ``uniprot`` are HGNC's, where the record is from its table or
    was completed from it.
    """

    gene_id: int
    symbol: str
    name: str
    organism: Organism
    official_symbol: str = ""
    gene_type: str = ""
    chromosome: str = ""
    map_location: str = ""
    aliases: tuple[str, ...] = ()
    designations: tuple[str, ...] = ()
    mim: tuple[str, ...] = ()
    ensembl: str = ""
    accession: str = ""
    start: int | None = None
    stop: int | None = None
    exons: int = 0
    weight: int = 0
    status: int = 0
    current_id: int = 0
    nomenclature: str = ""
    summary: str = ""
    keywords: tuple[str, ...] = ()
    locus_type: str = ""
    uniprot: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snp:
    """Hold one dbSNP record.

    Positions are 1-based, GRCh38 and GRCh37; ``genes`` are (symbol, gene ID) pairs.
    """

    snp_id: int
    genes: tuple[tuple[str, str], ...]
    accession: str
    chromosome: str
    position: str
    position_grch37: str
    spdi: str
    function_class: str
    snp_class: str
    allele: str
    docsum: str
    mafs: tuple[tuple[str, str], ...]
    clinical: str
    handles: str
    validated: str
    ss: str
    orig_build: str
    upd_build: str
    created: str
    updated: str


@dataclass(frozen=True, slots=True)
class OmimEntry:
    """Hold one OMIM entry.

    ``prefix``: * gene, # phenotype of known cause, + both, % unknown cause, ^ removed, "" other. ``is_of_gene``: title
    and locus are those of NCBI's record of the gene, as OMIM's own title is not known.
    """

    mim_number: int
    prefix: str
    title: str
    alternative_titles: str
    locus: str
    is_of_gene: bool = False


@dataclass(frozen=True, slots=True)
class SequenceSegment:
    """Hold a segment of a nucleotide record.

    The segment is 1-based inclusive ``start``..``stop`` of ``accession`` (plus strand). ``record_length`` is the length
    of the whole record, which the store does not hold.
    """

    accession: str
    start: int
    stop: int
    record_length: int
    tax_id: int
    title: str
    sequence: str

    @property
    def uid(self) -> str:
        return f"{self.accession}:{self.start}-{self.stop}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """Hold one PubMed record.

    ``xml`` is its element as NCBI sent it (PubmedArticle or PubmedBookArticle), UTF-8, without declaration; efetch
    returns it unchanged, and every other form is derived from it. The other fields are what searches need.

    ``date`` is year-month-day as far as known ("2003", "2003-05", "2003-05-02"). ``authors`` are "Last FM", collective
    names as they are. ``retracted_by``, ``corrected_by``: PMIDs of notices, from CommentsCorrections. ``version``: of
    the texts of one PMID, the one with the highest counts.
    """

    pmid: int
    xml: str
    title: str
    abstract: str
    journal: tuple[str, ...]
    date: str
    authors: tuple[str, ...]
    types: tuple[str, ...]
    mesh: tuple[str, ...]
    mesh_major: tuple[str, ...]
    keywords: tuple[str, ...]
    languages: tuple[str, ...]
    doi: str = ""
    pmc: str = ""
    retracted_by: tuple[str, ...] = ()
    corrected_by: tuple[str, ...] = ()
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FullText:
    """Hold one PMC article, or with ``pmcid`` 0 one that has a DOI alone.

    ``xml`` is its JATS article element, UTF-8, without declaration; ``body`` its plain text.
    """

    pmcid: int
    xml: str
    pmid: str
    doi: str
    title: str
    abstract: str
    body: str
    journal: tuple[str, ...]
    date: str
    authors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """Hold one ClinVar variation.

    The source is the GRCh38 row of variant_summary where there is one, else the GRCh37 one. ``genes`` are (symbol,
    gene ID) pairs; ``phenotypes`` names; ``position`` is 1-based, "" where unknown.
    """

    variation_id: int
    allele_id: int
    name: str
    kind: str
    genes: tuple[tuple[str, str], ...]
    significance: str
    last_evaluated: str
    review_status: str
    rs: str
    phenotypes: tuple[str, ...]
    phenotype_ids: tuple[str, ...]
    assembly: str
    chromosome: str
    position: str
    cytogenetic: str
    origin: str
    accessions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxon:
    """Hold one taxon of NCBI Taxonomy.

    ``names`` are (name, class) pairs of names.dmp other than the scientific name, e.g. ("mouse", "genbank common
    name").
    """

    tax_id: int
    parent_id: int
    rank: str
    scientific_name: str
    names: tuple[tuple[str, str], ...] = ()
    division: str = ""
    genetic_code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """Hold one MedGen concept.

    ``cui`` is a UMLS or MedGen identifier (C0000744, CN000001); ``uid`` is Entrez's number.
    """

    uid: int
    cui: str
    name: str
    definition: str = ""
    synonyms: tuple[str, ...] = ()
    source_ids: tuple[tuple[str, str], ...] = ()
    semantic_type: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """Hold one cross reference, valid in both directions.

    ``own``: the source record itself states it, and it ends when a record that does not state it replaces that one;
    the others come from link files and stay.
    """

    source: Database
    source_uid: str
    target: Database
    target_uid: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """Represent a record that its source withdrew (DeleteCitation)."""

    db: Database
    uid: str


Record = Gene | Snp | OmimEntry | SequenceSegment | Article | FullText | Variation | Taxon | Concept
Entry = Record | Link | Removal
KINDS: Final[Mapping[Database, type[Record]]] = MappingProxyType(
    {
        "gene": Gene,
        "snp": Snp,
        "omim": OmimEntry,
        "nuccore": SequenceSegment,
        "pubmed": Article,
        "pmc": FullText,
        "clinvar": Variation,
        "taxonomy": Taxon,
        "medgen": Concept,
    }
)
_DATABASE_OF: Final = MappingProxyType({kind: db for db, kind in KINDS.items()})


def database_of(record: Record) -> Database:
    return _DATABASE_OF[type(record)]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Hold all records a store is built from; ``fingerprint`` changes when any of them does."""

    fingerprint: str
    organisms: tuple[Organism, ...]
    genes: tuple[Gene, ...]
    snps: tuple[Snp, ...]
    omim: tuple[OmimEntry, ...]
    segments: tuple[SequenceSegment, ...]
    articles: tuple[Article, ...] = ()
    links: tuple[Link, ...] = ()
