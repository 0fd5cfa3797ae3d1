"""Graphs for tests, in memory, from a handful of names or from a table of diseases."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from models.encoders.base import Floats
from retrieval.graph.types import NameOf, Node, Statement


class NodesInMemory:
    """Nodes by id, and their names."""

    _nodes: dict[str, Node]

    def names(self) -> Iterator[NameOf]:
        for node in self._nodes.values():
            yield NameOf(node.name, node.node_id, node.kind, False)
            for synonym in node.synonyms:
                yield NameOf(synonym, node.node_id, node.kind, True)

    def node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)


class NamesStore(NodesInMemory):
    """Nodes alone: no statements, no vectors."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.node_id: node for node in nodes}

    @property
    def release(self) -> str:
        return "1"

    @property
    def graph(self) -> str:
        return "names"

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return ()

    def vectors(self, rows: Sequence[int]) -> Floats:
        return np.zeros((len(rows), 1), np.float32)


def node(kind: str, identifier: str, name: str, *synonyms: str) -> Node:
    return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, synonyms=synonyms)


def read_diseases(file: Path) -> NamesStore:
    """A node for each row of disease_name, disease_id; one id of several rows is numbered from the second on."""
    nodes: list[Node] = []
    seen: Counter[str] = Counter()
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            identifier = row["disease_id"]
            seen[identifier] += 1
            again = f"#{seen[identifier]}" if seen[identifier] > 1 else ""
            nodes.append(node("Disease", identifier + again, row["disease_name"]))
    return NamesStore(nodes)
