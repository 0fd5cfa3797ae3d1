"""Recognise the shapes of values: an id, a gene symbol, a genomic position or a sequence.

Pure; knows no calls. A shape says what a text could be, not what it is: a hospital's record number can look like a
PubMed id, a surname in capitals like a symbol. If a text could be two things, the more sensitive one applies. Sources:
NCBI's accession formats, the HGVS nomenclature, HGNC's guidelines for symbols.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MIN_BASES: Final = 20
# A word of only bases with this length is no symbol; the call table accepts it as a BLAST query.
_MIN_BASES_OF_A_WORD: Final = 10
# Symbols without a digit are short; a longer word in capitals may be a peptide.
_MAX_SYMBOL_LETTERS: Final = 10
_MAX_SYMBOL_CHARS: Final = 16

_BASES: Final = re.compile(rf"[ACGTUN]{{{MIN_BASES},}}", re.IGNORECASE)
# With ambiguity codes for bases, and with one-letter codes for amino acids.
_AMBIGUOUS: Final = re.compile(rf"[ACGTUNRYSWKMBDHV]{{{MIN_BASES},}}|[A-Z*]{{{MIN_BASES},}}")
_LETTERS: Final = re.compile(r"[A-Za-z]+")
_ONLY_BASES: Final = re.compile(r"[ACGTUN]+", re.IGNORECASE)

_CHROMOSOME: Final = r"(?:[0-9]{1,2}|X|Y|MT?)"
_AMINO: Final = "(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val|Ter|Sec)"
_PLACES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # chr1:123-456, chr7 117559590, chromosome X position 1,000,000
        rf"chr(?:omosome|om)?[\s_.]*{_CHROMOSOME}\s*:\s*[0-9]",
        rf"chr(?:omosome|om)?[\s_.]*{_CHROMOSOME}[\s:_.,;-]+(?:position\s+|pos\s+|at\s+)?[0-9][0-9,]{{3,}}",
        # 16:89919709, NC_000001.11:12345
        rf"(?<![A-Za-z0-9]){_CHROMOSOME}\s*:\s*[0-9][0-9,]{{2,}}",
        r"(?<![A-Za-z])[A-Z]{1,4}_?[0-9]{5,}(?:\.[0-9]+)?\s*:",
        # 1-12345-A-G
        rf"(?<![A-Za-z0-9]){_CHROMOSOME}[-_][0-9]{{3,}}[-_][ACGTN*-]+",
        # NM_000492.3:c.350G>A, c.68-7T>A, p.Arg117His, R117H after p.
        r"(?<![A-Za-z0-9])[cgmnor]\.\(?[-*]?[0-9]",
        rf"(?<![A-Za-z])p\.\(?(?:{_AMINO}|[A-Z*])[0-9]",
        rf"(?<![A-Za-z]){_AMINO}[0-9]+(?:{_AMINO}|\*|=|fs|del|dup|ins)",
        r"(?<![A-Za-z0-9])[0-9]+(?:[+-][0-9]+)?[ACGT]+\s*>\s*[ACGT]+",
        # 117559590-117559600, 1,000,000..2,000,000
        r"(?<![0-9])[0-9][0-9,]{3,}\s*(?:-|–|\.\.|:|\bto\b)\s*[0-9][0-9,]{3,}",
        # 17q21.31, Xp22.3
        r"(?<![A-Za-z0-9])(?:[0-9]{1,2}|X|Y)[pq][0-9]{1,2}(?:\.[0-9]{1,3})?(?![0-9A-Za-z])",
    )
)
_VARIANT: Final = re.compile(r"[ACDEFGHIKLMNPQRSTVWY][0-9]{2,5}(?:[ACDEFGHIKLMNPQRSTVWY*X]|fs|del|dup)", re.IGNORECASE)

_IDENTIFIER: Final = re.compile(
    r"rs[0-9]{1,10}"
    r"|(?:A[CP]|N[CGMPRTWZ]|WP|X[MPR]|YP)_[0-9]{6,9}(?:\.[0-9]{1,3})?"  # RefSeq
    r"|(?:NZ_)?[A-Z]{4,6}[0-9]{8,11}(?:\.[0-9]{1,3})?"  # whole-genome shotgun
    r"|(?:[A-Z][0-9]{5}|[A-Z]{2}(?:[0-9]{6}|[0-9]{8})|[A-Z]{3}(?:[0-9]{5}|[0-9]{7}))\.[0-9]{1,3}"  # GenBank
    r"|[A-Z]{2}(?:[0-9]{6}|[0-9]{8})|[A-Z]{3}[0-9]{7}"
    r"|ENS[A-Z]{0,4}[EGPT][0-9]{11}(?:\.[0-9]{1,3})?"
    r"|PMC[0-9]{1,8}|NCT[0-9]{8}|[RSV]CV[0-9]{9}(?:\.[0-9]{1,3})?|CN?[0-9]{6,7}|txid[0-9]{1,8}"
    r"|(?:HGNC|MIM|OMIM|PMID|GeneID|Gene ID):\s?[0-9]{1,8}|(?:GO|HP|MONDO|DOID):[0-9]{4,7}",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9]*(?:[-.][A-Z0-9]+){0,3}")
_WITH_DIGIT: Final = re.compile(r"[A-Za-z]{1,8}[0-9][A-Za-z0-9]{0,9}(?:[-.][A-Za-z0-9]{1,6}){0,2}")
_READING_FRAME: Final = re.compile(r"C(?:[0-9]{1,2}|X|Y)orf[0-9]{1,4}", re.IGNORECASE)
_LOOSE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-.@][A-Za-z0-9]+){0,3}")
_CHROMOSOME_NAME: Final = re.compile(rf"(?:chr)?(?:{_CHROMOSOME}|Un|unknown)", re.IGNORECASE)
_DATE: Final = r"[0-9]{4}(?:[/-][0-9]{1,2}){0,2}"
_DATES: Final = re.compile(rf"{_DATE}(?:\s*:\s*{_DATE})?")


def folded(text: str) -> str:
    """Return the normalized text for the checks, with plain characters for full-width and other compatible ones."""
    return unicodedata.normalize("NFKC", text)


def holds_sequence(text: str) -> bool:
    """Return whether 20 bases or residues occur in a row.

    Spaces, digits or hyphens may separate blocks of bases.
    """
    if _BASES.search(text) or _AMBIGUOUS.search(text):
        return True
    run = 0
    for letters in _LETTERS.findall(text):
        if not _ONLY_BASES.fullmatch(letters):
            run = 0
        elif len(letters) >= _MIN_BASES_OF_A_WORD:
            return True
        else:
            run += len(letters)
        if run >= MIN_BASES:
            return True
    return False


def holds_place(text: str) -> bool:
    """Return whether the text has a position or range in a genome, transcript or protein, a band, or a variant."""
    return any(pattern.search(text) for pattern in _PLACES)


def is_variant(word: str) -> bool:
    """Return whether the word is a variant by position (V600E, C677T); some symbols look the same (F11R)."""
    return _VARIANT.fullmatch(word) is not None


def is_identifier(word: str) -> bool:
    """Return whether the word is an accession or a number with the prefix of its database."""
    return _IDENTIFIER.fullmatch(word) is not None


def is_number(word: str) -> bool:
    """Return whether the word is a bare number of at most the length of NCBI's ids."""
    return _NUMBER.fullmatch(word) is not None


def is_symbol(word: str, *, tagged: bool = False) -> bool:
    """Return whether the word is written like a symbol: in capitals, or with a digit.

    ``tagged``: it is in a field for symbols, so its spelling carries no information.
    """
    word = word.removesuffix("*")
    if not 2 <= len(word) <= _MAX_SYMBOL_CHARS or holds_sequence(word):
        return False
    if tagged:
        return _LOOSE.fullmatch(word) is not None
    if not any(letter.isdigit() for letter in word) and len(word) > _MAX_SYMBOL_LETTERS:
        return False
    return any(pattern.fullmatch(word) for pattern in (_CAPITALS, _WITH_DIGIT, _READING_FRAME))


def is_chromosome(word: str) -> bool:
    return _CHROMOSOME_NAME.fullmatch(word) is not None


def is_date(text: str) -> bool:
    """Return whether the text is a year, month or day, or a range of them."""
    return _DATES.fullmatch(text.strip()) is not None
