"""Collect the NCBI records that an answer was read from, and format their list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from server.methods.base import Reference

MAX_REFERENCES = 8
HEADING = "\n\nReferences:\n"

# Web pages of records, for databases whose page addresses contain the record id.
_PAGES = {
    "gene": ("NCBI Gene", "https://www.ncbi.nlm.nih.gov/gene/{}"),
    "snp": ("dbSNP", "https://www.ncbi.nlm.nih.gov/snp/rs{}"),
    "omim": ("OMIM", "https://www.omim.org/entry/{}"),
    "clinvar": ("ClinVar", "https://www.ncbi.nlm.nih.gov/clinvar/variation/{}"),
    "pubmed": ("PubMed", "https://pubmed.ncbi.nlm.nih.gov/{}"),
    "nuccore": ("NCBI Nucleotide", "https://www.ncbi.nlm.nih.gov/nuccore/{}"),
    "nucleotide": ("NCBI Nucleotide", "https://www.ncbi.nlm.nih.gov/nuccore/{}"),
    "protein": ("NCBI Protein", "https://www.ncbi.nlm.nih.gov/protein/{}"),
    "taxonomy": ("NCBI Taxonomy", "https://www.ncbi.nlm.nih.gov/taxonomy/{}"),
    "medgen": ("MedGen", "https://www.ncbi.nlm.nih.gov/medgen/{}"),
}
_RECORD_ENDPOINTS = frozenset({"esummary", "efetch"})


def collect(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (title, address) of the records that were read, each once, those of the latest call first."""
    found: dict[str, str] = {}
    for record in reversed(records):
        if record.get("endpoint") not in _RECORD_ENDPOINTS or record.get("db") not in _PAGES:
            continue
        name, page = _PAGES[record["db"]]
        for uid in record.get("ids") or ():
            uid = str(uid).removeprefix("rs")
            found.setdefault(page.format(uid), f"{name} {'rs' if record['db'] == 'snp' else ''}{uid}")
    return [(title, url) for url, title in list(found.items())[:MAX_REFERENCES]]


def render(found: Sequence[tuple[str, str]], offset: int) -> tuple[str, tuple[Reference, ...]]:
    """Return the reference list for an answer of ``offset`` characters, and the references with marker offsets."""
    if not found:
        return "", ()
    text, references = HEADING, []
    for number, (title, url) in enumerate(found, 1):
        marker = f"[{number}]"
        start = offset + len(text)
        references.append(Reference(number, title, url, start, start + len(marker)))
        text += f"{marker} [{title}]({url})\n"
    return text.rstrip("\n"), tuple(references)
