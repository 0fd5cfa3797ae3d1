"""Parse ENTREZ_QUERY as far as a BLAST database supports it: organisms by NCBI Taxonomy ID.

Pure functions, no I/O. Accepted are ``txid9606[ORGN]`` and ``Homo sapiens[Organism]``, joined by OR, or excluded with
NOT. Everything else is rejected: a restriction that is silently dropped makes the result look like an answer to
another question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_FIELD: Final = r"\[\s*(?:organism|orgn|porgn|primary organism)(?::[^\]]*)?\s*\]"
_TERM: Final = re.compile(rf'\s*"?\s*(txid\d{{1,9}}|[A-Za-z][^"\[\]]*?)\s*"?\s*{_FIELD}\s*', re.IGNORECASE)
# The ID identifies the organism; the text before it must be a name only, without operators.
_PORGN: Final = re.compile(
    r"""(?:"[^"\[\]]*" ?|(?:(?!\b(?:AND|NOT)\b)[^"\[\]])*)\[ ?porgn:__txid(\d{1,9}) ?\]""", re.IGNORECASE
)
_EVERYTHING: Final = re.compile(r"\s*\(?\s*all\s*\[\s*filter\s*\]\s*\)?\s*(?=NOT\b)", re.IGNORECASE)
_MOST: Final = 50
# IDs of NCBI Taxonomy.
_TAXIDS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "homo sapiens": 9606, "human": 9606, "mus musculus": 10090, "mouse": 10090, "house mouse": 10090,
        "rattus norvegicus": 10116, "rat": 10116, "norway rat": 10116, "danio rerio": 7955, "zebrafish": 7955,
        "caenorhabditis elegans": 6239, "saccharomyces cerevisiae": 4932, "gallus gallus": 9031, "chicken": 9031,
        "drosophila melanogaster": 7227, "fruit fly": 7227, "bos taurus": 9913, "cattle": 9913, "sus scrofa": 9823,
        "pig": 9823, "canis lupus": 9612, "canis lupus familiaris": 9615, "dog": 9615, "pan troglodytes": 9598,
        "chimpanzee": 9598, "macaca mulatta": 9544, "rhesus monkey": 9544, "xenopus laevis": 8355,
        "xenopus tropicalis": 8364, "arabidopsis thaliana": 3702, "schizosaccharomyces pombe": 4896,
        "oryctolagus cuniculus": 9986, "rabbit": 9986, "ovis aries": 9940, "sheep": 9940, "equus caballus": 9796,
        "horse": 9796, "felis catus": 9685, "cat": 9685, "escherichia coli": 562, "e. coli": 562,
    }
)  # fmt: skip

TaxidOf = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class OrganismLimit:
    """Restrict a search to these organisms, or with ``excluded`` to all others; no ``taxids``: no restriction."""

    taxids: tuple[int, ...] = ()
    excluded: bool = False


def known_taxid(name: str) -> int | None:
    """Return the taxonomy ID of a frequently searched organism, by its scientific or everyday name."""
    return _TAXIDS.get(" ".join(name.lower().split()))


def organism_limit(text: str, taxid_of: TaxidOf = known_taxid) -> OrganismLimit:
    """Parse ENTREZ_QUERY into a restriction.

    Raises:
        ValueError: ``text`` restricts by anything but organisms, or names an unknown one or too many; the message is
            for the user.
    """
    query = " ".join(text.split())  # the patterns below are slow in long runs of blanks
    if query.lower() in ("", "(none)", "none", "all[filter]", "all [filter]"):
        return OrganismLimit()
    rest = _EVERYTHING.sub("", query)
    left_out = re.match(r"NOT\b", rest, re.IGNORECASE)
    # After NOT only parenthesized groups are split: Entrez applies operators left to right, "NOT a OR b" includes b.
    groups = re.split(r"\bNOT\b", rest, flags=re.IGNORECASE)[1:] if left_out else [f"({_without_brackets(rest)})"]
    terms = [term for group in groups for term in _alternatives(group.strip())]
    if len(terms) > _MOST:
        raise ValueError(f"Error: ENTREZ_QUERY names {len(terms)} organisms, {_MOST} are allowed")
    return OrganismLimit(tuple(dict.fromkeys(_taxid(term, taxid_of) for term in terms)), left_out is not None)


def _alternatives(group: str) -> list[str]:
    inner = _without_brackets(group)
    return [inner] if inner == group else re.split(r"\bOR\b", inner, flags=re.IGNORECASE)


def _without_brackets(text: str) -> str:
    inner = text[1:-1]
    return inner if text.startswith("(") and text.endswith(")") and "(" not in inner and ")" not in inner else text


def _taxid(part: str, taxid_of: TaxidOf) -> int:
    bare = _without_brackets(part.strip()).strip()
    if named := _PORGN.fullmatch(bare):
        return int(named[1])
    term = _TERM.fullmatch(bare)
    if term is None:
        raise ValueError(
            "Error: ENTREZ_QUERY can only name organisms here: txid9606[ORGN] or Homo sapiens[ORGN], "
            "joined by OR, or after NOT"
        )
    if term[1].lower().startswith("txid") and term[1][4:].isdigit():
        return int(term[1][4:])
    if (found := taxid_of(term[1])) is None:
        raise ValueError(
            "Error: ENTREZ_QUERY names an organism that is not known here; give its number: txid9606[ORGN]"
        )
    return found
