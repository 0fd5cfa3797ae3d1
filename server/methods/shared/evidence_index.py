"""Find the identifiers and numbers of a text, and look them up in other texts. Pure.

Looked up are what a reader takes for a fact of a record: numbers, with their units, p-values, gene symbols, rs numbers,
accessions, variants, positions, article numbers and addresses. Counts up to ten, list markers, citation markers and
abbreviations of everyday medicine are not.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from server.methods.shared.identifiers import EVERYDAY, Identifier, forms, plain, stands

_MAX_SMALL: Final = 10
_UNITS: Final = (
    r"%|percent|per\s+cent|[munpµμk]?g(?:/(?:kg|d[lL]?|day|m[lL]|[lL]|h|m2))?|mcg|[munµμ]?[lL]|d[lL]|[munpµμ]?[mM]ol(?:/[lL])?|"
    r"[munµμ]?M|IU(?:/[mk]?[lLg])?|U(?:/[lL])?|mEq|mmHg|kDa|Da|bp|[kM]b|Gy|[kM]?Hz|k?cal|kJ|[munckµμ]?m|°?C|K|"
    r"years?|months?|weeks?|days?|hours?|h|minutes?|min|seconds?|s|fold|patients?|participants?"
)
_NUMBER: Final = r"\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.\d+|\.\d+|\d+"
_KINDS: Final = (
    ("url", r"https?://[^\s<>\"'\])]+"),
    ("doi", r"\b10\.\d{4,9}/[^\s<>\"'\]),;]+"),
    (
        "p_value",
        rf"\b[pP]\s?(?:-?\s?values?\s?)?(?:[=<>≤≥]|of|is)\s?(?:{_NUMBER})(?:\s?[eE][-−]?\d+|\s?[×x]\s?10\^?[-−]?\d+)?",
    ),
    ("article", r"\b(?:PMID|PMCID|PMC|NCT|OMIM|MIM)(?:\s?:\s?|\s)?(?:PMC)?\d{3,9}\b"),
    ("term", r"\b(?:DOID|GO|HP|MONDO|CHEBI|UBERON|MESH|HGNC|EFO|ORPHA|ORPHANET|CL|DrugBank):\s?[A-Z]{0,2}\d+\b"),
    ("variant", r"\b[cgpmnr]\.[A-Za-z0-9_>+*()=\-]*\d[A-Za-z0-9_>+*()=\-]*(?!\w)"),
    ("position", r"\b(?:chr|[cC]hromosome\s)(?:\d{1,2}|[XYM]|MT)(?::\d[\d,]*(?:[-–]\d[\d,]*)?)?(?![\w:])"),
    (
        "band",
        r"(?<![\w.])(?:chr)?(?:\d{1,2}|[XY])[pq](?:\d{1,2}(?:\.\d{1,3})?|ter)(?:[-–][pq]?(?:\d{1,2}(?:\.\d{1,3})?|ter))?(?![\w])",
    ),
    ("symbol", r"(?<![\w/])[A-Za-z][A-Za-z0-9]*(?:_\d+(?:\.\d+)?|[-‐–][A-Za-z0-9]+|\.\d{1,2}(?=\b))*(?![\w])"),
    ("number", rf"(?<![\w.,/])(?:{_NUMBER})(?:\s?(?:e|E)[-−]?\d+)?(?:\s?(?:{_UNITS})(?![\w]))?(?![\w])"),
)
_PATTERN: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS))
_LIST_MARKER: Final = re.compile(
    r"(?:^|\n)[ \t]*(?:\d{1,3}[.)](?=\s)|\[\d{1,3}(?:\s?[,;]\s?\d{1,3})*\])|\[\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*\]"
)
_SYMBOL: Final = re.compile(
    r"(?=.*[A-Z].*[A-Z])(?=.*\d)[A-Za-z0-9_.\-‐–]+|[A-Z]{3,8}(?:[-‐–][A-Z0-9]+)*|rs\d{2,12}|[A-Z]\d{1,5}[A-Z]?|p\d{2}|mi[rR]-?\d+\w*|C\d+orf\d+"
)
_ROMAN: Final = re.compile(r"[IVX]+")
_CHROMOSOMES: Final = re.compile(
    r"(?:chr|chromosomes?\W{1,4})(\d{1,2}|x|y|mt?)(?![a-z0-9])|(?<![\w.])(\d{1,2}|x|y)[pq](?:\d|ter)|nc_0000(\d\d)"
)
_MEASURED: Final = re.compile(
    rf"(?<![\w.])({_NUMBER})(?:\s?(?:e|[×x]\s?10\^?)(-?\d{{1,3}}))?(?:\s?-?({_UNITS}))?(?!\w)",
    re.IGNORECASE,
)
_RANGE: Final = re.compile(
    rf"({_NUMBER})(?=\s?(?:-|to|and|or|,|/|±)\s?(?:{_NUMBER})\s?({_UNITS})(?![\w]))", re.IGNORECASE
)
_UNIT_NAMES: Final = {"percent": "%", "per cent": "%", "mcg": "ug", "μg": "ug", "µg": "ug"}


def identifiers_in(text: str) -> Iterator[Identifier]:
    """Yield the identifiers and numbers that have to stand in a source, in order, without overlaps."""
    skipped = [found.span() for found in _LIST_MARKER.finditer(text)]
    starts = [start for start, _ in skipped]
    for found in _PATTERN.finditer(text):
        kind, word = str(found.lastgroup), found[0]
        before = bisect_left(starts, found.end()) - 1
        if before >= 0 and found.start() < skipped[before][1] and kind == "number":
            continue
        if kind in ("url", "doi"):
            word = word.rstrip(".,;:")
        if _is_checked(kind, word):
            yield Identifier(word, kind, found.start(), found.start() + len(word))


def _is_checked(kind: str, word: str) -> bool:
    if kind == "symbol":
        is_symbol = _SYMBOL.fullmatch(word) is not None and not _ROMAN.fullmatch(word)
        return is_symbol and word.upper() not in EVERYDAY
    if kind == "number" and word.isdecimal():
        return int(word) > _MAX_SMALL if len(word) < 9 else True
    return True


class EvidenceIndex:
    """Look up identifiers in texts, in any case, hyphenation and number format."""

    def __init__(self) -> None:
        self._text = "\n"
        self._numbers: set[tuple[float, str]] = set()
        self._chromosomes: set[str] = set()

    def add(self, text: str) -> None:
        compared = plain(text)
        self._text += f"{compared}\n"
        self._chromosomes.update(
            next(filter(None, one.groups())).lstrip("0") for one in _CHROMOSOMES.finditer(compared)
        )
        for found in _MEASURED.finditer(compared):
            value = float(found[1].replace(",", ""))
            self._numbers.add((float(f"{value}e{found[2]}") if found[2] else value, _unit(found[3] or "")))
        # A list of ids without spaces looks like one number with separators, so its parts count as well.
        for number in (*re.finditer(_NUMBER, compared), *re.finditer(r"\d+", text)):
            self._numbers.add((float(number[0].replace(",", "")), ""))
        for number in _RANGE.finditer(compared):
            self._numbers.add((float(number[1].replace(",", "")), _unit(number[2])))

    def has(self, identifier: Identifier) -> bool:
        match identifier.kind:
            case "number" | "p_value":
                return all(value in self._numbers for value in _values(identifier.text))
            case "position":
                return self._has_position(plain(identifier.text))
            case _:
                return any(stands(form, self._text) for form in forms(plain(identifier.text), identifier.kind))

    def _has_position(self, text: str) -> bool:
        chromosome, _, place = re.sub(r"^(?:chromosome\s|chr)", "", text).partition(":")
        ends = [float(end) for end in place.split("-") if end]
        return chromosome in self._chromosomes and all((end, "") in self._numbers for end in ends)


def _values(text: str) -> list[tuple[float, str]]:
    """Return the numbers of a text with their units, "" for none."""
    compared = re.sub(r"\s?[×x]\s?10\^?(-?\d+)", r"e\1", plain(text))
    found = re.search(rf"({_NUMBER})(?:\s?e(-?\d+))?\s?(.*)$", compared)
    if found is None:
        return []
    number = found[1].replace(",", "")
    value = float(f"{number}e{found[2]}") if found[2] else float(number)
    return [(value, _unit(found[3]))]


def _unit(text: str) -> str:
    unit = " ".join(text.split()).casefold()
    unit = _UNIT_NAMES.get(unit, unit).replace("μ", "u").replace("µ", "u")
    return unit.rstrip("s") if len(unit) > 2 else unit
