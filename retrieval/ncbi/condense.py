"""Condense parsed replies into the text that a model sees after the arrow.

The text is one bracketed block of whole records, the subject of the question first, within a character budget, with a
closing note of how much was left out. The layout is frozen: the embedded model is trained on it. The first line counts
what follows, numbered lines start with what the question asks for, and dashes list the evidence:

    [3 ids: 5699,8138,19171]
    [3 gene records, 1 human named LMP10
    1. PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; proteasome 20S subunit beta 10; id 5699
    2. ...]

Pure: knows neither HTTP nor prompts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from retrieval.ncbi.condense_blast import condense_blast
from retrieval.ncbi.condense_omim import condense_omim
from retrieval.ncbi.organisms import common_name
from retrieval.ncbi.records import (
    BlastResult,
    DocRecord,
    FailedRecord,
    GeneRecord,
    IdList,
    OmimRecord,
    ParsedReply,
    Record,
    SnpRecord,
    TextRecord,
)
from retrieval.types import Condensed, Focus, SummaryPart

# A capital begins the next sentence: "e.g. thyroid" and "et al., 2004" do not end one.
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def condense(parsed: ParsedReply, focus: Focus, *, max_chars: int = 1200) -> Condensed:
    """Condense a reply to ``max_chars`` characters, but keep at least the first line of the first record."""
    if isinstance(parsed, IdList):
        return _ids(parsed, max_chars)
    if isinstance(parsed, BlastResult):
        return condense_blast(parsed, max_chars, places=focus.places)
    records = [r for r in parsed.records if not isinstance(r, FailedRecord)]
    failed = [r for r in parsed.records if isinstance(r, FailedRecord)]
    if not records:
        reason = f"; {failed[0].error}" if failed else ""
        return Condensed(f"[0 records{reason}]", len(failed), empty=True)
    if all(isinstance(r, GeneRecord) for r in records):
        condensed = _genes([r for r in records if isinstance(r, GeneRecord)], len(failed), focus, max_chars)
    elif all(isinstance(r, OmimRecord) for r in records):
        condensed = condense_omim([r for r in records if isinstance(r, OmimRecord)], focus, max_chars)
    else:
        lines = [_line(record) for record in records]
        condensed = fit(f"{counted(len(lines), _noun(parsed.db))}", lines, max_chars, [r_id(r) for r in records])
    return condensed


def _ids(found: IdList, max_chars: int) -> Condensed:
    if not found.ids:
        return Condensed("[0 ids]" if not found.count else f"[0 of {found.count} ids]", 0, empty=True)
    shown = list(found.ids)
    while len(",".join(shown)) > max_chars:
        shown.pop()
    total = f" of {found.count}" if found.count > len(shown) else ""
    text = f"[{len(shown)}{total} id{'s' if len(shown) > 1 else ''}: {','.join(shown)}]"
    return Condensed(text, len(found.ids), len(found.ids) - len(shown), ids=tuple(shown))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def fit(head: str, lines: Sequence[str], max_chars: int, ids: Sequence[str] = ()) -> Condensed:
    """Return the head and, numbered under it, as many whole lines as fit."""
    text, shown = f"[{head}", 0
    for line in lines:
        row = f"\n{shown + 1}. {line}"
        if shown and len(text) + len(row) > max_chars:
            break
        text, shown = text + row, shown + 1
    left_out = len(lines) - shown
    note = f"\n{left_out} more left out" if left_out else ""
    return Condensed(f"{text}{note}]", len(lines), left_out, ids=tuple(ids[:shown]))


# Genes


def plain(text: str) -> str:
    return text.casefold().strip()


def gene_rank(gene: GeneRecord, focus: Focus) -> tuple[bool, bool, bool, bool, bool]:
    """Return the sort key, best first: requested organism, current, named as requested, in the same case, by symbol."""
    names = set(map(plain, focus.terms))
    by_symbol = plain(gene.symbol) in names
    by_alias = any(plain(alias) in names for alias in gene.aliases)
    exact = not {gene.symbol, *gene.aliases}.isdisjoint(focus.terms)
    return (
        not _is_organism(gene, focus.organism),
        bool(gene.replaced_by),
        not (by_symbol or by_alias),
        not exact,
        not by_symbol,
    )


def _is_organism(gene: GeneRecord, organism: str) -> bool:
    return plain(common_name(organism)) in (plain(gene.organism), plain(gene.scientific_name))


def _genes(genes: list[GeneRecord], num_failed: int, focus: Focus, max_chars: int) -> Condensed:
    ranked = sorted(genes, key=lambda g: gene_rank(g, focus))
    named = [g for g in ranked if not any(gene_rank(g, focus)[: 3 if focus.terms else 2])]
    head = f"{counted(len(genes) + num_failed, 'gene record')}, {len(named)} {common_name(focus.organism)}"
    if focus.terms:
        head += f" named {focus.terms[0]}"
    lines = [_gene_line(g, focus) for g in ranked]
    spare = max_chars - len(head) - 20 - sum(map(len, lines))
    # Summaries are long: the best records get one as long as all records still fit without theirs.
    for place, gene in enumerate(ranked):
        summary = _summary(gene, focus.summary)
        spare -= len(summary) + 11
        if not summary or (spare < 0 and len(ranked) > 1):
            break
        lines[place] = (
            f"{summary}; {lines[place]}" if focus.summary == "lead" else f"{lines[place]}; summary: {summary}"
        )
    return fit(head, lines, max_chars, [g.uid for g in ranked])


def _gene_line(gene: GeneRecord, focus: Focus) -> str:
    place = f"chr{gene.chromosome} {gene.location}".strip() if gene.chromosome else "no chromosome"
    what = f"{gene.symbol} ({gene.organism or 'unknown organism'}) {gene.gene_type}"
    parts = [f"{place} {what}" if focus.places else f"{what} {place}"]
    if gene.replaced_by:
        parts.append(f"replaced by id {gene.replaced_by}")
    if gene.aliases:
        parts.append("aliases " + ", ".join(gene.aliases))
    if gene.name:
        parts.append(gene.name)
    parts.append(f"id {gene.uid}")
    return "; ".join(parts)


def _summary(gene: GeneRecord, part: SummaryPart) -> str:
    """Return the summary without its "[provided by ...]" note, which names its author and not the gene's function.

    If a lead is requested and there is none, the type is all that is known of the gene's function.
    """
    if part == "none":
        return ""
    if part == "lead" and not gene.summary:
        return f"{gene.gene_type}, no summary"
    whole = re.sub(r"\s*\[(?:supplied|provided) by [^\]]*\]\.?", "", gene.summary).strip()
    return _SENTENCE_END.split(whole, maxsplit=1)[0] if part == "lead" else whole


# Other records


def _noun(db: str) -> str:
    return {"snp": "snp record", "einfo": "database"}.get(db, f"{db} record".strip())


def r_id(record: Record) -> str:
    return "" if isinstance(record, TextRecord) else record.uid


def _line(record: Record) -> str:
    handlers: dict[type, Callable[..., str]] = {
        SnpRecord: _snp_line,
        DocRecord: _doc_line,
        TextRecord: _text_line,
    }
    handler = handlers.get(type(record))
    return handler(record) if handler else r_id(record)


def _snp_line(snp: SnpRecord) -> str:
    genes = ", ".join(f"{name} (id {uid})" for name, uid in snp.genes) or "no gene"
    parts = [f"{genes} rs{snp.uid} chr{snp.chromosome} {snp.position}".rstrip()]
    if snp.function:
        parts.append(snp.function)
    if snp.alleles:
        parts.append(f"alleles {snp.alleles}")
    if snp.clinical:
        parts.append(f"clinical {snp.clinical}")
    return "; ".join(parts)


def _doc_line(doc: DocRecord) -> str:
    return "; ".join([doc.title or doc.uid, *(f"{k} {v}" for k, v in doc.fields.items()), f"id {doc.uid}"])


def _text_line(text: TextRecord) -> str:
    return f"{text.title}; {text.length} letters: {text.head}{'...' if text.length > len(text.head) else ''}"
