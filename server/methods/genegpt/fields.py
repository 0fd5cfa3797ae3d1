"""Read the answer of a look-up model out of the records that it read.

A small model finds the right record, but cannot copy a sentence or a list of it: its answer is the field of the record
as it stands there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.ncbi.replies.condense import NO_SUMMARY
from server.methods.genegpt.questions import ParsedQuestion

_LINE: Final = re.compile(r"^\d+\. (?P<record>.+)$", re.MULTILINE)
_ALIASES: Final = re.compile(r"(?:^|; )aliases ([^;]+)")
# The full name of a gene, behind its place and aliases and before its number.
_FULL_NAME: Final = re.compile(r"; (?!aliases )([^;]+); id \d+\]?$")
# The organism of a record, then the type of the gene.
GENE_TYPE: Final = re.compile(
    r"\((?P<organism>[^()]*)\) (?P<type>protein-coding\b|pseudogene\b|ncRNA\b|other(?: \((?P<locus>[^()]*)\))?)"
)
_BEFORE_GENE: Final = re.compile(rf"(?P<first>.+?); \S+ {GENE_TYPE.pattern}")
_GENE: Final = re.compile(rf"(?P<symbol>\S+) {GENE_TYPE.pattern}")
NO_FIELD: Final = "not found"
# That a gene codes for a protein does not say what it does; that it is an ncRNA does.
_CODING: Final = "protein-coding"
# A gene that is named after a clone of the genome, by its accession and a number.
_OF_CLONE: Final = re.compile(r"(?P<clone>[A-Z]\d{5}|[A-Z]{2}\d{6})\.\d{1,2}", re.IGNORECASE)
_CHROMOSOME: Final = re.compile(r"\bchr(?P<name>\d{1,2}|[XYM])\w*")
HUMAN_GENE: Final = re.compile(r"(?P<symbol>\S+) \(human\)")
_LEAST_ON_CLONE: Final = 2
# That an answer and a record begin with, where the one copies the other.
_OPENING_WORDS: Final = 6


def field_of(parsed: ParsedQuestion, answer: str, read: str) -> str:
    """Return the answer as it stands in the record, for relations that a field of it answers as a whole.

    A small model cannot copy a sentence or a list, and says "yes" to a pseudogene. The record is the first one that
    names the subject; ``NO_FIELD`` where it has no such field.
    """
    if not parsed.relation:
        return _copied_whole(answer, read)
    if parsed.relation == "symbol":
        return _symbol_of(answer.strip(), read)
    if parsed.relation not in ("name", "aliases", "coding", "function", "organism") or not answer.strip():
        return answer
    named = re.compile(rf"(?<!\w){re.escape(parsed.subject)}(?!\w)", re.IGNORECASE)
    # The first of a reply that counts genes of this name may have it among the names that no reply shows.
    headed = re.search(rf"\b[1-9]\d* \w[\w ]* named {re.escape(parsed.subject)}\n1\. (.+)$", read, re.I | re.M)
    records = (
        [headed[1]] if headed else [line["record"] for line in _LINE.finditer(read) if named.search(line["record"])]
    )
    record = records[0] if records else ""
    if parsed.relation == "organism":
        return (
            ", ".join(dict.fromkeys(found["organism"] for one in records if (found := GENE_TYPE.search(one))))
            or NO_FIELD
        )
    if parsed.relation == "coding":
        typed = GENE_TYPE.search(record)
        if typed is None:
            return answer
        # Of a type of locus that says nothing of a protein, the type is all that the record states.
        said = {"protein-coding": "Yes: ", "pseudogene": "No: ", "ncRNA": "No: "}.get(typed["type"])
        return f"{said}{typed['type']}" if said else typed["locus"] or NO_FIELD
    if parsed.relation in ("name", "aliases"):
        found = (_FULL_NAME if parsed.relation == "name" else _ALIASES).search(record)
        if found and GENE_TYPE.search(found[1]):
            return NO_FIELD
        return found[1].strip() if found and "replaced by" not in record else NO_FIELD
    # A summary stands first; without one, the names do.
    first = _first_field(record).strip()
    said = first.rstrip(";") if first.startswith(answer.strip()) else answer
    return NO_FIELD if GENE_TYPE.search(said) or said.strip().removesuffix(NO_SUMMARY) == _CODING else said


def said_of_claim(parsed: ParsedQuestion, answer: str, read: str) -> str:
    """Return an answer with yes or no before it where the question asks whether it is one that the question names.

    A variant's record has all its genes; that other genes are known of a disease does not say that this one is not.
    """
    if parsed.claimed:
        genes = answer if parsed.is_of_disease else read
        holds = re.search(rf"(?<![\w-]){re.escape(parsed.claimed)}(?![\w-])", genes, re.IGNORECASE) is not None
        is_told = holds or not parsed.is_of_disease
    else:
        holds, is_told = is_on(parsed.chromosome, answer), bool(parsed.chromosome and _CHROMOSOME.search(answer))
    return f"{'Yes' if holds else 'No'}: {answer}" if is_told else answer


def chosen_of(choices: Sequence[str], answer: str) -> str:
    """Return the one choice that an answer has, with its letter, "" where it has none or more."""
    items = answer.casefold().split(", ")
    chosen = [
        f"{chr(ord('A') + place)}. {choice}"
        for place, choice in enumerate(choices)
        if choice.casefold() in items or is_on(choice, answer)
    ]
    return chosen[0] if len(chosen) == 1 else ""


def is_on(chromosome: str, answer: str) -> bool:
    """Return whether an answer names a place on a chromosome, given by its number or letter."""
    return any(place["name"] == chromosome for place in _CHROMOSOME.finditer(answer))


def _symbol_of(answer: str, read: str) -> str:
    """Return the symbol of the gene that has the answer among its names, the answer where it is a symbol itself."""
    genes = [found for line in _LINE.finditer(read) if (found := _GENE.search(line["record"]))]
    named = [found["symbol"] for found in genes if answer in (_ALIASES.search(found.string) or ("", ""))[1].split(", ")]
    return named[0] if named and answer not in {found["symbol"] for found in genes} else answer


def _first_field(record: str) -> str:
    """Return what stands before the gene and its type, with semicolons, or else before the first semicolon."""
    found = _BEFORE_GENE.match(record)
    return found["first"] if found else record.partition("; ")[0]


def _copied_whole(answer: str, read: str) -> str:
    """Return the list or the sentence that an answer copies the beginning of, the answer where there is none.

    They are the first field of a record; a list has two items at least, a sentence more words than are compared.
    """
    first, *others = (item.strip() for item in answer.split(","))
    words = answer.split()[:_OPENING_WORDS]
    for line in _LINE.finditer(read):
        field = _first_field(line["record"]).removesuffix("]").strip()
        items = [item.strip() for item in field.split(",")]
        is_list = bool(others) and len(items) > 1 and items[0] == first and not any(" " in item for item in items)
        if is_list or (len(words) == _OPENING_WORDS and field.split()[:_OPENING_WORDS] == words):
            return field
    return answer


@dataclass(frozen=True, slots=True)
class ClonePlace:
    """Hold the chromosome of a clone, as records write it, and the human genes whose records these are."""

    clone: str
    chromosome: str
    symbols: tuple[str, ...]


def place_of_clone(parsed: ParsedQuestion, read: str) -> ClonePlace | None:
    """Return where the clone lies that the gene in a question of its place is named after; None where none follows.

    NCBI has no record of AC018892.8, but finds the other genes of the clone AC018892 by that name, as it is an
    accession with its version. In a reply to this very name, at least two human ones have to be on one chromosome, and
    none on another.
    """
    named = _OF_CLONE.fullmatch(parsed.subject) if parsed.relation == "location" else None
    if named is None or "human" not in parsed.text:
        return None
    headed = rf"^\[\d+ gene records?, 0 human named {re.escape(parsed.subject)}\n(?P<records>[\s\S]+?)(?:\]$|\Z)"
    reply = re.search(headed, read, re.IGNORECASE | re.MULTILINE)
    records = [line["record"] for line in _LINE.finditer(reply["records"])] if reply else []
    genes = {found["symbol"]: _CHROMOSOME.search(record) for record in records if (found := HUMAN_GENE.search(record))}
    places = {place[0] if place else "" for place in genes.values()}
    if len(genes) < _LEAST_ON_CLONE or len(places) > 1 or "" in places:
        return None
    return ClonePlace(named["clone"], places.pop(), tuple(genes))
