"""Graphs for tests: in memory from a handful of names or from a table of diseases, and the shipped one, built."""

from __future__ import annotations

import csv
import fcntl
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
from own_folders import models_folder

from models.encoders.base import Floats
from models.encoders.hashing import HashingEncoder
from retrieval.graph.linking.dictionary_lookup.terms import TermNames, term_names
from retrieval.graph.store.catalog import SHIPPED, open_or_build
from retrieval.graph.types import NameOf, Node, Statement
from retrieval.terminology.concepts import shipped_terminology


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


@lru_cache(maxsize=1)
def shipped_names() -> TermNames:
    """Return the names of the shipped terminology, whose index is made once a run, as it takes seconds."""
    with _once() as folder:
        return term_names(shipped_terminology(), folder)


@lru_cache(maxsize=1)
def _shipped_graph() -> Path:
    """Return the folder of the shipped graph, which is built once a run too."""
    with _once() as folder:
        open_or_build(folder, SHIPPED, HashingEncoder()).close()
        return folder / SHIPPED


@contextmanager
def _once() -> Iterator[Path]:
    """Hold the run's folder of graphs: what another worker has made there is found, not made again."""
    folder = models_folder().with_name("graphs")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def give_graph(graphs: Path) -> None:
    """Put both where a server with this folder of graphs looks for them."""
    shipped_names()
    shipped = _shipped_graph()
    (graphs / SHIPPED).mkdir(parents=True, mode=0o700, exist_ok=True)
    for made in (*shipped.parent.glob(".names-*"), *shipped.iterdir()):
        given = graphs / made.relative_to(shipped.parent)
        given.unlink(missing_ok=True)
        given.hardlink_to(made)
