"""Define the records of NCBI's replies, as pure data independent of wire formats and of presentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GeneType = Literal["protein-coding", "pseudogene", "ncRNA", "other"]


@dataclass(frozen=True, slots=True)
class IdList:
    """Hold the reply of esearch or elink: ``count`` is NCBI's total, ``ids`` those returned, in NCBI's order.

    ``not_found`` are words of the term that no record has and ``ignored`` those left out otherwise (function words,
    fields that the database lacks): the ids are of a search without them. ``is_count``: only the number was asked for.
    """

    count: int
    ids: tuple[str, ...]
    not_found: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    is_count: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneRecord:
    """Hold one Gene document summary.

    ``chromosome`` has no "chr"; ``replaced_by`` is the current id of a retired record. ``gene_type`` is derived from
    the nomenclature (see ``gene_types``) where the reply has no such field, as document summaries. ``locus`` is HGNC's
    type of locus, of a gene whose type is "other". ``has_names_only``: the gateway knows neither place nor summary.
    ``other_names`` are NCBI's other designations, which no reply shows.
    """

    uid: str
    symbol: str
    name: str = ""
    organism: str = ""
    scientific_name: str = ""
    chromosome: str = ""
    location: str = ""
    aliases: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    summary: str = ""
    gene_type: GeneType = "protein-coding"
    locus: str = ""
    has_names_only: bool = False
    replaced_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpRecord:
    """Hold one dbSNP document summary.

    ``genes`` are (symbol, gene id) in NCBI's order; ``position`` is 1-based.
    """

    uid: str
    chromosome: str = ""
    position: str = ""
    genes: tuple[tuple[str, str], ...] = ()
    function: str = ""
    alleles: str = ""
    clinical: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OmimRecord:
    """Hold one OMIM entry.

    ``prefix``: ``*`` gene, ``+`` gene and phenotype, ``#`` and ``%`` phenotype, ``^`` moved.
    """

    uid: str
    prefix: str
    title: str
    symbol: str = ""
    loci: tuple[str, ...] = ()
    other_titles: str = ""

    @property
    def is_gene(self) -> bool:
        return self.prefix in ("*", "+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastHit:
    """Hold one subject of a BLAST search with its best alignment.

    Positions are 1-based, of the subject as it is stored (nucleotides in translated searches); start > stop on its
    minus strand. ``accession`` has its version. ``other_titles``: of further records of the identical sequence.
    """

    accession: str
    title: str
    bits: float
    expect: float
    identities: int = 0
    align_length: int = 0
    subject_start: int = 0
    subject_stop: int = 0
    other_titles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlastResult:
    """Hold the hits of one BLAST search.

    ``query_length`` is in letters of the alignments (amino acids where the query was translated), 0 if unknown.
    """

    query_length: int
    hits: tuple[BlastHit, ...]


@dataclass(frozen=True, slots=True)
class DocRecord:
    """Hold a record of any other database: its most informative fields, in reading order.

    The last field may be long: an abstract.

    ``is_retracted``: of an article, its publication types or notices say so.
    """

    uid: str
    title: str
    fields: Mapping[str, str] = field(default_factory=dict)
    is_retracted: bool = False


@dataclass(frozen=True, slots=True)
class TextRecord:
    """Hold a FASTA record: its definition line and its sequence's first letters; ``length`` in letters."""

    title: str
    head: str
    length: int


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """Hold NCBI's own error for one id inside an otherwise valid reply."""

    uid: str
    error: str


Record = GeneRecord | SnpRecord | OmimRecord | DocRecord | TextRecord | FailedRecord


@dataclass(frozen=True, slots=True)
class RecordList:
    """Hold the reply of esummary or efetch; ``cut`` means that the body ended before its last record did."""

    db: str
    records: tuple[Record, ...]
    cut: bool = False


ParsedReply = IdList | RecordList | BlastResult
