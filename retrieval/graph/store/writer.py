"""Write the SQLite file of a new graph, the vectors of its edges and its lists of edges by node, in constant memory.

Edges are staged as read, then sorted, merged and numbered. Vectors and lists are plain writes, because a full disk
kills the process that writes to a memory-mapped file.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from models.encoders.base import Encoder, PassageText
from models.files import parse_json
from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.context.relations import statement
from retrieval.graph.loaders.reading import Report
from retrieval.graph.store.files import (
    EDGE_COLUMNS,
    EDGE_FROM,
    INDICES,
    OFFSET_FILE,
    ROW_FILE,
    SCHEMA_VERSION,
    TABLES,
    VECTOR_FILE,
    edge_from,
    fold,
    packed,
)
from retrieval.graph.types import Edge, GraphLoader, Node, merged
from retrieval.storage.files import FILE_MODE, Disk, create_file

_BATCH: Final = 5000
_STAGED: Final = """
CREATE TABLE staging.staged (source TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, body TEXT NOT NULL,
    place TEXT NOT NULL);
CREATE TABLE staging.found (source INTEGER NOT NULL, kind TEXT NOT NULL, target INTEGER NOT NULL, staged INTEGER);
"""
# An end that is no node id may be an identifier, if only one node has it.
_END: Final = (
    "coalesce((SELECT n FROM node WHERE node_id = {0}), "
    "(SELECT CASE WHEN count(*) = 1 THEN min(n) END FROM node WHERE identifier = {0}))"
)
ProgressCallback = Callable[[str, int], None]
PROGRESS_FILE: Final = "embedded.json"
_TEXTS_AT_ONCE: Final = 256
_ROWS_PER_SAVE: Final = 8192
_PAIRS_AT_ONCE: Final = 65_536


class GraphWriter:
    """Write one new file, in one thread; the file is not valid until ``finish`` has returned."""

    def __init__(self, path: Path, report: Report, report_progress: ProgressCallback) -> None:
        """Open the file; ``report_progress`` is called with each step and its number of finished records."""
        self._report = report
        self._report_progress = report_progress
        self._staging = path.with_name("staging.sqlite")
        for leftover in (path, self._staging):
            leftover.unlink(missing_ok=True)
        for new in (path, self._staging):
            create_file(new)
        self._connection = connection = sqlite3.connect(path, isolation_level=None)
        # The file has no reader yet, and a killed build repeats this part: a journal would only cost time.
        connection.execute("ATTACH ? AS staging", (str(self._staging),))
        for name in ("main", "staging"):
            connection.execute(f"PRAGMA {name}.journal_mode = OFF")
            connection.execute(f"PRAGMA {name}.synchronous = OFF")
        connection.execute("PRAGMA temp_store = FILE")
        connection.execute("PRAGMA cache_size = -65536")
        connection.executescript(TABLES + _STAGED)
        self._words: dict[str, int] = {}

    def fill(self, loader: GraphLoader) -> tuple[int, int]:
        """Return (nodes, edges) after storing all that the loader yields.

        Raises:
            GraphError: there are no nodes or no edges, or the loader raises it.
        """
        connection = self._connection
        connection.execute("BEGIN")
        nodes = self._put_nodes(loader)
        if not nodes:
            raise GraphError(self._nothing("no node"), GRAPH_INVALID, param="files")
        connection.executescript(INDICES)
        self._stage(loader)
        connection.execute("BEGIN")
        self._resolve()
        edges = self._put_edges()
        if not edges:
            raise GraphError(self._nothing("no edge"), GRAPH_INVALID, param="files")
        connection.execute("COMMIT")
        return nodes, edges

    def finish(self, meta: Mapping[str, str]) -> None:
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", {**meta, "schema": str(SCHEMA_VERSION)}.items())
        self._connection.execute("DETACH staging")
        self._connection.execute("ANALYZE")
        self.close()

    def close(self) -> None:
        self._connection.close()
        self._staging.unlink(missing_ok=True)

    def _put_nodes(self, loader: GraphLoader) -> int:
        count = 0
        for read, node in enumerate(loader.nodes(), 1):
            count += self._put_node(count, node)
            if read % _BATCH == 0:
                self._report_progress("nodes", count)
        self._report_progress("nodes", count)
        return count

    def _put_node(self, n: int, node: Node) -> int:
        """Return 1 for a new node, else add its synonyms to the known node and return 0."""
        row = (n, node.node_id, self._word(node.kind), node.name, node.identifier, self._word(node.source))
        put = self._connection.execute("INSERT OR IGNORE INTO node VALUES (?, ?, ?, ?, ?, ?)", row).rowcount
        if put:
            names = dict.fromkeys((node.name, *node.synonyms))
            rows = [(n, order, name, fold(name)) for order, name in enumerate(names)]
            self._connection.executemany("INSERT INTO name VALUES (?, ?, ?, ?)", rows)
            return 1
        if node.synonyms:
            self._add_synonyms(node)
        return 0

    def _add_synonyms(self, node: Node) -> None:
        query = "SELECT node.n, name.name FROM node JOIN name ON name.node = node.n WHERE node_id = ?"
        found = self._connection.execute(query, (node.node_id,)).fetchall()
        known = {name for _, name in found}
        new = [name for name in dict.fromkeys((node.name, *node.synonyms)) if name not in known]
        rows = [(found[0][0], order, name, fold(name)) for order, name in enumerate(new, len(found))]
        self._connection.executemany("INSERT INTO name VALUES (?, ?, ?, ?)", rows)

    def _stage(self, loader: GraphLoader) -> None:
        waiting: list[tuple[str, str, str, str, str]] = []
        count = 0
        self._connection.execute("BEGIN")
        for edge in loader.edges():
            body = packed([edge.provenance, edge.pmids, edge.evidence, edge.licence])
            waiting.append((edge.source_id, edge.kind, edge.target_id, body, loader.place))
            count += 1
            if len(waiting) == _BATCH:
                self._flush(waiting)
                self._report_progress("edges", count)
        self._flush(waiting)
        self._report_progress("edges", count)
        self._connection.execute("COMMIT")

    def _flush(self, waiting: list[tuple[str, str, str, str, str]]) -> None:
        self._connection.executemany("INSERT INTO staging.staged VALUES (?, ?, ?, ?, ?)", waiting)
        waiting.clear()

    def _resolve(self) -> None:
        source, target = _END.format("staged.source"), _END.format("staged.target")
        self._connection.execute(
            f"INSERT INTO staging.found SELECT * FROM (SELECT {source} AS s, kind, {target} AS t, rowid "
            "FROM staging.staged) WHERE s IS NOT NULL AND t IS NOT NULL"
        )
        lost = self._connection.execute(
            "SELECT source, kind, target, place FROM staging.staged "
            "WHERE rowid NOT IN (SELECT staged FROM staging.found) ORDER BY rowid"
        )
        for source_id, kind, target_id, place in lost:
            self._report.add(place, f"{source_id} {kind} {target_id}: an end is no node of the graph, or of two")

    def _put_edges(self) -> int:
        """Write edges by source, so that the rows of a node, and their vectors, are adjacent."""
        query = (
            "SELECT found.source, found.kind, found.target, staged.source, staged.target, staged.body "
            "FROM staging.found JOIN staging.staged ON staged.rowid = found.staged "
            "ORDER BY found.source, found.kind, found.target, found.staged"
        )
        row = 0
        reading = self._connection.cursor()
        for key, same in groupby(reading.execute(query), key=itemgetter(0, 1, 2)):
            self._put_edge(row, key, merged(_edges(same)))
            row += 1
            if row % _BATCH == 0:
                self._report_progress("merged", row)
        self._report_progress("merged", row)
        return row

    def _put_edge(self, row: int, key: tuple[int, str, int], edge: Edge) -> None:
        source, kind, target = key
        texts = packed(edge.provenance), packed(edge.pmids), packed(edge.evidence)
        values = (row, source, target, self._word(kind), *texts, self._word(edge.licence))
        self._connection.execute("INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _word(self, text: str) -> int:
        """Return the id of a kind or licence.

        There are few of them; if a file has many, the rest are looked up in the database instead of cached.
        """
        if (known := self._words.get(text)) is not None:
            return known
        self._connection.execute("INSERT OR IGNORE INTO word (text) VALUES (?)", (text,))
        found = int(self._connection.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchone()[0])
        if len(self._words) < _BATCH:
            self._words[text] = found
        return found

    def _nothing(self, what: str) -> str:
        first = "; ".join(f"{place}: {reason}" for place, reason in self._report.first[:3])
        return f"the files give {what}" + (f" ({self._report.passed:,} records passed over: {first})" if first else "")


def _edges(rows: Iterator[tuple[Any, ...]]) -> Iterator[Edge]:
    for _, kind, _, source, target, body in rows:
        provenance, pmids, evidence, licence = json.loads(body)
        yield Edge(
            source_id=source,
            target_id=target,
            kind=kind,
            provenance=tuple(provenance),
            pmids=tuple(pmids),
            evidence=evidence,
            licence=licence,
        )


def embed_edges(
    folder: Path, connection: sqlite3.Connection, encoder: Encoder, rows: int, report_progress: ProgressCallback
) -> None:
    """Write VECTOR_FILE (float16), resuming after the rows that an earlier, killed call wrote.

    Raises:
        OSError: the disk fails.
        Exception: whatever the encoder raises.
    """
    header = npy_header(np.float16, (rows, encoder.dim))
    width = encoder.dim * 2
    progress, disk = folder / PROGRESS_FILE, Disk()
    handle = os.open(folder / VECTOR_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        # Limited to the rows in the file: rows beyond its end would read as zeros.
        done = min(_done(progress), max(0, os.fstat(handle).st_size - len(header)) // width)
        os.ftruncate(handle, len(header) + done * width if done else 0)
        os.lseek(handle, 0, os.SEEK_END)
        if not done:
            disk.write_block(handle, header)
        saved = done
        reading = edge_texts(connection, done)
        while texts := list(islice(reading, _TEXTS_AT_ONCE)):
            vectors = encoder.encode_passages([PassageText("", text) for text in texts])
            disk.write_block(handle, vectors.astype(np.float16).tobytes())
            done += len(texts)
            if done - saved >= _ROWS_PER_SAVE or done == rows:
                os.fsync(handle)
                disk.replace(progress, json.dumps({"rows": done}).encode())
                saved = done
            report_progress("embedded", done)
    finally:
        os.close(handle)


def edge_texts(connection: sqlite3.Connection, first: int = 0) -> Iterator[str]:
    """Yield the sentences from row ``first`` on, in order."""
    query = (
        f"SELECT {EDGE_COLUMNS}, a.node_id, ak.text, a.name, b.node_id, bk.text, b.name FROM {EDGE_FROM} "
        "JOIN node AS a ON a.n = edge.source JOIN word AS ak ON ak.id = a.kind "
        "JOIN node AS b ON b.n = edge.target JOIN word AS bk ON bk.id = b.kind WHERE edge.row >= ? ORDER BY edge.row"
    )
    for row in connection.execute(query, (first,)):
        source = Node(node_id=row[8], kind=row[9], name=row[10], identifier="")
        target = Node(node_id=row[11], kind=row[12], name=row[13], identifier="")
        yield statement(edge_from(row[:8], source.node_id, target.node_id), source, target).text


def write_lists(folder: Path, connection: sqlite3.Connection, nodes: int) -> None:
    """Write ROW_FILE, the rows of each node's edges, and OFFSET_FILE, which indexes it.

    Node n has ROW_FILE[offsets[n]:offsets[n + 1]]; an edge is in the lists of both of its ends.
    """
    query = (
        "SELECT node, row FROM (SELECT source AS node, row FROM edge UNION ALL "
        "SELECT target, row FROM edge WHERE target <> source) ORDER BY node, row"
    )
    total = connection.execute("SELECT count(*) + sum(source <> target) FROM edge").fetchone()[0]
    offsets = np.zeros(nodes + 1, np.int64)
    disk = Disk()

    def fill(put: Callable[[bytes], int]) -> None:
        put(npy_header(np.int64, (total,)))
        reading = connection.execute(query)
        while block := reading.fetchmany(_PAIRS_AT_ONCE):
            pairs = np.asarray(block, np.int64)
            np.add.at(offsets, pairs[:, 0] + 1, 1)
            put(pairs[:, 1].tobytes())

    (folder / ROW_FILE).unlink(missing_ok=True)
    disk.write(folder / ROW_FILE, fill)
    np.cumsum(offsets, out=offsets)
    disk.replace(folder / OFFSET_FILE, npy_header(np.int64, (nodes + 1,)) + offsets.tobytes())


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file in numpy's format 1.0."""
    buffer = io.BytesIO()
    described = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _done(progress: Path) -> int:
    try:
        return int(parse_json(progress.read_bytes())["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
