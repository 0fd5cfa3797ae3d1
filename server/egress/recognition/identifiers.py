"""Recognize identifiers: of a database's exact shape, in its range, few in a call.

The ranges end above our estimate of the highest number that the database had assigned in November 2026 (NCBI publishes
no table), so they need raising every few years; a too new record is refused, never the reverse. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from server.egress.recognition.verdict import Recognized, refuse

# The examples in the prompts ask for 5 records at a time. Ten PubMed ids can carry 10 * log2(44,000,000) = 254 bits,
# which is why there are not more.
MAX_IDS: Final = 10
_DECIMAL: Final = re.compile(r"[1-9][0-9]{0,9}")
_VERSION: Final = r"\.(?:[1-9][0-9]?)"

# Entrez's record numbers, first and last of each span.
NUMBERS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "pubmed": ((1, 44_000_000),),
    "pmc": ((13_900, 14_500_000),),
    "gene": ((1, 150_000_000),),
    "snp": ((1, 2_300_000_000),),
    "clinvar": ((2, 5_500_000),),
    "taxonomy": ((1, 3_900_000),),
    "medgen": ((1, 2_000_000),),
    "omim": (
        (100_050, 195_999),
        (200_100, 279_999),
        (300_000, 319_999),
        (400_000, 489_999),
        (500_000, 598_999),
        (600_000, 624_999),
    ),
}


@dataclass(frozen=True, slots=True)
class Accession:
    """Describe one shape of accession: ``prefix``, exactly ``digits`` digits of at most ``last``, ``suffix``."""

    prefix: str
    digits: int
    last: int
    suffix: str = ""

    def fits(self, text: str) -> bool:
        found = re.fullmatch(rf"{self.prefix}([0-9]{{{self.digits}}}){self.suffix}", text)
        return found is not None and 0 < int(found[1]) <= self.last


_REFSEQ_DNA: Final = (
    *(Accession(f"{name}_", 6, 999_999, _VERSION) for name in ("NM", "NR", "NG", "NC", "NT", "XM", "XR", "AC")),
    *(Accession(f"{name}_", 9, 9_999_999, _VERSION) for name in ("NM", "NR")),
    *(Accession(f"{name}_", 9, 80_000_000, _VERSION) for name in ("XM", "XR", "NW")),
)
_REFSEQ_PROTEIN: Final = (
    *(Accession(f"{name}_", 6, 999_999, _VERSION) for name in ("NP", "XP", "YP", "AP")),
    Accession("NP_", 9, 9_999_999, _VERSION),
    Accession("XP_", 9, 80_000_000, _VERSION),
    Accession("YP_", 9, 20_000_000, _VERSION),
    Accession("WP_", 9, 500_000_000, _VERSION),
)
_ENSEMBL: Final = (
    Accession("ENSG", 11, 400_000),
    Accession("ENST", 11, 1_200_000),
    Accession("ENSP", 11, 1_000_000),
    *(Accession(f"ENS{species}{kind}", 11, 400_000) for species in ("MUS", "RNO", "DAR") for kind in "GTP"),
)
_CLINVAR: Final = (
    Accession("VCV", 9, 5_500_000, f"(?:{_VERSION})?"),
    Accession("RCV", 9, 7_500_000, f"(?:{_VERSION})?"),
)
# What the parameter ``id`` takes beside numbers, by database.
ACCESSIONS: Final[Mapping[str, tuple[Accession, ...]]] = {
    "nuccore": _REFSEQ_DNA,
    "protein": _REFSEQ_PROTEIN,
    "clinvar": _CLINVAR,
}
# What a search takes, by the field's kind of number; "" is a word without a field.
_PREFIXED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "snp": (("rs", "snp"),),
    "pmc": (("PMC", "pmc"),),
    "taxonomy": (("txid", "taxonomy"),),
    "": (("rs", "snp"), ("PMC", "pmc")),
}
_WORDS: Final[Mapping[str, tuple[Accession, ...]]] = {
    "accession": (*_REFSEQ_DNA, *_REFSEQ_PROTEIN),
    "": (*_REFSEQ_DNA, *_REFSEQ_PROTEIN, *_ENSEMBL, *_CLINVAR),
}


def in_range(db: str, text: str) -> bool:
    """Return whether the text is a number of the database, in decimal form without sign or leading zeros."""
    if _DECIMAL.fullmatch(text) is None:
        return False
    return any(first <= int(text) <= last for first, last in NUMBERS.get(db, ()))


def is_identifier(word: str, kind: str = "") -> bool:
    """Return whether a word of a search is an identifier of ``kind``: a database, "accession", or "" for any.

    Without a kind a bare number is none, as it can be anyone's.
    """
    if kind and in_range(kind, word):
        return True
    for prefix, db in _PREFIXED.get(kind, ()):
        if word.startswith(prefix) and in_range(db, word.removeprefix(prefix)):
            return True
    return any(shape.fits(word) for shape in _WORDS.get(kind, ()))


def recognize_ids(db: str, value: str) -> Recognized:
    """Return the list of ids of a call.

    Raises:
        NotRecognized: one of them is none, or they are too many, or repeated.
    """
    ids = value.split(",")
    if len(ids) > MAX_IDS:
        raise refuse("id", "identifier", f"more than {MAX_IDS} ids", f"ask for at most {MAX_IDS} records a call")
    if len(set(ids)) != len(ids):
        raise refuse("id", "identifier", "an id occurs twice", "name each record once")
    shapes = ACCESSIONS.get(db, ())
    if not all(in_range(db, one) or any(shape.fits(one) for shape in shapes) for one in ids):
        remedy = (
            "use RefSeq accessions with their version" if db in ("nuccore", "protein") else "use its record numbers"
        )
        raise refuse("id", "identifier", f"an id is none that {db} has", remedy)
    return Recognized(value, frozenset({"id"}))
