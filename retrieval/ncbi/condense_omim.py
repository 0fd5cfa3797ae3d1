"""Condense OMIM entries: list phenotypes with the genes of the same reply that share their map location.

OMIM's document summaries do not say which gene causes which phenotype, but a phenotype entry with a known cause carries
the location of its gene. Line 1 lists the genes on the requested topic, or their locations; dashes name the entries
these come from; everything else follows as "other".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from retrieval.ncbi.records import OmimRecord
from retrieval.types import Condensed, Focus

_COMMON_WORDS = frozenset(
    {"of", "the", "a", "an", "and", "or", "due", "to", "with", "without", "in", "by", "type", "from", "for", "related"}
)


def condense_omim(entries: list[OmimRecord], focus: Focus, max_chars: int) -> Condensed:
    wanted = _words(focus.terms[0]) if focus.terms else frozenset()
    rows = _on_topic(entries, wanted, places=focus.places)
    num_topic = len(rows)
    if not rows:
        rows = _best_gene(entries, wanted)
    numbered = {gene.uid for gene, _ in rows} | {p.uid for _, p in rows if p}
    text = f"[{len(entries)} omim entr{'y' if len(entries) == 1 else 'ies'}, {num_topic} on topic"
    if listed := _listed(rows, places=focus.places):
        text += f"{'' if num_topic else ', nearest'}\n1. {listed}"
    for gene, phenotype in rows:
        text += f"\n- {_row(gene, phenotype)}"
    shown = len(numbered)
    others = [_other(e) for e in entries if e.uid not in numbered]
    for place, other in enumerate(others):
        piece = f"{'; ' if place else chr(10) + 'other: '}{other}"
        if len(text) + len(piece) > max_chars:
            text += f"; {len(others) - place} more left out"
            break
        text += piece
        shown += 1
    ids = tuple(e.uid for e in entries if e.uid in numbered)
    return Condensed(text + "]", len(entries), len(entries) - shown, ids=ids)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) - _COMMON_WORDS


def _coverage(entry: OmimRecord, wanted: frozenset[str]) -> float:
    """Return the share of ``wanted`` words that occur in the entry's titles."""
    have = _words(f"{entry.title} {entry.symbol} {entry.other_titles}")
    return len(wanted & have) / len(wanted) if wanted else 0.0


def _on_topic(
    entries: list[OmimRecord], wanted: frozenset[str], *, places: bool
) -> list[tuple[OmimRecord, OmimRecord | None]]:
    """Return genes whose title, or whose location partner's, covers the topic best (at least half of its words).

    With ``places``, a mapped phenotype without a gene in the reply counts too: its location is known.
    """
    candidates: list[tuple[float, OmimRecord, OmimRecord | None]] = []
    genes = [e for e in entries if e.is_gene and e.symbol]
    for entry in entries:
        covered = _coverage(entry, wanted)
        if entry.is_gene and entry.symbol:
            candidates.append((covered, entry, None))
            continue
        partners = [gene for gene in genes if _share_location(entry, gene)]
        candidates += [(covered, gene, entry) for gene in partners]
        if places and not partners:
            candidates.append((covered, entry, None))
    if places:
        candidates = [candidate for candidate in candidates if candidate[1].loci]
    best = max((covered for covered, *_ in candidates), default=0.0)
    if best < 0.5:
        return []
    return _first_of_each((g, p) for covered, g, p in candidates if covered == best)


def _best_gene(entries: list[OmimRecord], wanted: frozenset[str]) -> list[tuple[OmimRecord, OmimRecord | None]]:
    """Return the gene whose title shares most words with an unmatched topic, else NCBI's most relevant gene."""
    genes = [e for e in entries if e.is_gene and e.symbol]
    ranked = sorted(genes, key=lambda g: -_coverage(g, wanted))
    return [(gene, None) for gene in ranked[:1]]


def _first_of_each(
    rows: Iterable[tuple[OmimRecord, OmimRecord | None]],
) -> list[tuple[OmimRecord, OmimRecord | None]]:
    first: dict[str, tuple[OmimRecord, OmimRecord | None]] = {}
    for gene, phenotype in rows:
        first.setdefault(gene.uid, (gene, phenotype))
    return list(first.values())


def _share_location(a: OmimRecord, b: OmimRecord) -> bool:
    return bool(set(a.loci) & set(b.loci))


def _listed(rows: list[tuple[OmimRecord, OmimRecord | None]], *, places: bool) -> str:
    """Return the answer's names: symbols or, with ``places``, map locations, each once, in order."""
    found = (gene.loci[:1] if places else (gene.symbol,) for gene, _ in rows)
    return ", ".join(dict.fromkeys(name for names in found for name in names))


def _row(gene: OmimRecord, phenotype: OmimRecord | None) -> str:
    place = gene.loci[0] if gene.loci else "no location"
    symbol, name = (gene.symbol, gene.title.lower()) if gene.is_gene else ("no gene", _phenotype(gene))
    about = f"{_phenotype(phenotype)}; {name}" if phenotype else name
    return f"{symbol} at {place}; {about}"


def _phenotype(entry: OmimRecord) -> str:
    return f"{entry.title.lower()} ({entry.symbol})" if entry.symbol else entry.title.lower()


def _other(entry: OmimRecord) -> str:
    place = " ".join(entry.loci)
    if entry.is_gene:
        return f"gene {entry.symbol} {place} {entry.title.lower()}".replace("  ", " ")
    return f"{_phenotype(entry)} {place}".strip()
