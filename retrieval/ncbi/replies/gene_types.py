"""Derive the type of a gene from its nomenclature: document summaries have no such field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.ncbi.replies.records import GeneType

# Held against the locus types of HGNC's 43,000 approved names. "(gene/pseudogene)" is a gene of
# which some people have the pseudogene.
_PSEUDOGENE = re.compile(r"(?<!gene/)pseudogene", re.IGNORECASE)
_RNA = re.compile(
    r"non-?(protein )?coding|antisense RNA|\b(antisense|intronic|divergent|bidirectional|sense) transcript|"
    r"^microRNA\b|\b(lnc|linc)RNA\b|\b(sno|sca|sn|vault |Y |7SK |7SL )RNA(?= \d|$| host)|host genes?( \d+)?$|"
    r"\b(ribosomal|transfer|small nuclear|small Cajal body-specific) RNA( [\w.-]*\d[\w.-]*)?$|^small nucleolar RNA\b|"
    r"^piwi-interacting RNA|^RNA, |\bRNA gene\b|RNA component\b(?! interacting)|"
    r"(?<![mt])RNA( transcript)?( [A-Z]?\d*)?$|(?<!receptor )overlapping transcript|\btranscript, (Y-linked|XIST)|"
    r"downstream neighbor$|cancer susceptibility \d+$|HLA complex group \d+$|region, candidate \d+$|"
    r"(?<!inducible )(?<!induced )(?<!early )(?<!region )(?<!overlapping )(?<!mesoderm specific )"
    r"(?<!leukocyte specific )(?<!placenta expressed )\btranscript( \d+[A-Z]?)?$",
    re.IGNORECASE,
)
# "tRNA-Ala", but not "tRNA-histidine guanylyltransferase".
_TRNA = re.compile(
    r"(^|encoded (mitochondrial )?)tRNA( suppressor|-([A-Z][a-z]{2}|[A-Z]\b|iMet|SeC|undetermined)\b)|encoded \d+S rRNA"
)
_RNA_FAMILY = re.compile(
    r"family with sequence similarity (27|66|74|85|87|88|95|99|106|138|157|182|201|215|223|224|225|226|230|238|239|242|"
    r"245|247) member\b"
)
# A summary that says what the gene's product is; "encodes a protein that binds non-coding RNA" says another thing.
_RNA_SUMMARY = re.compile(
    r"^(?:long |small )?non-?coding RNA\b|"
    r"\b(?:gene|locus)\b(?:(?!protein|enzyme|subunit|receptor|factor)[^.]){0,60}"
    r"\b(?:produces|encodes|represents|is|expresses)\b(?:(?!protein\b|enzyme|subunit|receptor|factor)[^.]){0,60}"
    r"\bnon-?(?:protein[- ])?coding (?:RNA|transcript)\b",
    re.IGNORECASE,
)
_UNCHARACTERIZED = re.compile(r"^uncharacterized (LOC\d+|gene)", re.IGNORECASE)
_PROTEIN = re.compile(r"\bprotein\b", re.IGNORECASE)

# The gateway's own note in the summary of a gene that HGNC's table lists: NCBI's type, and HGNC's type of locus.
_NOTE: Final = re.compile(
    r"\s*\[Gene type: (?P<type>[^;\]]+); locus type: (?P<locus>[^;\]]+);[^\]]*?(?P<lacks>not in it)?\]"
)
_NOTED: Final[Mapping[str, GeneType]] = {
    "protein-coding": "protein-coding",
    "pseudo": "pseudogene",
    **dict.fromkeys(("ncRNA", "rRNA", "tRNA", "snRNA", "snoRNA"), "ncRNA"),
}


@dataclass(frozen=True, slots=True)
class Noted:
    """Hold what a summary says of a gene's type, and the summary without it.

    ``locus``: HGNC's type of locus, where it says more than the type. ``has_names_only``: the gateway knows no more.
    """

    gene_type: GeneType
    summary: str
    locus: str = ""
    has_names_only: bool = False


def noted(summary: str, name: str, designations: str) -> Noted:
    """Return the type that the gateway's note in a summary tells; without one, the type by the gene's names."""
    found = _NOTE.search(summary)
    if found is None:
        return Noted(gene_type(name, designations, summary), summary)
    kind, rest = _NOTED.get(found["type"], "other"), _NOTE.sub("", summary, count=1).strip()
    return Noted(kind, rest, found["locus"] if kind == "other" else "", found["lacks"] is not None)


def gene_type(name: str, designations: str = "", summary: str = "") -> GeneType:
    """Return the type of the gene with that name.

    ``designations`` are the other names; a summary that mentions the encoded protein or RNA settles ambiguous names.
    """
    if _PSEUDOGENE.search(name):
        return "pseudogene"
    if _RNA.search(name) or re.search(r"\((non-protein coding|pseudogene)\)", designations):
        return "pseudogene" if "(pseudogene)" in designations and not _RNA.search(name) else "ncRNA"
    if _TRNA.search(name) or _RNA_FAMILY.match(name) or _RNA_SUMMARY.search(summary):
        return "ncRNA"
    if _UNCHARACTERIZED.match(name) and not _PROTEIN.search(designations + summary):
        return "ncRNA"
    return "protein-coding"
