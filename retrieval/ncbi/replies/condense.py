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
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from retrieval.ncbi.calls.parameter_classes import common_name
from retrieval.ncbi.calls.stopwords import STOPWORDS
from retrieval.ncbi.replies.condense_blast import condense_blast
from retrieval.ncbi.replies.records import (
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

_MAX_NOTE: Final = 200
# Share of the topic's words that an entry on it has at least.
_ON_TOPIC: Final = 0.5
# Phenotypes without a gene that are shown as rows; the others have short ones.
_MAX_ALONE: Final = 5
_MAX_NAMED: Final = 10
# Characters of an abstract that are kept at least, and those that a record's other fields take.
_MIN_LONG: Final = 200
_OTHER_FIELDS: Final = 250
_BRACKETS: Final = str.maketrans("[]", "()")
# Behind the type of a gene, where that is all that is known of what it does.
NO_SUMMARY: Final = ", no summary"
_COMMON_WORDS = frozenset(
    {"of", "the", "a", "an", "and", "or", "due", "to", "with", "without", "in", "by", "type", "from", "for", "related"}
)


def condense_omim(entries: list[OmimRecord], focus: Focus, max_chars: int) -> Condensed:
    topic_words = _words(focus.terms[0]) if focus.terms else frozenset()
    rows = _on_topic(entries, topic_words, places=focus.places)
    if not focus.places:
        rows += _without_gene(entries, topic_words, least=_coverage_of(rows, topic_words))
    num_topic = len(rows)
    if not rows:
        rows = _best_gene(entries, topic_words)
    numbered = {gene.uid for gene, _ in rows} | {p.uid for _, p in rows if p}
    text = f"[{len(entries)} omim entr{'y' if len(entries) == 1 else 'ies'}, {num_topic} on topic"
    if listed := _listed(rows, places=focus.places):
        text += f"{'' if num_topic else ', nearest'}\n1. {listed}"
    for gene, phenotype in rows:
        text += f"\n- {_omim_row(gene, phenotype)}"
    num_shown = len(numbered)
    others = [_other(e) for e in entries if e.uid not in numbered]
    for place, other in enumerate(others):
        piece = f"{'; ' if place else chr(10) + 'other: '}{other}"
        if len(text) + len(piece) > max_chars:
            text += f"; {len(others) - place} more left out"
            break
        text += piece
        num_shown += 1
    ids = tuple(e.uid for e in entries if e.uid in numbered)
    return Condensed(text + "]", len(entries), len(entries) - num_shown, ids=ids)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) - _COMMON_WORDS


def _coverage(entry: OmimRecord, topic_words: frozenset[str]) -> float:
    """Return the share of ``topic_words`` that occur in the entry's titles."""
    have = _words(f"{entry.title} {entry.symbol} {entry.other_titles}")
    return len(topic_words & have) / len(topic_words) if topic_words else 0.0


def _on_topic(
    entries: list[OmimRecord], topic_words: frozenset[str], *, places: bool
) -> list[tuple[OmimRecord, OmimRecord | None]]:
    """Return genes whose title, or whose location partner's, covers the topic best (at least half of its words).

    With ``places``, a mapped phenotype without a gene in the reply counts too: its location is known.
    """
    candidates: list[tuple[float, OmimRecord, OmimRecord | None]] = []
    genes = [e for e in entries if e.is_gene and e.symbol]
    for entry in entries:
        covered = _coverage(entry, topic_words)
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
    if best < _ON_TOPIC:
        return []
    return _first_of_each((g, p) for covered, g, p in candidates if covered == best)


def _without_gene(
    entries: list[OmimRecord], topic_words: frozenset[str], *, least: float
) -> list[tuple[OmimRecord, OmimRecord | None]]:
    """Return the phenotypes on the topic that no gene of the reply shares a location with.

    ``least`` is the coverage of the genes that are shown, which they have to reach.
    """
    genes = [e for e in entries if e.is_gene and e.symbol]
    alone = [e for e in entries if not e.is_gene and not any(_share_location(e, gene) for gene in genes)]
    on_topic = [e for e in alone if topic_words and _coverage(e, topic_words) >= max(least, _ON_TOPIC)]
    return [(e, None) for e in on_topic[:_MAX_ALONE]]


def _coverage_of(rows: list[tuple[OmimRecord, OmimRecord | None]], topic_words: frozenset[str]) -> float:
    return max((_coverage(e, topic_words) for row in rows for e in row if e), default=0.0)


def _best_gene(entries: list[OmimRecord], topic_words: frozenset[str]) -> list[tuple[OmimRecord, OmimRecord | None]]:
    """Return the gene whose title shares most words with an unmatched topic, else NCBI's most relevant gene."""
    genes = [e for e in entries if e.is_gene and e.symbol]
    ranked = sorted(genes, key=lambda g: -_coverage(g, topic_words))
    return [(gene, None) for gene in ranked[:1]]


def _first_of_each(rows: Iterable[tuple[OmimRecord, OmimRecord | None]]) -> list[tuple[OmimRecord, OmimRecord | None]]:
    first: dict[str, tuple[OmimRecord, OmimRecord | None]] = {}
    for gene, phenotype in rows:
        first.setdefault(gene.uid, (gene, phenotype))
    return list(first.values())


def _share_location(a: OmimRecord, b: OmimRecord) -> bool:
    return bool(set(a.loci) & set(b.loci))


def _listed(rows: list[tuple[OmimRecord, OmimRecord | None]], *, places: bool) -> str:
    """Return the answer's names: symbols or, with ``places``, map locations, each once, in order."""
    found = (gene.loci[:1] if places else (gene.symbol,) for gene, _ in rows if places or gene.is_gene)
    return ", ".join(dict.fromkeys(name for names in found for name in names))


def _omim_row(gene: OmimRecord, phenotype: OmimRecord | None) -> str:
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
        named = _without_record(failed) if len(failed) > 1 else ""
        return Condensed(f"[0 records{reason}{named}]", len(failed), empty=True)
    note = _without_record(failed)
    condensed = _records(parsed.db, records, len(failed), focus, max_chars - len(note))
    return replace(condensed, text=f"{condensed.text[:-1]}{note}]")


def _without_record(failed: Sequence[FailedRecord]) -> str:
    """Return a line that names the ids no record came back for, of many only their number; "" for none."""
    if not failed:
        return ""
    ids = [record.uid for record in failed if record.uid]
    named = ", ".join(ids) if len(ids) == len(failed) <= _MAX_NAMED else ""
    return f"\nno record of {f'id {named}' if named else counted(len(failed), 'id')}"


def _records(db: str, records: Sequence[Record], num_failed: int, focus: Focus, max_chars: int) -> Condensed:
    if all(isinstance(r, GeneRecord) for r in records):
        return _genes([r for r in records if isinstance(r, GeneRecord)], num_failed, focus, max_chars)
    if all(isinstance(r, OmimRecord) for r in records):
        return condense_omim([r for r in records if isinstance(r, OmimRecord)], focus, max_chars)
    head = counted(len(records), _noun(db))
    # Abstracts share what the first of each record leaves.
    share = max(_MIN_LONG, (max_chars - len(head)) // len(records) - _OTHER_FIELDS)
    lines = [_line(_shortened(record, share)) for record in records]
    return fit(head, lines, max_chars, [r_id(r) for r in records])


def _shortened(record: Record, max_chars: int) -> Record:
    """Return a record with its abstract cut to whole sentences: its first ones, and the last, which concludes."""
    abstract = record.fields.get("abstract", "") if isinstance(record, DocRecord) else ""
    if not isinstance(record, DocRecord) or len(abstract) <= max_chars:
        return record
    *sentences, last = _SENTENCE_END.split(abstract)
    ends = accumulate(len(one) + 1 for one in sentences)
    kept = [one for one, end in zip(sentences, ends, strict=True) if end + len(last) + 5 <= max_chars]
    if len(last) > max_chars:
        last = ""
    text = " ".join([*kept, "...", last]).strip()
    return replace(record, fields={**record.fields, "abstract": text})


def _ids(found: IdList, max_chars: int) -> Condensed:
    if found.is_count and found.count:
        return Condensed(f"[{counted(found.count, 'record')} found{_left_out(found)}]", found.count)
    if not found.ids:
        return Condensed("[0 ids]" if not found.count else f"[0 of {found.count} ids]", 0, empty=True)
    note = _left_out(found)
    ends = accumulate(len(one) + 1 for one in found.ids)
    ids = [one for one, end in zip(found.ids, ends, strict=True) if end <= max_chars + 1 - len(note)]
    total = f" of {found.count}" if found.count > len(ids) else ""
    text = f"[{len(ids)}{total} id{'s' if len(ids) > 1 else ''}: {','.join(ids)}{note}]"
    return Condensed(text, len(found.ids), len(found.ids) - len(ids), ids=tuple(ids))


def _left_out(found: IdList) -> str:
    """Return which words the search was without: the records are on what is left of it."""
    parts = (("not found and ignored", found.not_found), ("ignored", telling(found.ignored)))
    note = "".join(f"; {what}: {', '.join(map(plain_phrase, words))}" for what, words in parts if words)
    return note if len(note) <= _MAX_NOTE else f"{note[:_MAX_NOTE].rsplit(' ', 1)[0]} ..."


def telling(ignored: Iterable[str]) -> tuple[str, ...]:
    """Return the ignored words that say something: not Entrez's stopwords, which no search has."""
    return tuple(words for words in ignored if not STOPWORDS.issuperset(words.lower().split()))


def plain_phrase(words: str) -> str:
    """Return words of a search term on one line, without brackets, which would look like a reply's own."""
    return " ".join(words.translate(_BRACKETS).split())


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def fit(head: str, lines: Sequence[str], max_chars: int, ids: Sequence[str] = ()) -> Condensed:
    """Return the head and, numbered under it, as many whole lines as fit."""
    text, num_shown = f"[{head}", 0
    for line in lines:
        row = f"\n{num_shown + 1}. {line}"
        if num_shown and len(text) + len(row) > max_chars:
            break
        text, num_shown = text + row, num_shown + 1
    num_left_out = len(lines) - num_shown
    note = f"\n{num_left_out} more left out" if num_left_out else ""
    return Condensed(f"{text}{note}]", len(lines), num_left_out, ids=tuple(ids[:num_shown]))


# Genes


def plain(text: str) -> str:
    return text.casefold().strip()


def gene_rank(gene: GeneRecord, focus: Focus) -> tuple[bool, bool, bool, bool, bool]:
    """Return the sort key, best first: requested organism, current, named as requested, in the same case, by symbol.

    A name in words counts as one, whatever its punctuation: "insulin" names INS.
    """
    names = set(map(plain, focus.terms))
    names_in_words = set(map(_spelled, focus.terms)) - {""}
    by_symbol = plain(gene.symbol) in names
    by_alias = any(plain(alias) in names for alias in gene.aliases)
    in_words = not names_in_words.isdisjoint(map(_spelled, (gene.name, *gene.other_names)))
    exact = not {gene.symbol, *gene.aliases}.isdisjoint(focus.terms)
    return (
        not _is_organism(gene, focus.organism),
        bool(gene.replaced_by),
        not (by_symbol or by_alias or in_words),
        not exact,
        not by_symbol,
    )


def _spelled(name: str) -> str:
    """Return the letters and digits of a name, with single spaces for what stands between them."""
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))


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
    kind = f"{gene.gene_type} ({gene.locus})" if gene.locus else gene.gene_type
    what = f"{gene.symbol} ({gene.organism or 'unknown organism'}) {kind}"
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
        return f"{gene.gene_type}{NO_SUMMARY}"
    whole = re.sub(r"\s*\[(?:supplied|provided) by [^\]]*\]\.?", "", gene.summary).strip()
    return _SENTENCE_END.split(whole, maxsplit=1)[0] if part == "lead" else whole


# Other records


def _noun(db: str) -> str:
    named = {"snp": "snp record", "einfo": "database", "elink": "id checked"}
    return named.get(db, f"{db} record".strip())


def r_id(record: Record) -> str:
    return "" if isinstance(record, TextRecord) else record.uid


def line_of(record: Record, focus: Focus) -> str:
    """Return all that is shown of one record, on one line."""
    if isinstance(record, GeneRecord):
        return _gene_line(record, focus)
    if isinstance(record, OmimRecord):
        return _other(record)
    return _line(record)


def _line(record: Record) -> str:
    handlers: dict[type, Callable[..., str]] = {SnpRecord: _snp_line, DocRecord: _doc_line, TextRecord: _text_line}
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
    title = f"RETRACTED: {doc.title or doc.uid}" if doc.is_retracted else doc.title or doc.uid
    return "; ".join([title, *(f"{k} {v}" for k, v in doc.fields.items()), f"id {doc.uid}"])


def _text_line(text: TextRecord) -> str:
    return f"{text.title}; {text.length} letters: {text.head}{'...' if text.length > len(text.head) else ''}"


# Line and paragraph separators, and invisible characters that could hide an arrow: "-" + zero width + ">".
_LINE_BREAKS: Final = re.compile("\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")
_OPENER: Final = re.compile(r"\[(?=\s*https?\s*:)", re.IGNORECASE)
# <|im_start|>, </s>, <start_of_turn>, <<SYS>>; not "P < 0.05" and not "c.35G>A".
_TAG: Final = re.compile(r"<(?=[|/<]|[A-Za-z_][\w -]{0,40}\|?>)")
_TAG_END: Final = re.compile(r"\|>|>>")
_INSTRUCTION: Final = re.compile(r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+))\]", re.IGNORECASE)
_TURN: Final = re.compile(
    r"^([ \t]*#*[ \t]*(?:question|answer|user|assistant|system|human|instruction|response))[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)


def sanitize(text: str) -> str:
    """Return ``text`` as one paragraph of plain data.

    Facts stay readable; applying the function twice changes nothing more.
    """
    text = _LINE_BREAKS.sub("\n", text).replace("\t", " ")
    text = "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    text = _BLANK_LINES.sub("\n", text)
    while _BLANK_LINES.search(text):
        text = _BLANK_LINES.sub("\n", text)
    text = _TURN.sub(r"\1 -", text).replace("->", "→")
    text = _INSTRUCTION.sub(r"(\1)", text)
    text = _OPENER.sub("(", text)
    return _TAG_END.sub(lambda m: m[0].replace(">", "›"), _TAG.sub("‹", text)).strip()
