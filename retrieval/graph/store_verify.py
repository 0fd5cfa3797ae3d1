"""Verify all files of a built graph against its manifest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from retrieval.durable import fact_of
from retrieval.graph.errors import GraphDamaged
from retrieval.graph.store_manifest import Manifest, read_manifest
from retrieval.graph.store_schema import GRAPH_FILE, OFFSET_FILE, ROW_FILE, VECTOR_FILE

_BLOCK: Final = 65_536


def verify(folder: Path, told: Callable[[str], None] = lambda _: None) -> tuple[Manifest | None, tuple[str, ...]]:
    """Return (manifest, faults) without modifying anything; no faults mean that the graph is intact.

    ``told`` is called with each file's name.
    """
    try:
        manifest = read_manifest(folder)
    except GraphDamaged as fault:
        return None, (fault.message,)
    faults = list(_digest_faults(folder, manifest, told))
    if not faults:
        try:
            faults = [*_table_faults(folder, manifest), *_array_faults(folder, manifest)]
        except (OSError, ValueError, sqlite3.Error) as fault:
            faults = [f"{folder}: {fault}"]
    return manifest, tuple(faults)


def _digest_faults(folder: Path, manifest: Manifest, told: Callable[[str], None]) -> Iterator[str]:
    for name, fact in manifest.files.items():
        told(name)
        try:
            found = fact_of(folder / name)
        except OSError as fault:
            yield f"{folder / name}: cannot be read: {fault.strerror}"
            continue
        if found.bytes != fact.bytes:
            yield f"{folder / name}: {found.bytes} bytes instead of {fact.bytes}"
        elif found.sha256 != fact.sha256:
            yield f"{folder / name}: its sha256 is another: a byte has changed"


def _table_faults(folder: Path, manifest: Manifest) -> Iterator[str]:
    uri = f"{(folder / GRAPH_FILE).resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        if (state := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            yield f"{folder / GRAPH_FILE}: {state}"
        for table, column, count in (("node", "n", manifest.nodes), ("edge", "row", manifest.edges)):
            query = f"SELECT count(*), coalesce(min({column}), 0), coalesce(max({column}), -1) FROM {table}"
            if connection.execute(query).fetchone() != (count, 0, count - 1):
                yield f"{folder / GRAPH_FILE}: {table} has not the rows 0 to {count - 1}"


def _array_faults(folder: Path, manifest: Manifest) -> Iterator[str]:
    offsets = np.load(folder / OFFSET_FILE, mmap_mode="r", allow_pickle=False)
    rows = np.load(folder / ROW_FILE, mmap_mode="r", allow_pickle=False)
    vectors = np.load(folder / VECTOR_FILE, mmap_mode="r", allow_pickle=False)
    if len(offsets) != manifest.nodes + 1 or offsets[0] != 0 or offsets[-1] != len(rows):
        yield f"{folder / OFFSET_FILE}: it does not fit {ROW_FILE}"
    if vectors.shape != (manifest.edges, manifest.dim):
        yield f"{folder / VECTOR_FILE}: {vectors.shape} instead of {(manifest.edges, manifest.dim)}"
    for start in range(0, len(vectors), _BLOCK):
        if not np.isfinite(vectors[start : start + _BLOCK]).all():
            yield f"{folder / VECTOR_FILE}: a vector from row {start} on holds what is no number"
            return
