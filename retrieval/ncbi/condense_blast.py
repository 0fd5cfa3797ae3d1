"""Condense BLAST hits: line 1 states what the best hits agree on (organism, location, gene), dashes list the hits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from retrieval.ncbi.organisms import species_of_title
from retrieval.ncbi.records import BlastHit, BlastResult
from retrieval.types import Condensed

_NEAR_BEST = 0.95  # share of the best bit score from which a hit is evidence for the query
_MAX_TITLE = 90
_CHROMOSOME = re.compile(r"\bchromosome:? ?([0-9]{1,2}|X|Y|MT|[IVX]{1,5}|[2-4][LR])\b", re.IGNORECASE)
# Clones are often placed by their band alone: "from 7p14-15".
_BAND = re.compile(r"\bfrom ([0-9]{1,2}|X|Y)[pq](?:[0-9]|ter|cen)")
_GENE = re.compile(r"\(([A-Za-z0-9][A-Za-z0-9.@_-]{0,20})\)")
# RefSeq accessions of the human chromosomes of GRCh38 (NCBI Assembly GCF_000001405): only on these are subject
# positions genome coordinates.
_GRCH38 = re.compile(r"\bNC_0000(0[1-9]|1\d|2[0-4])\.(\d+)\b")
_GRCH38_VERSIONS = {"1": 11, "2": 12, "3": 12, "4": 12, "5": 10, "6": 12, "7": 14, "8": 11, "9": 12, "10": 11}
_GRCH38_VERSIONS |= {"11": 10, "12": 12, "13": 11, "14": 9, "15": 10, "16": 10, "17": 11, "18": 10, "19": 10}
_GRCH38_VERSIONS |= {"20": 11, "21": 9, "22": 11, "X": 11, "Y": 10}


def condense_blast(result: BlastResult, max_chars: int, *, places: bool) -> Condensed:
    """Condense a search result; with ``places``, the location precedes the organism."""
    if not result.hits:
        return Condensed("[0 blast hits]", 0, empty=True)
    best = max(hit.bits for hit in result.hits)
    near = [hit for hit in result.hits if hit.bits >= _NEAR_BEST * best]
    organism = _most(filter(None, (species_of_title(hit.title) for hit in near)))
    organism = organism or _most(filter(None, (species_of_title(hit.title) for hit in result.hits)))
    agreed = [organism or "unknown organism", _place(near, organism)]
    head = f"{len(result.hits)} blast hit{'' if len(result.hits) == 1 else 's'}\n1. "
    head += " ".join(reversed(agreed) if places else agreed)
    if gene := _most(filter(None, map(_gene_of, near))):
        head += f" gene {gene}"
    text, shown = f"[{head}", 0
    for hit in result.hits:
        row = f"\n- {_row(hit, result.query_length)}"
        if shown and len(text) + len(row) > max_chars:
            text += f"\n{len(result.hits) - shown} more left out"
            break
        text, shown = text + row, shown + 1
    return Condensed(f"{text}]", len(result.hits), len(result.hits) - shown)


def _most(values: Iterable[str]) -> str:
    """Return the most frequent value, the first of them in a tie."""
    counts = Counter(values)
    return counts.most_common(1)[0][0] if counts else ""


def _place(near: list[BlastHit], organism: str) -> str:
    exact = next((place for hit in near if (place := _genome_place(hit))), "")
    if exact:
        return exact
    # Synthetic constructs of whole chromosomes carry the chromosome's number without the species' name.
    same = [hit for hit in near if species_of_title(hit.title) in (organism, "") or "synthetic" in hit.title]
    chromosome = _most(filter(None, map(_chromosome_of, same)))
    return f"chr{chromosome}" if chromosome else "no chromosome"


def _chromosome_of(hit: BlastHit) -> str:
    found = _CHROMOSOME.search(hit.title) or _BAND.search(hit.title)
    return found[1].upper() if found else ""


def _genome_place(hit: BlastHit) -> str:
    """Return ``chr15:100-220`` if the subject is a human GRCh38 chromosome, else ""."""
    found = _GRCH38.search(f"{hit.accession} {hit.title}")
    if not found or not hit.subject_start:
        return ""
    number = {23: "X", 24: "Y"}.get(int(found[1]), str(int(found[1])))
    if _GRCH38_VERSIONS.get(number) != int(found[2]):
        return ""
    low, high = sorted((hit.subject_start, hit.subject_stop))
    return f"chr{number}:{low}-{high}"


def _gene_of(hit: BlastHit) -> str:
    """Return the gene symbol that a definition line gives in parentheses, "" for other words in parentheses."""
    found = [m for m in _GENE.findall(hit.title) if any(c.isupper() for c in m) and not m.endswith("p")]
    return found[0] if found else ""


def _row(hit: BlastHit, query_length: int) -> str:
    title = hit.title if len(hit.title) <= _MAX_TITLE else hit.title[:_MAX_TITLE].rsplit(" ", 1)[0] + "..."
    covered = f"{hit.identities}/{query_length or hit.align_length} identical" if hit.identities else ""
    place = f" at {hit.subject_start}-{hit.subject_stop}" if hit.subject_start else ""
    return f"{hit.accession} {title}; {covered}{place}; {hit.bits:g} bits"
