"""Read a built graph on this machine: one SQLite file and memory-mapped vectors and lists, in constant memory."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from models.encoders.base import EncoderFingerprint, Floats
from retrieval.errors import GRAPH_DAMAGED, GRAPH_NODE_UNKNOWN, GraphError
from retrieval.graph.context.relations import statement
from retrieval.graph.store.files import (
    EDGE_COLUMNS,
    EDGE_FROM,
    GRAPH_FILE,
    NODE_COLUMNS,
    NODE_FROM,
    OFFSET_FILE,
    ROW_FILE,
    SCHEMA_VERSION,
    VECTOR_FILE,
    Manifest,
    edge_from,
    fold,
    meta_of,
    node_from,
    read_manifest,
)
from retrieval.graph.types import NameOf, Neighbourhood, Node, Statement
from retrieval.storage.database import ReadPool
from retrieval.types import KnownName, NameKind, same

_CONNECTIONS: Final = 4
_BATCH: Final = 500
MAX_STATEMENTS: Final = 50_000
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


class LocalGraph:
    """Read a local graph, from any thread.

    Its files stay open and valid after a newer build replaces them.
    """

    def __init__(self, folder: Path, expects: EncoderFingerprint | None = None) -> None:
        """Open the graph; ``expects`` is the encoder of later queries.

        Files are checked against the manifest by size only; ``verify`` reads them.

        Raises:
            GraphError: the graph is incomplete, or its vectors are of another encoder.
        """
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        if expects is not None and not self.manifest.fits(expects):
            encoder_id = self.manifest.encoder.get("encoder_id")
            raise GraphError(
                f"{folder} has vectors of {encoder_id} (or of another revision), not of {expects.encoder_id}",
                GRAPH_DAMAGED,
            )
        with _damage(folder):
            _check_sizes(folder, self.manifest)
            self._vectors = None
            if self.manifest.encoder:
                self._vectors = _mapped(folder / VECTOR_FILE, np.float16, (self.manifest.edges, self.manifest.dim))
            self._offsets = _mapped(folder / OFFSET_FILE, np.int64, (self.manifest.nodes + 1,))
            self._rows = _mapped(folder / ROW_FILE, np.int64, None)
            self._pool = ReadPool(folder / GRAPH_FILE, _CONNECTIONS)
        try:
            with _damage(folder), self._pool.acquire() as connection:
                if meta_of(connection).get("schema") != str(SCHEMA_VERSION):
                    raise GraphError(f"{folder / GRAPH_FILE} is of another version of this program", GRAPH_DAMAGED)
        except GraphError:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self.manifest.graph

    @property
    def graph(self) -> str:
        return self.manifest.graph

    @property
    def release(self) -> str:
        return self.manifest.release

    def close(self) -> None:
        self._pool.close()

    def names(self) -> Iterator[NameOf]:
        """Yield names by node, its own name first.

        Holds no connection between two batches.
        """
        after = (-1, -1)
        query = (
            "SELECT name.node, name.place, name.name, node.node_id, kinds.text FROM name "
            "JOIN node ON node.n = name.node JOIN word AS kinds ON kinds.id = node.kind "
            "WHERE (name.node, name.place) > (?, ?) ORDER BY name.node, name.place LIMIT ?"
        )
        while True:
            batch = self._all(query, (*after, _BATCH))
            for _, place, name, node_id, kind in batch:
                yield NameOf(name, node_id, kind, place > 0)
            if len(batch) < _BATCH:
                return
            after = batch[-1][:2]

    def node(self, node_id: str) -> Node | None:
        rows = self._all(f"SELECT {NODE_COLUMNS} FROM {NODE_FROM} WHERE node.node_id = ?", (node_id,))
        return self._with_names(rows[0]) if rows else None

    def find(self, text: str) -> tuple[Node, ...]:
        """Return at most 50 nodes with this id, identifier or name, ignoring letter case, own names first."""
        if (exact := self.node(text)) is not None:
            return (exact,)
        query = (
            f"SELECT {NODE_COLUMNS} FROM {NODE_FROM} JOIN (SELECT n, -1 AS place FROM node WHERE identifier = ?1 "
            "UNION ALL SELECT node, place FROM name WHERE fold = ?2) AS hit ON hit.n = node.n "
            "GROUP BY node.n ORDER BY min(hit.place > 0), node.n LIMIT 50"
        )
        return tuple(self._with_names(row) for row in self._all(query, (text, fold(text))))

    def named(self, text: str) -> tuple[NameOf, ...]:
        """Return at most 50 names that equal the text but for letter case and white space."""
        query = (
            "SELECT name.name, node.node_id, kinds.text, name.place FROM name JOIN node ON node.n = name.node "
            "JOIN word AS kinds ON kinds.id = node.kind WHERE name.fold = ? LIMIT 50"
        )
        rows = self._all(query, (fold(text),))
        return tuple(NameOf(name, node_id, kind, place > 0) for name, node_id, kind, place in rows)

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return self._statements(node_id, kinds, None)

    def vectors(self, rows: Sequence[int]) -> Floats:
        """Return the vectors of these rows, float32 [n, dim].

        Raises:
            IndexError: the graph has no such row, or no vectors.
        """
        if self._vectors is None:
            raise IndexError(f"{self.graph} has no vectors")
        row_numbers = np.asarray(rows, np.int64)
        if len(row_numbers) and (row_numbers.min() < 0 or row_numbers.max() >= self.manifest.edges):
            raise IndexError(f"{self.graph} has the rows 0 to {self.manifest.edges - 1}")
        # Copied from the memory map in file order, so that adjacent rows are read together.
        order = np.argsort(row_numbers, kind="stable")
        found = np.empty((len(row_numbers), self.manifest.dim), np.float32)
        found[order] = self._vectors[row_numbers[order]]
        return found

    async def neighbourhood(self, node: Node, *, kinds: frozenset[str] | None = None) -> Neighbourhood:
        """Return the neighbourhood of a node found by identifier, else by name.

        It is not complete if the node has more than MAX_STATEMENTS edges.
        """
        return await asyncio.to_thread(self._neighbourhood, node, kinds)

    def _neighbourhood(self, node: Node, kinds: frozenset[str] | None) -> Neighbourhood:
        found = self.node(node.node_id)
        if found is None:
            alike = [other for other in self.find(node.name) if other.kind == node.kind]
            if not alike:
                raise GraphError(
                    f"{self.graph} {self.release} has no {node.kind} {node.name!r} ({node.node_id})", GRAPH_NODE_UNKNOWN
                )
            found = alike[0]
        statements = self._statements(found.node_id, kinds, MAX_STATEMENTS + 1)
        return Neighbourhood(
            node=found,
            statements=statements[:MAX_STATEMENTS],
            graph=self.graph,
            release=self.release,
            complete=len(statements) <= MAX_STATEMENTS,
        )

    def _statements(self, node_id: str, kinds: frozenset[str] | None, most: int | None) -> tuple[Statement, ...]:
        found = self._all("SELECT n FROM node WHERE node_id = ?", (node_id,))
        if not found:
            return ()
        first, last = (int(self._offsets[found[0][0] + step]) for step in (0, 1))
        rows = [int(row) for row in self._rows[first:last]]
        statements: list[Statement] = []
        for start in range(0, len(rows), _BATCH):
            statements += self._statements_of_rows(rows[start : start + _BATCH], kinds)
            if most is not None and len(statements) >= most:
                return tuple(statements[:most])
        return tuple(statements)

    def _statements_of_rows(self, rows: Sequence[int], kinds: frozenset[str] | None) -> list[Statement]:
        marks = ", ".join("?" * len(rows))
        query = f"SELECT {EDGE_COLUMNS} FROM {EDGE_FROM} WHERE edge.row IN ({marks}) ORDER BY edge.row"
        found = [row for row in self._all(query, rows) if kinds is None or row[3] in kinds]
        nodes = self._nodes({end for row in found for end in row[1:3]})
        with _damage(self.folder):
            return [self._statement(row, nodes[row[1]], nodes[row[2]]) for row in found]

    def _statement(self, row: Sequence[Any], source: Node, target: Node) -> Statement:
        number = -1 if self._vectors is None else row[0]
        return statement(edge_from(row, source.node_id, target.node_id), source, target, number)

    def _nodes(self, numbers: Iterable[int]) -> Mapping[int, Node]:
        """Return nodes by number, with their synonyms, because a question may use any name of a neighbour."""
        node_numbers = sorted(numbers)
        synonyms: dict[int, list[str]] = {}
        nodes: dict[int, Node] = {}
        for start in range(0, len(node_numbers), _BATCH):
            part = node_numbers[start : start + _BATCH]
            marks = ", ".join("?" * len(part))
            query = f"SELECT node, name FROM name WHERE node IN ({marks}) AND place > 0 ORDER BY node, place"
            for number, name in self._all(query, part):
                synonyms.setdefault(number, []).append(name)
            for row in self._all(f"SELECT {NODE_COLUMNS} FROM {NODE_FROM} WHERE node.n IN ({marks})", part):
                nodes[row[0]] = node_from(row, synonyms.get(row[0], ()))
        return nodes

    def _with_names(self, row: Sequence[Any]) -> Node:
        names = self._all("SELECT name FROM name WHERE node = ? AND place > 0 ORDER BY place", (row[0],))
        return node_from(row, [name for (name,) in names])

    def _all(self, query: str, values: Sequence[Any]) -> list[Any]:
        with _damage(self.folder), self._pool.acquire() as connection:
            return connection.execute(query, tuple(values)).fetchall()


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        raise GraphError(f"{folder} cannot be read: {fault}", GRAPH_DAMAGED) from fault
    except (OSError, ValueError, KeyError) as fault:
        raise GraphError(f"{folder} is damaged: {fault}", GRAPH_DAMAGED) from fault


def _check_sizes(folder: Path, manifest: Manifest) -> None:
    for name, fact in manifest.files.items():
        if (folder / name).stat().st_size != fact.bytes:
            raise GraphError(f"{folder / name} has not the size that it was written with", GRAPH_DAMAGED)


def _mapped(path: Path, dtype: type[Any], shape: tuple[int, ...] | None) -> Any:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as fault:  # numpy parses the header as Python
        raise GraphError(f"{path} is damaged: {fault}", GRAPH_DAMAGED) from fault
    if found.dtype != dtype or (shape is not None and found.shape != shape) or (shape is None and found.ndim != 1):
        raise GraphError(f"{path} has another form than the manifest says", GRAPH_DAMAGED)
    return found


class GraphNames:
    """Implement ``KnownNames`` on an open graph, by its diseases, symptoms, genes and organisms.

    Nodes of other kinds have names as well, but not of a vocabulary that NCBI is searched by.
    """

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
