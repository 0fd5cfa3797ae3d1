"""Find identifiers in a question: DOID:1612, MONDO:0005148, rs7903146, Entrez Gene 675, DB00945."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.graph.base import GraphStore
from retrieval.graph.types import Mention, Node

# The last group of each is the number or code; the prefix of the first form belongs to the identifier.
_PREFIXED: Final = re.compile(
    r"\b(DOID|MONDO|OMIM|MIM|HP|UBERON|GO|CL|CHEBI|ORPHANET|ORPHA|EFO|MESH|UMLS|NCIT|HGNC|PUBCHEM)"
    r"\s?[:_]\s?([A-Z]?\d{1,12})\b",
    re.IGNORECASE,
)
_GENE_NUMBER: Final = re.compile(
    r"\b(?:NCBI\s?Gene|Entrez(?:\s?Gene)?|Gene\s?ID)(?:\s?ID)?\s?[:#]?\s?(\d{1,12})\b", re.IGNORECASE
)
_BARE: Final = re.compile(r"\b(rs\d{1,12}|DB\d{5}|CHEMBL\d{1,10}|ENSG\d{11}|R-HSA-\d{1,10}|hsa\d{5})\b", re.IGNORECASE)
_MAX_FOUND: Final = 32
_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "HP": ("HP", "HPO"),
    "MIM": ("OMIM", "MIM"),
    "ORPHA": ("ORPHA", "ORPHANET"),
}
_SOURCES: Final[Mapping[str, str]] = {"DB": "DrugBank", "R-HSA": "REACTOME"}


@dataclass(frozen=True, slots=True)
class IdentifierFinder:
    """Query the store for each form of an identifier, in each of ``kinds``, for at most 32 identifiers a text."""

    store: GraphStore
    kinds: tuple[str, ...]

    def find(self, text: str, kinds: frozenset[str] | None = None) -> list[Mention]:
        """Return mentions of the identifiers that the graph has, in the text's order."""
        wanted = [kind for kind in self.kinds if kinds is None or kind in kinds]
        found: list[Mention] = []
        for number, (start, end, forms, only) in enumerate(sorted(_written(text))):
            if number == _MAX_FOUND:
                break
            node = self._node(forms, [kind for kind in wanted if not only or kind.casefold() in only])
            if node is not None:
                found.append(Mention(node=node, start=start, end=end, method="exact"))
        return found

    def _node(self, forms: tuple[str, ...], kinds: list[str]) -> Node | None:
        for kind in kinds:
            for form in forms:
                node = self.store.node(f"{kind}::{form}")
                if node is not None:
                    return node
        return None


def _written(text: str) -> Iterator[tuple[int, int, tuple[str, ...], tuple[str, ...]]]:
    """Yield (start, end, forms of the identifier, its possible kinds in lower case or none for all)."""
    for match in _PREFIXED.finditer(text):
        prefix, code = match[1].upper(), match[2].upper()
        prefixes = _PREFIXES.get(prefix, (prefix,))
        codes = (code, code.zfill(7), code.lstrip("0") or "0") if code.isdigit() else (code,)
        forms = [f"{one}{sign}{number}" for one in prefixes for sign in ":_" for number in codes]
        yield match.start(), match.end(), tuple(dict.fromkeys(forms)), ()
    for match in _GENE_NUMBER.finditer(text):
        yield (
            match.start(),
            match.end(),
            (match[1], f"NCBIGene:{match[1]}", f"NCBI:{match[1]}"),
            ("gene", "gene/protein", "protein"),
        )
    for match in _BARE.finditer(text):
        code = match[1]
        if code[0] in "rR" and code[1] == "-":
            forms = [code.upper()]
        else:
            forms = [code.lower() if code[:2].lower() in ("rs", "hs") else code.upper()]
        # PrimeKG prefixes the source.
        forms += [f"{source}:{forms[0]}" for start, source in _SOURCES.items() if forms[0].startswith(start)]
        yield match.start(), match.end(), tuple(forms), ()
