"""Find the identifiers of a text, and look them up in other texts. Pure.

Looked up are what a reader takes for a fact of a record: gene symbols, rs numbers, accessions, variants, bands,
positions, article numbers and addresses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from retrieval.formats.notation import typed_powers

_BAND: Final = r"(?:\d{1,2}(?:\.\d{1,3})?|ter|cen)"
_PLACE: Final = r"\d[\d,]*(?:[-–]\d[\d,]*)?"
_PART: Final = r"[-‐–][A-Za-z0-9α-ω]+|_\d+(?:\.\d+)?|\.\d{1,2}(?=\b)"
_KINDS: Final = (
    ("url", r"https?://[^\s<>\"'\])]+"),
    ("doi", r"\b10\.\d{4,9}/[^\s<>\"'\]),;]+"),
    ("article", r"\b(?:PM(?:ID|CID|C)|NCT|O?MIM|ISRCTN)\s?:?\s?(?:PMC)?\d{3,9}\b|\bEudraCT[\s:]+[\d-]{12,14}\b"),
    ("term", r"\b(?:DOID|GO|HP|MONDO|CHEBI|UBERON|MESH|HGNC|EFO|ORPHA|ORPHANET|CL|DrugBank):\s?[A-Z]{0,2}\d+\b"),
    # Its number is read behind it.
    ("id", r"(?<![\w-])(?:[iI][dD]s?|(?:[Gg]ene|Entrez)(?:[ -][iI][dD])?)(?:[\s*_`:=#]|ist?|est?){1,6}(?=\d{2,10}\b)"),
    ("variant", r"\b[cgpmnr]\.[A-Za-z0-9_>+*()=\-]*\d[A-Za-z0-9_>+*()=\-]*(?!\w)"),
    ("position", rf"\b(?:chr|(?:[cC]h?romosom[ae]?[ns]?)\s)(?:\d{{1,2}}|[XYM]|MT)(?::{_PLACE})?(?![\w:])"),
    ("band", rf"(?<![\w.])(?:chr)?(?:\d{{1,2}}|[XY])[pq]{_BAND}(?:[-–](?:\d{{1,2}}|[XY])?[pq]?{_BAND})?(?![\w])"),
    ("symbol", rf"(?<![\w/])(?:\d(?=[A-Z]{{2}}))?[A-Za-zα-ω][A-Za-z0-9α-ω]*(?:{_PART})*(?![\w])"),
)  # fmt: skip
_PATTERN: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS))
_SYMBOL: Final = re.compile(
    r"(?=.*[A-Z].*[A-Z])(?=.*\d)[A-Za-z0-9_.\-‐–]+|[A-Z]{3,8}(?:[-‐–][A-Z0-9]+)*|rs\d{2,12}|[A-Z]\d{1,5}[A-Z]?|"
    r"p\d{2}|mi[rR]-?\d+\w*|C\d+orf\d+|[A-Z]{2,8}s"
)
_ROMAN: Final = re.compile(r"[IVX]+")
# A symbol that says nothing of what it is: letters alone, a hormone, a vitamin, a type ("T4", "T2D"), or one with small
# letters, which those of human genes do not have ("HbA1c", "CRISPR-Cas9").
_COMMON: Final = re.compile(r"\D+|[A-Z]\d[A-Z]?|(?!C\d+orf|rs\d|mi[rR]|p\d).*[a-z].*")
_DASHES: Final = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
_THOUSANDS: Final = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_CHROMOSOMES: Final = re.compile(
    r"(?:chr|chromosome?[ns]?\W{1,4}|cromosomas?\W{1,4})(\d{1,2}|x|y|mt?)(?![a-z0-9])|"
    r"(?<![\w.])(\d{1,2}|x|y)[pq](?:\d|ter)|nc_0000(\d\d)"
)
# Abbreviations that stand for no record, and words that stand in capitals.
_EVERYDAY_TEXT: Final = (
    "DNA RNA CDNA MRNA TRNA RRNA PCR SNP SNPS NCBI OMIM BLAST PMID DOI WHO FDA EMA NIH CDC USA GWAS MRI "
    "ECG EEG ICU BMI AIDS HIV COPD ADHD PTSD RCT RCTS TLDR FAQ PDF XML JSON HTML URL API YES NOT AND THE "
    "FOR ALL NONE NOTE ANSWER TRUE FALSE HGNC HGVS GRCH38 GRCH37 HG38 HG19 COVID-19 SARS-COV-2 B12 H2O "
    "CO2"
)
EVERYDAY: Final = frozenset(_EVERYDAY_TEXT.split())
_SHORT_FORMS: Final = (
    "BID TID QID TDS QDS NNT NNH ARR RRR IQR SEM PO4 SO4 NH3 NH4 NO2 NO3 N2O O2 LN2 HCO3 NAHCO3 H2O2 CACL2 CACO3 MGSO4"
)
_NO_RECORDS: Final = EVERYDAY.union(_SHORT_FORMS.split())
# A whole number, also of a list of ids without spaces, but not of a decimal number.
INTEGER: Final = re.compile(r"(?<![\d.])\d+(?!\d|\.\d)")
# Not the mark of a citation or of a list, nor a part of a name.
_NUMBER: Final = re.compile(r"(?<![\w.,\[/-])\d[\d.,]*\d(?:[eE]-?\d+)?%?(?![\w\]])")
_DIGITS: Final = re.compile(r"\d+")
_TOKEN: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Identifier:
    """Hold one identifier of a text, with its place there."""

    text: str
    kind: str
    start: int
    end: int


def identifiers_in(text: str) -> Iterator[Identifier]:
    """Yield the identifiers that have to stand in a source, in order, without overlaps."""
    place = 0
    while found := _PATTERN.search(text, place):
        kind, word, start, place = str(found.lastgroup), found[0], found.start(), found.end()
        if kind in ("url", "doi"):
            word = word.rstrip(".,;:!?")
        if kind == "variant":  # without the signs of markup and of a parenthesis around it
            word = re.sub(r"(?:\*\*)+$", "", word)
            word = word.rstrip(")") if word.count(")") > word.count("(") else word
        if kind == "id":
            number = _DIGITS.match(text, found.end())
            if number is not None:
                word, start, place = number[0], number.start(), number.end()
        if kind != "symbol" or is_symbol(word):
            yield Identifier(word, kind, start, start + len(word))


def numbers_and_identifiers(text: str) -> list[str]:
    """Return the identifiers of a text and its numbers of two digits and more, in order, as they stand there."""
    found = {one.start: one for one in identifiers_in(text)}
    ends = [(one.start, one.end) for one in found.values()]
    spans = [(number.start(), number[0]) for number in _NUMBER.finditer(text)]
    numbers = {start: word for start, word in spans if not any(low <= start < high for low, high in ends)}
    texts = {start: one.text for start, one in found.items()} | numbers
    return [texts[start] for start in sorted(texts)]


def is_symbol(word: str) -> bool:
    return _SYMBOL.fullmatch(word) is not None and not _ROMAN.fullmatch(word) and word.upper() not in _NO_RECORDS


def is_common(one: Identifier) -> bool:
    """Return whether an identifier is a symbol of a form that most abbreviations have."""
    return one.kind == "symbol" and _COMMON.fullmatch(one.text) is not None


@lru_cache(maxsize=256)
def plain(text: str) -> str:
    """Return the text as identifiers are compared: one case, plain dashes, no separators of thousands."""
    text = unicodedata.normalize("NFKC", typed_powers(text)).translate(_DASHES).casefold()
    return _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)


def tokens_of(text: str) -> list[str]:
    """Return the words of a text, of letters and digits, in one case."""
    return _TOKEN.findall(plain(text))


class IdentifierIndex:
    """Look up the identifiers of one text, in any case, hyphenation and number format."""

    def __init__(self, text: str) -> None:
        self._text = f"\n{plain(text)}\n"
        self._joined = self._text.replace("-", "")
        words = (word for word in _TOKEN.findall(self._text) if not word.isdecimal())
        self._words = frozenset((*words, *INTEGER.findall(text), *INTEGER.findall(self._text)))
        found = (next(filter(None, one.groups())) for one in _CHROMOSOMES.finditer(self._text))
        self._chromosomes = frozenset(name.lstrip("0") for name in found)

    @property
    def words(self) -> frozenset[str]:
        return self._words

    def has(self, identifier: Identifier) -> bool:
        text = plain(identifier.text)
        if identifier.kind == "position":
            return self._has_position(text)
        if identifier.kind == "id":
            return identifier.text in self._words
        if identifier.kind == "band" and re.search(
            rf"(?<![^\W_]){re.escape(text.removeprefix('chr'))}\.\d", self._text
        ):
            return True  # a band holds its sub-bands
        if any(self.has_phrase(form) for form in forms(text, identifier.kind)):
            return True
        if re.fullmatch(r"[A-Z]\d{2,4}", identifier.text) and text[1:] in self._words:
            return True  # an absorbance, a dilution, a day ("A595", "D28")
        parts = text.split("-") if identifier.kind == "symbol" else []
        return len(parts) > 1 and all(len(part) > 1 and self.has_phrase(part) for part in parts)

    def has_phrase(self, form: str) -> bool:
        """Return whether a form stands in the text between other characters than letters and digits."""
        return bool(form) and (stands(form, self._text) or stands(form, self._joined))

    def _has_position(self, text: str) -> bool:
        chromosome, _, place = re.sub(r"^(?:chromosome?[ns]?\s|cromosomas?\s|chr)", "", text).partition(":")
        return chromosome in self._chromosomes and all(end in self._words for end in place.split("-") if end)


def stands(form: str, text: str) -> bool:
    """Return whether a form stands in a text, which blanks surround, between other signs than letters and digits."""
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if not text[start - 1].isalnum() and not text[end].isalnum():
            return True
        start = text.find(form, start + 1)
    return False


def forms(text: str, kind: str) -> Iterator[str]:
    """Yield the spellings that an identifier in ``plain`` form may have in a source."""
    yield text
    if kind == "symbol":
        yield text.replace("-", "")
        # A version, a copy number or a plural does not make another record.
        yield re.sub(r"(?:\.\d{1,2}|s)$", "", text)
        if re.fullmatch(r"rs\d{4,12}", text):
            yield text[2:]
    if kind in ("article", "term"):
        yield re.sub(r"[\s:]", "", text)
        yield re.sub(r"^\D+", "", text)
    if kind == "band":
        yield text.removeprefix("chr")
