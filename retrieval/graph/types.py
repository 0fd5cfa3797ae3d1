"""Nodes and edges of a knowledge graph, whatever graph they are of. Knows nothing of storage, sources or prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """``node_id`` is "Kind::identifier" (Disease::DOID:1612) and stays the same over releases. ``kind`` is the graph's
    own node type. ``source`` is who gave the identifier (Disease Ontology, Entrez Gene)."""

    node_id: str
    kind: str
    name: str
    identifier: str
    synonyms: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One statement. ``kind`` is the graph's own edge type (TREATS_CtD); how it reads is ``verbs``' matter.

    ``provenance``: every source that says so, in the order given. ``pmids``: articles. ``evidence``: the statement's
    attributes as the graph has them (scores, p-values, phase), JSON values. ``licence`` "" where it is not said.
    """

    source_id: str
    target_id: str
    kind: str
    provenance: tuple[str, ...] = ()
    pmids: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""

    @property
    def edge_id(self) -> str:
        return f"{self.source_id}|{self.kind}|{self.target_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An edge with its ends and as a sentence: what is embedded, selected and cited.

    ``text``: "Compound Levodopa treats Disease Parkinson's disease", without provenance and full stop. ``row`` is the
    place of its vector in the store, -1 for an edge that came from elsewhere and has none.
    """

    edge: Edge
    source: Node
    target: Node
    text: str
    row: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """All that a graph says of one node. ``complete`` False: the source cut it off. ``release`` of the graph."""

    node: Node
    statements: tuple[Statement, ...]
    graph: str
    release: str
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A stretch of a question that names a node. ``start``, ``end``: characters of the question.

    ``method``: exact, synonym, spelling, nearest or model. ``score`` 1.0 for exact and synonym, the share of letters
    that stand as in the name for spelling, else the encoder's similarity;
    ``margin``: how far the second best node is behind.
    """

    node: Node
    start: int
    end: int
    method: str
    score: float = 1.0
    margin: float = 1.0
