"""A small made-up graph in memory, with the interfaces of the real ones and exact answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from graph_names import NodesInMemory

from models.encoders.base import Floats, PassageText
from models.encoders.hashing import HashingEncoder
from retrieval.errors import GRAPH_NODE_UNKNOWN, GraphError
from retrieval.graph.linking import linker as linking
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.types import Edge, GraphStore, Linked, LinkOptions, Mention, Neighbourhood, Node, Statement

_VERBS = {"TREATS_CtD": "treats", "ASSOCIATES_DaG": "associates", "PRESENTS_DpS": "presents"}


def make_node(kind: str, name: str, identifier: str = "", *, synonyms: tuple[str, ...] = (), source: str = "") -> Node:
    identifier = identifier or name
    return Node(
        node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, synonyms=synonyms, source=source
    )


def make_statement(
    source: Node,
    kind: str,
    target: Node,
    *,
    provenance: tuple[str, ...] = ("GWAS Catalog",),
    pmids: tuple[str, ...] = (),
    evidence: Mapping[str, Any] | None = None,
    row: int = -1,
) -> Statement:
    edge = Edge(
        source_id=source.node_id,
        target_id=target.node_id,
        kind=kind,
        provenance=provenance,
        pmids=pmids,
        evidence=evidence or {},
    )
    verb = _VERBS.get(kind, kind.split("_")[0].lower())
    text = f"{source.kind} {source.name} {verb} {target.kind} {target.name}"
    return Statement(edge=edge, source=source, target=target, text=text, row=row)


PSORIASIS = make_node("Disease", "psoriasis", "DOID:8893", source="Disease Ontology")
ZOSTER = make_node("Disease", "herpes zoster", "DOID:8536", synonyms=("shingles",), source="Disease Ontology")
RARE = make_node("Disease", "Pelger-Huet anomaly", "DOID:2929", source="Disease Ontology")
GENES = {name: make_node("Gene", name, str(number)) for number, name in enumerate(("HLA-B", "IL23R", "TNIP1"), 3106)}
METHOTREXATE = make_node("Compound", "Methotrexate", "DB00563")
ACYCLOVIR = make_node("Compound", "Acyclovir", "DB00787")
ITCH = make_node("Symptom", "Pruritus", "D011537")
EDGES: tuple[tuple[Node, str, Node, dict[str, Any]], ...] = (
    (PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], {"pmids": ("19169254",), "evidence": {"gwas_pvalue": 2e-13}}),
    (PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], {"pmids": ("20953190",)}),
    (PSORIASIS, "ASSOCIATES_DaG", GENES["TNIP1"], {}),
    (METHOTREXATE, "TREATS_CtD", PSORIASIS, {"provenance": ("DrugCentral", "ChEMBL")}),
    (PSORIASIS, "PRESENTS_DpS", ITCH, {"provenance": ("NCBI PubMed",), "evidence": {"fisher": 0.001}}),
    (ZOSTER, "ASSOCIATES_DaG", GENES["HLA-B"], {"provenance": ("DISEASES",)}),
    (ACYCLOVIR, "TREATS_CtD", ZOSTER, {"provenance": ("DrugCentral",)}),
)
STATEMENTS = tuple(
    make_statement(source, kind, target, row=row, **more) for row, (source, kind, target, more) in enumerate(EDGES)
)


class MemoryGraph(NodesInMemory):
    """``GraphStore`` and the graph of a method at once. ``encoded``: every question that became a vector."""

    def __init__(self, statements: Sequence[Statement] = STATEMENTS, extra: Sequence[Node] = (RARE,)) -> None:
        ends = [end for statement in statements for end in (statement.source, statement.target)]
        self._nodes = {node.node_id: node for node in (*ends, *extra)}
        self._statements = tuple(statements)
        self._encoder = HashingEncoder()
        self.encoded: list[str] = []
        self.unknown: set[str] = set()
        self.retractions: frozenset[str] = frozenset()

    def open(self, ask: object, egress: object) -> MemoryGraph:
        """The same for every answer."""
        return self

    @property
    def graph(self) -> str:
        return "little graph"

    name = graph

    @property
    def release(self) -> str:
        return "2026-01"

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        own = (s for s in self._statements if node_id in (s.edge.source_id, s.edge.target_id))
        return tuple(s for s in own if kinds is None or s.edge.kind in kinds)

    def rows(self, rows: Sequence[int]) -> Floats:
        by_row = {statement.row: statement for statement in self._statements}
        return self._encoder.encode_passages([PassageText("", by_row[row].text) for row in rows])

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        if node.node_id in self.unknown:
            raise GraphError(f"no node {node.node_id}", GRAPH_NODE_UNKNOWN)
        found = self.statements(node.node_id)
        return Neighbourhood(node=node, statements=found, graph=self.graph, release=self.release)

    async def encode(self, question: str) -> Floats:
        self.encoded.append(question)
        row: Floats = self._encoder.encode_queries([question])[0]
        return row

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        return self._encoder.encode_passages([PassageText("", statement.text) for statement in statements])

    async def retracted(self, pmids: Sequence[str]) -> frozenset[str]:
        return self.retractions.intersection(pmids)


class ExactLinker:
    """Every name and synonym of a kind that stands in the question as whole words, longest first."""

    def __init__(self, graph: MemoryGraph, kinds: Sequence[str] = ("Disease",)) -> None:
        self._graph = graph
        self._kinds = frozenset(kinds)
        named = (name for name in graph.names() if name.kind in kinds)
        self._names = sorted(named, key=lambda name: -len(name.name))
        self._linker = linking.Linker(build_dictionary(cast(GraphStore, graph)))

    async def link(self, question: str, extractor: Extractor | None = None) -> Linked:
        if extractor is not None:
            options = LinkOptions(method="model", kinds=self._kinds)
            return await replace(self._linker, extractor=extractor).link(question, options)
        found: list[Mention] = []
        for name in self._names:
            for match in re.finditer(rf"(?<!\w){re.escape(name.name)}(?!\w)", question, re.IGNORECASE):
                node = self._graph.node(name.node_id)
                if node is not None and not any(m.start < match.end() and match.start() < m.end for m in found):
                    method = "synonym" if name.is_synonym else "exact"
                    found.append(Mention(node=node, start=match.start(), end=match.end(), method=method))
        return Linked(mentions=tuple(sorted(found, key=lambda mention: mention.start)))

    async def broader(self, text: str, mention: Mention) -> Mention | None:
        return await self._linker.broader(text, mention)


def as_vectors(texts: Sequence[str], question: str) -> tuple[Floats, Floats]:
    encoder = HashingEncoder()
    matrix = encoder.encode_queries(texts) if texts else np.zeros((0, encoder.dim), np.float32)
    return encoder.encode_queries([question])[0], matrix
