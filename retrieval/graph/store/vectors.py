"""Write the vectors of a graph's edges, one row each, and the lists of edges by node.

Uses plain writes instead of a memory-mapped file, because a full disk kills the process that writes to a map.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from models.encoders.base import Encoder, PassageText
from retrieval.graph.context.verbs import statement
from retrieval.graph.store.schema import EDGE_COLUMNS, EDGE_FROM, OFFSET_FILE, ROW_FILE, VECTOR_FILE, edge_from
from retrieval.graph.types import Node
from retrieval.storage.files import FILE_MODE, Disk

PROGRESS_FILE: Final = "embedded.json"
_BATCH: Final = 256
_SAVED: Final = 8192
_BLOCK: Final = 65_536
ProgressCallback = Callable[[str, int], None]


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
        for texts in _batches(edge_texts(connection, done)):
            vectors = encoder.encode_passages([PassageText("", text) for text in texts])
            disk.write_block(handle, vectors.astype(np.float16).tobytes())
            done += len(texts)
            if done - saved >= _SAVED or done == rows:
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
        while block := reading.fetchmany(_BLOCK):
            pairs = np.asarray(block, np.int64)
            np.add.at(offsets, pairs[:, 0] + 1, 1)
            put(pairs[:, 1].tobytes())

    for name in (ROW_FILE, OFFSET_FILE):
        (folder / name).unlink(missing_ok=True)
    disk.write(folder / ROW_FILE, fill)
    np.cumsum(offsets, out=offsets)
    disk.write(folder / OFFSET_FILE, lambda put: _once(put, npy_header(np.int64, (nodes + 1,)) + offsets.tobytes()))


def npy_header(dtype: DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file in numpy's format 1.0."""
    buffer = io.BytesIO()
    described = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _done(progress: Path) -> int:
    try:
        return int(json.loads(progress.read_bytes())["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _once(put: Callable[[bytes], int], data: bytes) -> None:
    put(data)
