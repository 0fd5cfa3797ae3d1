"""List the values of parameters that steer a call: pages, formats, orders, dates; whatever is not listed is refused.

The lists are short, so that their values cannot carry numbers or letters of a person. Data and pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retrieval.types import Endpoint
from server.egress.recognition.verdict import Recognized, refuse

DATABASES: Final = ("gene", "snp", "omim", "clinvar", "pubmed", "pmc", "nuccore", "protein", "taxonomy", "medgen")
_FORMAT: Final = {"retmode": ("json", "xml")}
_PAGE: Final = {
    "retmax": ("1", "2", "3", "5", "10", "20", "50", "100", "9999"),
    "retstart": ("0", "20", "100"),
}
_YEARS: Final = ("2000", "2005", "2010", "2015", "2020", "2025")
_HITS: Final = dict.fromkeys(("HITLIST_SIZE", "DESCRIPTIONS", "ALIGNMENTS"), ("1", "5", "10", "20", "50", "100"))
_BLAST_FORMAT: Final = ("XML", "Text", "JSON2_S", "Tabular")
# By endpoint: the parameters with fixed values, in the order in which they are sent.
CHOICES: Final[Mapping[Endpoint, Mapping[str, tuple[str, ...]]]] = {
    "esearch": _PAGE
    | _FORMAT
    | {
        "sort": ("relevance", "pub_date"),
        "rettype": ("uilist", "count"),
        "idtype": ("acc",),
        "datetype": ("pdat",),
        "reldate": ("30", "90", "365", "1825", "3650"),
        "mindate": _YEARS,
        "maxdate": (*_YEARS, "3000"),
    },
    "esummary": _PAGE | _FORMAT | {"version": ("2.0",)},
    "efetch": _PAGE
    | {
        "retmode": ("json", "xml", "text"),
        "rettype": ("fasta", "gb", "gp", "abstract", "medline", "docsum", "gene_table", "uilist", "acc", "vcv"),
    },
    "elink": {"retmax": _PAGE["retmax"]} | _FORMAT | {"cmd": ("neighbor", "neighbor_score")},
    "einfo": _FORMAT | {"version": ("2.0",)},
    "blast_put": {
        "PROGRAM": ("blastn", "blastp", "blastx", "tblastn", "tblastx"),
        "MEGABLAST": ("on", "off"),
        "FORMAT_TYPE": _BLAST_FORMAT,
        "EXPECT": ("10", "1", "0.1", "0.05", "0.01", "0.001"),
        "WORD_SIZE": ("7", "11", "16", "28"),
        "FILTER": ("F", "T", "L", "mL"),
        "SHORT_QUERY_ADJUST": ("true", "false"),
    }
    | _HITS,
    "blast_get": {"FORMAT_TYPE": _BLAST_FORMAT, "FORMAT_OBJECT": ("SearchInfo", "Alignment")} | _HITS,
}  # fmt: skip
BLAST_DATABASES: Final = (
    "nt", "core_nt", "refseq_rna", "refseq_select_rna", "refseq_genomes", "pdbnt", "nr", "refseq_protein",
    "refseq_select_prot", "swissprot", "pdb", "landmark",
)  # fmt: skip
_DATED: Final = frozenset({"pubmed", "pmc"})
_DATE_PARAMS: Final = frozenset({"datetype", "reldate", "mindate", "maxdate"})
# Names of links that are more than source and target.
_LINKS: Final = frozenset(
    {
        "gene_pubmed_rif", "gene_nuccore_refseqrna", "gene_nuccore_refseqgene", "gene_protein_refseq",
        "gene_snp_clinical", "pubmed_pubmed_refs", "pubmed_pubmed_citedin", "pubmed_pubmed_reviews",
        "clinvar_gene_specific", "clinvar_pubmed_citations", "snp_pubmed_cited", "omim_pubmed_cited",
        "omim_pubmed_calculated",
    }
)  # fmt: skip


def recognize_choice(endpoint: Endpoint, name: str, value: str) -> Recognized:
    """Return the value of a parameter with fixed values.

    Raises:
        NotRecognized: the value is not in the list.
    """
    choices = CHOICES[endpoint][name]
    if value not in choices:
        raise refuse(name, "choice", "the value is not in the list of values", f"use one of {', '.join(choices)}")
    return Recognized(value)


def recognize_database(name: str, value: str, choices: tuple[str, ...]) -> Recognized:
    if value not in choices:
        raise refuse(name, "database", "the database is not in the list of databases", f"use {', '.join(choices)}")
    return Recognized(value)


def recognize_link(dbfrom: str, db: str, value: str) -> Recognized:
    """Return the name of a link between two databases.

    Raises:
        NotRecognized: there is no such link in the list.
    """
    plain = f"{dbfrom}_{db}"
    if value == plain or (value in _LINKS and value.startswith(plain)):
        return Recognized(value)
    raise refuse("linkname", "choice", "the link is not in the list of links", "use dbfrom_db, as gene_omim")


def check_dates(db: str, params: Mapping[str, str]) -> None:
    """Check how dates are combined.

    Raises:
        NotRecognized: a database without dates, a half open range, or a range and a number of days.
    """
    dates = _DATE_PARAMS.intersection(params)
    if not dates:
        return
    if db not in _DATED:
        raise refuse("datetype", "combination", f"{db} is not searched by date", "leave the dates out")
    if ("mindate" in dates) != ("maxdate" in dates) or ("reldate" in dates) == ("mindate" in dates):
        raise refuse("mindate", "combination", "the dates are no range", "give mindate and maxdate, or reldate alone")
    if params.get("mindate", "") > params.get("maxdate", ""):
        raise refuse("mindate", "combination", "the range of dates is empty", "give mindate before maxdate")
