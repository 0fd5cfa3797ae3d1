"""Read the shipped table of names of diseases, phenotypes and drugs, each with its source.

A line is what one source says of one concept; lines of equal number mean the same. The sources and their licences are
in NOTICE and in ``SOURCES``.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple

TABLE: Final = Path(__file__).parent / "names.tsv.xz"
COLUMNS: Final = ("concept", "source", "identifier", "kind", "names", "claimed")
OWN: Final = "arrowhead"
# By a line's source: its name, licence and date.
SOURCES: Final[Mapping[str, tuple[str, str, str]]] = {
    "doid": ("Disease Ontology", "CC0 1.0", "2024-07"),
    "mondo": ("Mondo Disease Ontology", "CC BY 4.0", "2024-07"),
    "mesh": ("Medical Subject Headings", "public domain (U.S. National Library of Medicine)", "2025-07"),
    "hp": ("Human Phenotype Ontology", "HPO licence", "2024-07"),
    "drugbank": ("DrugBank open data, drug-named-entity-recognition", "CC0 1.0, MIT", "2025-07"),
    "chebi": ("ChEBI", "CC BY 4.0", "2024-07"),
    OWN: ("Arrowhead", "CC0 1.0", "2026-11"),
}
Kind = Literal["Disease", "Phenotype", "Drug"]
# The kind of a line about a class, such as the genetic diseases.
CLASS: Final = "Class"
_KINDS: Final[Mapping[str, Kind]] = {"Disease": "Disease", CLASS: "Disease", "Phenotype": "Phenotype", "Drug": "Drug"}
# Parts of the names of a graph's kinds that have such things.
_GRAPH_KINDS: Final[Mapping[bool, tuple[str, ...]]] = {
    False: ("disease", "phenotype", "symptom", "effect"),
    True: ("compound", "drug", "chemical", "molecule"),
}


class Term(NamedTuple):
    """Hold one line.

    ``names`` has the chief name first, unless another concept or an earlier line has that. ``claimed`` are names that
    the source gives it, and that mean another concept first. ``is_class``: at least a tenth of its source's diseases
    are one.
    """

    concept: int
    source: str
    identifier: str
    kind: Kind
    names: tuple[str, ...]
    claimed: tuple[str, ...] = ()
    is_class: bool = False

    def may_be(self, graph_kind: str) -> bool:
        """Return whether nodes of a kind can mean the concept: the drug insulin is not the gene."""
        return any(part in graph_kind.casefold() for part in _GRAPH_KINDS[self.kind == "Drug"])


@dataclass(frozen=True, slots=True)
class Concept:
    """Hold the lines of one concept."""

    terms: tuple[Term, ...]

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, the chief one first."""
        own = tuple(name for term in self.terms for name in term.names)
        return own or tuple(name for term in self.terms for name in term.claimed) or (self.terms[0].identifier,)


@dataclass(frozen=True, slots=True)
class Terminology:
    """Hold the lines as text, 9 MB for the shipped table.

    ``starts``: of each line, and the end of the last one; ``firsts``: the first line of each concept.
    """

    content: bytes
    starts: tuple[int, ...]
    firsts: tuple[int, ...]

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.starts) - 1

    @property
    def digest(self) -> str:
        return sha256(self.content).hexdigest()

    def terms(self) -> Iterator[Term]:
        return (self.term(number) for number in range(len(self)))

    def term(self, number: int) -> Term:
        line = self.content[self.starts[number] : self.starts[number + 1] - 1]
        concept, source, identifier, kind, *cells = line.decode().split("\t")
        names, claimed = (tuple(cell.split("|")) if cell else () for cell in cells)
        return Term(int(concept), source, identifier, _KINDS[kind], names, claimed, kind == CLASS)

    def concept(self, number: int) -> Concept:
        last = self.firsts[number + 1] if number + 1 < len(self.firsts) else len(self)
        return Concept(tuple(map(self.term, range(self.firsts[number], last))))


def parse(content: bytes) -> Terminology:
    """Read a table, uncompressed.

    Raises:
        ValueError: its first line has other columns, or its concepts are not numbered in order.
    """
    first, _, rest = content.partition(b"\n")
    if tuple(first.decode().split("\t")) != COLUMNS:
        raise ValueError("the table of names has other columns")
    starts, firsts = [0], list[int]()
    for line in rest.splitlines(keepends=True):
        concept = int(line[: line.index(b"\t")])
        if concept == len(firsts):
            firsts.append(len(starts) - 1)
        elif concept != len(firsts) - 1:
            raise ValueError(f"concept {concept} stands out of its order in the table of names")
        starts.append(starts[-1] + len(line))
    return Terminology(rest, tuple(starts), tuple(firsts))


@lru_cache(maxsize=1)
def shipped_terminology() -> Terminology:
    return parse(lzma.decompress(TABLE.read_bytes()))
