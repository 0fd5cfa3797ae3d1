"""List the scores and gap costs that BLAST has statistics for.

Pure functions, no I/O. Source: the lists in blast+'s own error messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Pair = tuple[int, int]  # existence and extension of a gap; or reward and penalty


def _pairs(text: str) -> frozenset[Pair]:
    return frozenset((int(a), int(b)) for a, b in (pair.split(",") for pair in text.split()))


_PROTEIN: Final[Mapping[str, frozenset[Pair]]] = MappingProxyType(
    {
        "BLOSUM45": _pairs("13,3 12,3 11,3 10,3 16,2 15,2 14,2 13,2 12,2 19,1 18,1 17,1 16,1"),
        "BLOSUM50": _pairs("13,3 12,3 11,3 10,3 9,3 16,2 15,2 14,2 13,2 12,2 19,1 18,1 17,1 16,1 15,1"),
        "BLOSUM62": _pairs("11,2 10,2 9,2 8,2 7,2 6,2 13,1 12,1 11,1 10,1 9,1"),
        "BLOSUM80": _pairs("25,2 13,2 9,2 8,2 7,2 6,2 11,1 10,1 9,1"),
        "BLOSUM90": _pairs("9,2 8,2 7,2 6,2 11,1 10,1 9,1"),
        "PAM30": _pairs("7,2 6,2 5,2 10,1 9,1 8,1 15,3 14,2 14,1 13,3"),
        "PAM70": _pairs("8,2 7,2 6,2 11,1 10,1 9,1 11,2 12,3"),
        "PAM250": _pairs("15,3 14,3 13,3 12,3 11,3 17,2 16,2 15,2 14,2 13,2 21,1 20,1 19,1 18,1 17,1"),
    }
)
# By reward and penalty: the listed costs, the least of the "more stringent" ones last.
_NUCLEOTIDE: Final[Mapping[Pair, tuple[Pair, ...]]] = MappingProxyType(
    {
        (1, -2): ((1, 2), (0, 2), (3, 1), (2, 1), (1, 1), (2, 2)),
        (1, -3): ((1, 2), (0, 2), (2, 1), (1, 1), (2, 2)),
        (1, -4): ((1, 2), (0, 2), (2, 1), (1, 1), (2, 2)),
        (1, -5): ((3, 3),),
        (2, -3): ((4, 4), (2, 4), (0, 4), (3, 3), (6, 2), (5, 2), (4, 2), (2, 2), (6, 4)),
        (2, -5): ((2, 4), (0, 4), (4, 2), (2, 2), (4, 4)),
        (2, -7): ((2, 4), (0, 4), (4, 2), (2, 2), (4, 4)),
        (3, -2): ((5, 5),),
        (3, -4): ((6, 3), (5, 3), (4, 3), (6, 2), (5, 2), (4, 2), (6, 3)),
        (4, -5): ((6, 5), (5, 5), (4, 5), (3, 5), (12, 8)),
        (5, -4): ((10, 6), (8, 6), (25, 10)),
        (1, -1): ((3, 2), (2, 2), (1, 2), (0, 2), (4, 1), (3, 1), (2, 1), (4, 2)),
    }
)
_NO_LINEAR: Final = frozenset({(1, -1), (3, -2), (3, -4), (5, -4)})
_USUAL: Final = (5, 2)


def check_protein_costs(matrix: str, costs: Pair | None) -> None:
    """Check that BLAST has statistics for a matrix and gap costs.

    Raises:
        ValueError: the matrix is unknown or has no statistics for these costs; the message is for the user.
    """
    if matrix not in _PROTEIN:
        raise ValueError(f"Error: MATRIX must be one of {', '.join(_PROTEIN)}")
    if costs is not None and costs not in _PROTEIN[matrix]:
        known = ", ".join(f"{a} {b}" for a, b in sorted(_PROTEIN[matrix], reverse=True))
        raise ValueError(f"Error: GAPCOSTS {costs[0]} {costs[1]} are not supported for {matrix}; supported are {known}")


def check_nucleotide_scores(scores: Pair, costs: Pair | None, *, linear: bool) -> Pair | None:
    """Return the gap costs to pass to blast+, None for the program's own.

    ``linear``: the program's own costs are megablast's linear ones.

    Raises:
        ValueError: BLAST has no statistics for the scores or costs; the message is for the user.
    """
    known = _NUCLEOTIDE.get(scores)
    if known is None:
        pairs = ", ".join(f"{a},{b}" for a, b in _NUCLEOTIDE)
        raise ValueError(f"Error: NUCL_REWARD,NUCL_PENALTY {scores[0]},{scores[1]} are not supported; use {pairs}")
    has_own = scores not in _NO_LINEAR if linear else _supported(known, _USUAL)
    if costs is None or (linear and costs == (0, 0)):
        return None if has_own else known[-1]
    if not _supported(known, costs):
        listed = ", ".join(f"{a} {b}" for a, b in dict.fromkeys(known))
        raise ValueError(f"Error: GAPCOSTS {costs[0]} {costs[1]} are not supported; use one of {listed}")
    return costs


def _supported(known: tuple[Pair, ...], costs: Pair) -> bool:
    least = known[-1]
    return costs in known or (costs[0] >= least[0] and costs[1] >= least[1])
