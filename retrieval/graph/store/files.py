"""Define the files of a built graph: the SQLite schema, the names of the files, and the manifest with their digests."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from models.encoders.base import EncoderFingerprint
from models.files import parse_json
from retrieval.errors import GRAPH_DAMAGED, GraphError
from retrieval.graph.types import Edge, Node
from retrieval.storage.files import FileDigest, digest_file

SCHEMA_VERSION: Final = 1
GRAPH_FILE: Final = "graph.sqlite"
VECTOR_FILE: Final = "vectors.npy"
OFFSET_FILE: Final = "offsets.npy"
ROW_FILE: Final = "rows.npy"
MANIFEST_FILE: Final = "manifest.json"

# ``n`` and ``row`` count from 0 without gaps: vectors are indexed by row, offsets by n.
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE node (n INTEGER PRIMARY KEY, node_id TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, name TEXT NOT NULL,
    identifier TEXT NOT NULL, source INTEGER NOT NULL);
CREATE TABLE name (node INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, fold TEXT NOT NULL,
    PRIMARY KEY (node, place)) WITHOUT ROWID;
CREATE TABLE edge (row INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, kind INTEGER NOT NULL,
    provenance TEXT NOT NULL, pmids TEXT NOT NULL, evidence TEXT NOT NULL, licence INTEGER NOT NULL);
"""
INDICES: Final = """
CREATE INDEX node_identifier ON node (identifier);
CREATE INDEX name_fold ON name (fold);
CREATE INDEX node_kind ON node (kind);
"""
NODE_COLUMNS: Final = "node.n, node.node_id, kinds.text, node.name, node.identifier, origins.text"
NODE_FROM: Final = "node JOIN word AS kinds ON kinds.id = node.kind JOIN word AS origins ON origins.id = node.source"
EDGE_COLUMNS: Final = (
    "edge.row, edge.source, edge.target, kinds.text, edge.provenance, edge.pmids, edge.evidence, terms.text"
)
EDGE_FROM: Final = "edge JOIN word AS kinds ON kinds.id = edge.kind JOIN word AS terms ON terms.id = edge.licence"
_BLOCK: Final = 65_536


def files_of(has_vectors: bool) -> tuple[str, ...]:
    """Return the names of a graph's files, without its manifest."""
    return (GRAPH_FILE, OFFSET_FILE, ROW_FILE, *((VECTOR_FILE,) if has_vectors else ()))


def fold(name: str) -> str:
    """Normalize a name for comparison, ignoring letter case and runs of white space."""
    return " ".join(name.casefold().split())


def packed(value: Any) -> str:
    """Serialize to ASCII JSON, so that lone surrogates survive; a non-finite number becomes null, as JSON has none."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), sort_keys=True)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), sort_keys=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def node_from(row: Sequence[Any], synonyms: Sequence[str] = ()) -> Node:
    """Build a node from a row of NODE_COLUMNS."""
    _, node_id, kind, name, identifier, source = row
    return Node(node_id=node_id, kind=kind, name=name, identifier=identifier, synonyms=tuple(synonyms), source=source)


def edge_from(row: Sequence[Any], source_id: str, target_id: str) -> Edge:
    """Build an edge from a row of EDGE_COLUMNS."""
    _, _, _, kind, provenance, pmids, evidence, licence = row
    return Edge(
        source_id=source_id,
        target_id=target_id,
        kind=kind,
        provenance=tuple(json.loads(provenance)),
        pmids=tuple(json.loads(pmids)),
        evidence=json.loads(evidence),
        licence=licence,
    )


def meta_of(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM meta"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Describe a built graph.

    ``inputs``: facts of each imported file by its name. ``built``: day, ISO. ``encoder``: a fingerprint as a mapping,
    empty for a graph without vectors; ``encoder_name``: the name by which the encoder is loaded.
    """

    graph: str
    release: str
    kind: str
    nodes: int
    edges: int
    passed: int
    built: str
    encoder_name: str
    encoder: Mapping[str, Any]
    inputs: Mapping[str, FileDigest]
    files: Mapping[str, FileDigest] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        return int(self.encoder["dim"])

    def fits(self, encoder: EncoderFingerprint) -> bool:
        """Return whether queries of this encoder can be held against the vectors, if there are any."""
        return not self.encoder or dict(self.encoder) == as_json(encoder)

    def to_bytes(self) -> bytes:
        return _sealed({"schema": SCHEMA_VERSION, **asdict(self)})


def as_json(encoder: EncoderFingerprint) -> dict[str, Any]:
    """Return the fingerprint as it is read back from a file, with tuples as lists."""
    found: dict[str, Any] = json.loads(json.dumps(encoder.as_dict()))
    return found


def read_manifest(folder: Path) -> Manifest:
    """Read and verify the manifest of a folder.

    Raises:
        GraphError: the manifest is missing, modified, or of another version of this program.
    """
    path = folder / MANIFEST_FILE
    try:
        data = path.read_bytes()
        fields: dict[str, Any] = parse_json(data)
        if _sealed({key: value for key, value in fields.items() if key != "sha256"}) != data:
            raise ValueError("its digest is another")
        if (schema := fields.pop("schema")) != SCHEMA_VERSION:
            raise GraphError(f"{path} has schema {schema}; this program reads {SCHEMA_VERSION}", GRAPH_DAMAGED)
        fields.pop("sha256")
        for key in ("inputs", "files"):
            fields[key] = {name: FileDigest(**fact) for name, fact in fields[key].items()}
        manifest = Manifest(**fields)
        if set(manifest.files) != set(files_of(bool(manifest.encoder))):
            raise ValueError("its list of files is another")
        return manifest
    except OSError as fault:
        raise GraphError(f"{path} cannot be read: {fault.strerror}", GRAPH_DAMAGED) from fault
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise GraphError(f"{path} is damaged: {fault}", GRAPH_DAMAGED) from fault


def _sealed(fields: Mapping[str, Any]) -> bytes:
    plain = json.dumps(fields, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return (json.dumps({**fields, "sha256": digest}, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()


def verify(
    folder: Path, report_progress: Callable[[str], None] = lambda _: None
) -> tuple[Manifest | None, tuple[str, ...]]:
    """Return (manifest, faults) without modifying anything; no faults mean that the graph is intact.

    ``report_progress`` is called with each file's name.
    """
    try:
        manifest = read_manifest(folder)
    except GraphError as fault:
        return None, (fault.message,)
    faults = list(_digest_faults(folder, manifest, report_progress))
    if not faults:
        try:
            faults = [*_table_faults(folder, manifest), *_array_faults(folder, manifest)]
        except (OSError, ValueError, sqlite3.Error) as fault:
            faults = [f"{folder}: {fault}"]
    return manifest, tuple(faults)


def _digest_faults(folder: Path, manifest: Manifest, report_progress: Callable[[str], None]) -> Iterator[str]:
    for name, fact in manifest.files.items():
        report_progress(name)
        try:
            found = digest_file(folder / name)
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
    if len(offsets) != manifest.nodes + 1 or offsets[0] != 0 or offsets[-1] != len(rows):
        yield f"{folder / OFFSET_FILE}: it does not fit {ROW_FILE}"
    if not manifest.encoder:
        return
    vectors = np.load(folder / VECTOR_FILE, mmap_mode="r", allow_pickle=False)
    if vectors.shape != (manifest.edges, manifest.dim):
        yield f"{folder / VECTOR_FILE}: {vectors.shape} instead of {(manifest.edges, manifest.dim)}"
    for start in range(0, len(vectors), _BLOCK):
        if not np.isfinite(vectors[start : start + _BLOCK]).all():
            yield f"{folder / VECTOR_FILE}: a vector from row {start} on holds what is no number"
            return
