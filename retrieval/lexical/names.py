"""Derive the terms under which other spellings of a biomedical name find it. Pure.

    PD-L1, PDL1             pdl1            all parts of a name of three or more, joined
    NF-κB, NFkB             nfkb            the Latin letter that stands for a Greek one
    TNF-α, TNFA             tnfa
    p.Val600Glu, V600E      v600e           one letter for an amino acid
    microRNA-21, miR-21     mir21
    Hb A1c, HbA1c           hba1c
    p53, TP53               queries alone ask for both

A name is written as the parts (texts, whether each is a number or a Greek letter's name) that ``tokens`` links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

_LONGEST: Final = 8
_LONGEST_WORD: Final = 5
# Letters that gene symbols use in place of Greek ones (TNF-α: TNFA, IFN-γ: IFNG, NF-κB: NFKB).
_LATIN: Final = MappingProxyType(
    {
        "alpha": "a",
        "beta": "b",
        "gamma": "g",
        "delta": "d",
        "epsilon": "e",
        "zeta": "z",
        "kappa": "k",
        "lambda": "l",
        "sigma": "s",
        "theta": "q",
        "omega": "o",
    }
)
_AMINO_ACIDS: Final = MappingProxyType(
    {
        "ala": "a",
        "arg": "r",
        "asn": "n",
        "asp": "d",
        "cys": "c",
        "gln": "q",
        "glu": "e",
        "gly": "g",
        "his": "h",
        "ile": "i",
        "leu": "l",
        "lys": "k",
        "met": "m",
        "phe": "f",
        "pro": "p",
        "ser": "s",
        "thr": "t",
        "trp": "w",
        "tyr": "y",
        "val": "v",
        "ter": "x",
    }
)
_MICRO_RNA: Final = frozenset(("mirna", "microrna", "mirnas", "micrornas"))
# Names of proteins that are commoner than the symbols of their genes (HGNC).
_SAME: Final = (
    ("p53", "tp53"),
    ("her2", "erbb2"),
    ("pdl1", "cd274"),
    ("pd1", "pdcd1"),
    ("p21", "cdkn1a"),
    ("p27", "cdkn1b"),
    ("oct4", "pou5f1"),
    ("cox2", "ptgs2"),
    ("trkb", "ntrk2"),
    ("cd20", "ms4a1"),
    ("bcma", "tnfrsf17"),
    ("rankl", "tnfsf11"),
    ("gcsf", "csf3"),
    ("mcp1", "ccl2"),
    ("sdf1", "cxcl12"),
    ("glut4", "slc2a4"),
    ("sglt2", "slc5a2"),
    ("nav1.7", "scn9a"),
)
ALIASES: Final = MappingProxyType({**dict(_SAME), **{other: one for one, other in _SAME}})


class Part(NamedTuple):
    """Hold one part of a name."""

    text: str
    is_number: bool = False
    is_greek: bool = False


def joined(parts: Sequence[Part]) -> str:
    """Return one term for the parts; digits keep a dot between them, as 15:01 is not 1501."""
    out = parts[0].text if parts else ""
    for one, two in pairwise(parts):
        out += f".{two.text}" if one.is_number and two.is_number else two.text
    return out


def variants(name: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Yield (first part, term) for the other spellings of a name of linked parts.

    Names of letters alone, such as "state-of-the-art", have none: their joins would be many and of no use.
    """
    if not 2 <= len(name) <= _LONGEST or not any(part.is_number or part.is_greek for part in name):
        return
    for start in range(len(name)):
        for size in (2, 3):
            if len(some := name[start : start + size]) == size:
                if size == 3:
                    yield start, joined(some)
                yield from ((start, term) for term in _rewritten(some))
    if len(name) > 3:
        yield 0, joined(name)
        yield from ((0, term) for term in _latin(name))


def _rewritten(parts: Sequence[Part]) -> Iterator[str]:
    yield from _latin(parts)
    first, second = parts[0], parts[1]
    if len(parts) == 2 and first.text in _MICRO_RNA and second.is_number:
        yield f"mir{second.text}"
    if len(parts) == 3 and second.is_number:
        before, after = _AMINO_ACIDS.get(first.text), _AMINO_ACIDS.get(parts[2].text)
        if before and after:
            yield f"{before}{second.text}{after}"


def _latin(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the symbol with Latin letters for the Greek ones behind its beginning."""
    if parts[0].is_greek or not any(part.text in _LATIN for part in parts if part.is_greek):
        return
    if all(part.is_greek or part.is_number or len(part.text) <= _LONGEST_WORD for part in parts):
        term = joined([Part(_LATIN.get(part.text, part.text) if part.is_greek else part.text) for part in parts])
        if len(term) > 2:
            yield term
