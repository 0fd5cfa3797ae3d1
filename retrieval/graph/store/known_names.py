"""Look names up among the nodes of a local graph: diseases, symptoms, genes and organisms.

Nodes of other kinds have names as well, but not of a vocabulary that NCBI is searched by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from retrieval.graph.base import NameOf
from retrieval.graph.store.reader import LocalGraph
from retrieval.types import KnownName, NameKind, same

# By kind of node in lower case without separators, as the loaders take it from their files. A node does not tell the
# species of its gene, so its symbol counts as an alias.
_KINDS: Final[Mapping[str, NameKind]] = {
    "disease": "disease",
    "symptom": "heading",
    "phenotype": "heading",
    "phenotypicfeature": "heading",
    "effectphenotype": "heading",
    "gene": "alias",
    "geneprotein": "alias",
    "organism": "organism",
    "organismtaxon": "organism",
}


class GraphNames:
    """Implement ``KnownNames`` on an open graph."""

    def __init__(self, graph: LocalGraph) -> None:
        self._graph = graph

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        for node in self._graph.named(name):
            known = _known(node)
            if known is not None and known.kind in kinds and same(name, known.spelling):
                yield known


def _known(node: NameOf) -> KnownName | None:
    kind = _KINDS.get("".join(letter for letter in node.kind.lower() if letter.isalpha()))
    if kind == "alias" and " " in node.name:
        kind = "gene_name"
    return KnownName(node.name, kind) if kind else None
