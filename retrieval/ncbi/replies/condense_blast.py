"""Condense the hits of a BLAST search: what the best of them agree on, then the hits.

Part of ``condense``, whose layout it has. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from retrieval.ncbi.calls.parameter_classes import is_organism, species_of_title
from retrieval.ncbi.replies.records import BlastHit, BlastResult
from retrieval.types import Condensed

_NEAR_BEST = 0.95  # share of the best bit score from which a hit is evidence for the query
_MAX_TITLE = 90
_CHROMOSOME = re.compile(r"\bchromosome:? ?([0-9]{1,2}|X|Y|MT|[IVX]{1,5}|[2-4][LR])\b", re.IGNORECASE)
# Clones are often placed by their band, or by the number alone: "from 7p14-15", "BAC clone RP11-510D21 from 7".
_BAND = re.compile(r"\bfrom ([0-9]{1,2}|X|Y)[pq](?:[0-9]|ter|cen)|\bclone \S+ from ([0-9]{1,2}|X|Y)(?=,|$)")
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
    labels = [organism or "unknown organism", _place(near, organism)]
    head = f"{len(result.hits)} blast hit{'' if len(result.hits) == 1 else 's'}\n1. "
    head += " ".join(reversed(labels) if places else labels)
    if gene := _most(filter(None, map(_gene_of, near))):
        head += f" gene {gene}"
    text, num_shown = f"[{head}", 0
    for hit in result.hits:
        row = f"\n- {_blast_row(hit, result.query_length)}"
        if num_shown and len(text) + len(row) > max_chars:
            text += f"\n{len(result.hits) - num_shown} more left out"
            break
        text, num_shown = text + row, num_shown + 1
    return Condensed(f"{text}]", len(result.hits), len(result.hits) - num_shown)


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
    return next(filter(None, found.groups())).upper() if found else ""


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
    """Return the gene symbol that a definition line gives in parentheses, "" for other words in parentheses.

    The first of the sequence's records that gives one counts.
    """
    titles = (hit.title, *hit.other_titles)
    symbols = (m for title in titles for m in _GENE.findall(title) if any(c.isupper() for c in m))
    return next((symbol for symbol in symbols if not symbol.endswith("p") and not is_organism(symbol)), "")


def _blast_row(hit: BlastHit, query_length: int) -> str:
    title = hit.title if len(hit.title) <= _MAX_TITLE else hit.title[:_MAX_TITLE].rsplit(" ", 1)[0] + "..."
    if (gene := _gene_of(hit)) and f"({gene})" not in title:
        title += f" ({gene})"
    covered = f"{hit.identities}/{query_length or hit.align_length} identical" if hit.identities else ""
    place = f" at {hit.subject_start}-{hit.subject_stop}" if hit.subject_start else ""
    return f"{hit.accession} {title}; {covered}{place}; {hit.bits:g} bits"
