"""Define Entrez's search fields of each database: their tags, and the columns of the index behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.formats.records import Database

# How a term of the field is looked up: as text of the index, or in a column of the record.
Lookup = Literal["text", "uid", "organism", "number", "day", "author"]


@dataclass(frozen=True, slots=True)
class SearchField:
    """Describe one search field; ``tags`` in lower case; ``columns`` of the index, all of them if empty."""

    code: str
    full_name: str
    tags: tuple[str, ...]
    columns: tuple[str, ...] = ()
    lookup: Lookup = "text"


ALL: Final = SearchField("ALL", "All Fields", ("all", "all fields", "*", "text word", "tw", "text", "word"))
_UID: Final = SearchField("UID", "UID", ("uid",), lookup="uid")
ORGANISM: Final = SearchField(
    "ORGN", "Organism", ("orgn", "organism", "taxonomy id", "porgn", "taxid"), ("orgn",), "organism"
)
_CHROMOSOME: Final = SearchField("CHR", "Chromosome", ("chr", "chromosome"), ("chr",))
_ACCESSION: Final = SearchField("ACCN", "Accession", ("accn", "accession", "nucleotide accession"), ("accn",))
_AUTHOR: Final = SearchField(
    "AUTH", "Author", ("au", "auth", "author", "full author name", "fau"), ("author",), "author"
)
_JOURNAL: Final = SearchField("JOUR", "Journal", ("ta", "jour", "journal"), ("journal",))
_TITLE: Final = SearchField("TITL", "Title", ("ti", "titl", "title"), ("title",))
_DAY: Final = SearchField(
    "PDAT",
    "Date - Publication",
    ("dp", "pdat", "date - publication", "publication date", "year", "pubdate", "edat", "crdt"),
    lookup="day",
)
_DOI: Final = SearchField("AID", "Article Identifier", ("aid", "doi", "article identifier", "lid"), ("doi",))

FIELDS: Final[Mapping[Database, tuple[SearchField, ...]]] = {
    "gene": (
        ALL,
        SearchField("UID", "UID", ("uid", "gene id", "geneid"), lookup="uid"),
        SearchField(
            "GENE", "Gene Name", ("gene", "gene name", "sym", "symbol", "pref", "prefered symbol"), ("sym", "alias")
        ),
        SearchField(
            "TITL", "Gene/Protein Name", ("titl", "title", "gfn", "gene full name", "name"), ("name", "designation")
        ),
        ORGANISM,
        _CHROMOSOME,
        SearchField("MAP", "Default Map Location", ("map", "map location"), ("map",)),
        SearchField("MIM", "MIM ID", ("mim", "mim id"), ("mim",)),
        SearchField("PROP", "Properties", ("prop", "properties", "filter", "fltr", "sb"), ("type", "alive")),
        _ACCESSION,
    ),
    "snp": (
        ALL,
        _UID,
        SearchField("RS", "Reference SNP ID", ("rs", "reference snp id", "snpid"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym", "gene_name"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "base position", "position"), lookup="number"),
        SearchField("FXN", "Function Class", ("fxn", "function class", "func"), ("fxn",)),
        SearchField("CLIN", "Clinical Significance", ("clin", "clinical significance"), ("clin",)),
        ORGANISM,
        _ACCESSION,
    ),
    "omim": (
        ALL,
        SearchField("UID", "MIM ID", ("uid", "mim", "mim id"), lookup="uid"),
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "alt")),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("title",)),
        SearchField("MAP", "Gene Map", ("map", "gmap", "gene map", "locus"), ("map",)),
    ),
    "nuccore": (ALL, SearchField("UID", "UID", ("uid",), ("accn",)), _ACCESSION, _TITLE, ORGANISM),
    "pubmed": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmid"), lookup="uid"),
        _TITLE,
        SearchField("TIAB", "Title/Abstract", ("tiab", "title/abstract"), ("title", "abstract", "keyword")),
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("MESH", "MeSH Terms", ("mh", "mesh", "mesh terms", "mesh:noexp"), ("mesh",)),
        SearchField("MAJR", "MeSH Major Topic", ("majr", "mesh major topic"), ("majr",)),
        _AUTHOR,
        _JOURNAL,
        _DAY,
        SearchField("PTYP", "Publication Type", ("pt", "ptyp", "publication type"), ("type",)),
        SearchField("LANG", "Language", ("la", "lang", "language"), ("lang",)),
        SearchField("OTRM", "Other Term", ("ot", "other term", "keyword"), ("keyword",)),
        _DOI,
        SearchField("PMC", "PMC ID", ("pmc", "pmcid", "pmc id"), ("pmc",)),
        SearchField("FILT", "Filter", ("filter", "sb", "subset", "text availability"), ("filter",)),
    ),
    "pmc": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmcid"), lookup="uid"),
        _TITLE,
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("BODY", "Body - All Words", ("body", "body - all words"), ("body",)),
        _AUTHOR,
        _JOURNAL,
        _DAY,
        _DOI,
        SearchField("PMID", "PMID", ("pmid",), ("pmid",)),
    ),
    "clinvar": (
        ALL,
        SearchField("UID", "UID", ("uid", "varid", "variation id"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        SearchField("VARNAME", "Variant name", ("varname", "variant name", "title", "titl", "ti"), ("name",)),
        SearchField(
            "CLSI",
            "Clinical significance",
            ("clsi", "clinsig", "clinical significance", "properties", "prop"),
            ("clin",),
        ),
        SearchField("DIS", "Disease/Phenotype", ("dis", "disease", "disease/phenotype", "trait"), ("dis",)),
        SearchField("TYPE", "Type of variation", ("type", "vartype", "type of variation"), ("type",)),
        SearchField("RVST", "Review status", ("rvst", "revstat", "review status"), ("review",)),
        SearchField("RS", "dbSNP ID", ("rs", "rsid", "dbsnp id"), ("rs",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "chrpos38", "base position"), lookup="number"),
        _ACCESSION,
        ORGANISM,
    ),
    "taxonomy": (
        ALL,
        SearchField("UID", "UID", ("uid", "taxid", "txid"), lookup="uid"),
        SearchField("SCIN", "Scientific Name", ("scin", "scientific name", "orgn", "organism"), ("scientific",)),
        SearchField("ALLN", "All Names", ("alln", "all names", "comn", "common name", "name"), ("scientific", "name")),
        SearchField("RANK", "Rank", ("rank",), ("level",)),
    ),
    "medgen": (
        ALL,
        _UID,
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "synonym")),
        SearchField("CUI", "Concept ID", ("cui", "conceptid", "concept id"), ("cui",)),
        SearchField("SRC", "Source ID", ("src", "sourceid", "source id", "mim", "omim"), ("source",)),
        SearchField("DEF", "Definition", ("def", "definition"), ("definition",)),
    ),
}

# How strongly a hit in a column indicates that the record is the intended one.
COLUMN_SCORE: Final[Mapping[str, int]] = {
    "sym": 100, "ens": 100, "rs": 100, "accn": 90, "alias": 60, "gene": 60, "gene_id": 60, "mim": 60, "cui": 60,
    "doi": 60, "scientific": 60, "keyword": 40, "title": 30, "synonym": 25, "name": 20, "alt": 15, "dis": 15,
    "designation": 10, "mesh": 10, "majr": 10, "abstract": 5,
}  # fmt: skip


def field_of(db: Database, tag: str) -> SearchField | None:
    """Return the field of a tag: All Fields for an empty tag, None if the database has no such field."""
    if not tag:
        return ALL
    wanted = " ".join(tag.lower().split())
    return next((f for f in FIELDS[db] if wanted in f.tags or wanted == f.code.lower()), None)
