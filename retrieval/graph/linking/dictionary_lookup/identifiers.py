"""Find the identifiers of nodes in a text: DOID:1612, Entrez Gene 675, rs7903146."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.graph.types import GraphStore, Mention, Node

_PREFIXED: Final = re.compile(r"\b([a-z]{2,10})\s?[:_]\s?([a-z]?\d{1,12})\b", re.IGNORECASE)
_GENE: Final = re.compile(
    r"\b(?:NCBI\s?Gene|Entrez(?:\s?Gene)?|Gene\s?ID)(?:\s?ID)?\s?[:#]?\s?(\d{1,12})\b", re.IGNORECASE
)
_BARE: Final = re.compile(r"\b(rs\d{1,12}|DB\d{5}|CHEMBL\d{1,10}|ENSG\d{11}|R-HSA-\d{1,10}|hsa\d{5})\b", re.IGNORECASE)
_MAX_FOUND: Final = 32
_OTHER_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {"HP": ("HPO",), "MIM": ("OMIM",), "ORPHA": ("ORPHANET",)}
# What PrimeKG writes before an identifier that needs no prefix.
_SOURCES: Final = ("DrugBank", "REACTOME")


@dataclass(frozen=True, slots=True)
class IdentifierFinder:
    """Query the store for each form of an identifier, in each of ``kinds``, for at most 32 identifiers a text."""

    store: GraphStore
    kinds: tuple[str, ...]

    def find(self, text: str, kinds: frozenset[str] | None = None) -> list[Mention]:
        """Return mentions of the identifiers that the graph has, in the text's order."""
        allowed = [kind for kind in self.kinds if kinds is None or kind in kinds]
        places = sorted((match.span(), forms) for match, forms in _identifiers(text))[:_MAX_FOUND]
        found = (((start, end), self._node(forms, allowed)) for (start, end), forms in places)
        return [Mention(node=node, start=start, end=end, method="exact") for (start, end), node in found if node]

    def _node(self, forms: tuple[str, ...], kinds: list[str]) -> Node | None:
        nodes = (self.store.node(f"{kind}::{form}") for kind in kinds for form in forms if _may_be(form, kind))
        return next(filter(None, nodes), None)


def _may_be(form: str, kind: str) -> bool:
    """Return False for a number alone that is of another kind than genes, whose identifiers are numbers."""
    return not form.isdigit() or any(name in kind.casefold() for name in ("gene", "protein"))


def _identifiers(text: str) -> Iterator[tuple[re.Match[str], tuple[str, ...]]]:
    """Yield each place with the forms in which a graph may have it."""
    for match in _PREFIXED.finditer(text):
        prefix, code = match[1].upper(), match[2].upper()
        codes = dict.fromkeys((code, code.zfill(7), code.lstrip("0") or "0") if code.isdigit() else (code,))
        prefixes = (prefix, *_OTHER_PREFIXES.get(prefix, ()))
        yield match, tuple(f"{one}{sign}{number}" for one in prefixes for sign in ":_" for number in codes)
    for match in _GENE.finditer(text):
        yield match, (match[1], f"NCBIGene:{match[1]}", f"NCBI:{match[1]}")
    for match in _BARE.finditer(text):
        yield match, (match[1].upper(), match[1].lower(), *(f"{source}:{match[1].upper()}" for source in _SOURCES))
