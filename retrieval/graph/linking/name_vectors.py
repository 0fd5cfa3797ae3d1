"""Search the vectors of all names of a graph exactly, in memory or in an index on disk for large graphs.

A folder holds ``index`` and ``names.json`` with the graph, its release, the number of names, their digest and the
encoder. It is built beside its destination and installed atomically; a folder of other names or another encoder is
rebuilt.
"""

from __future__ import annotations

import json
import logging
import shutil
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Encoder, Floats, PassageText
from retrieval.durable import Disk
from retrieval.gateway.atomic_folders import draft_beside, put_in_place, recover, sole_builder
from retrieval.graph.base import GraphStore, NameOf
from retrieval.graph.errors import GraphBusy, GraphDamaged, GraphError
from retrieval.graph.linking.folding import fold
from retrieval.index.base import Rows, VectorIndex
from retrieval.index.errors import IndexDamaged, IndexMismatch
from retrieval.index.open import create_index, open_index
from retrieval.index.options import OpenOptions
from retrieval.index.spec import IndexSpec

log = logging.getLogger(__name__)
MAX_IN_MEMORY: Final = 100_000
_BATCH: Final = 4_096
_MANIFEST: Final = "names.json"
_CUT: Final = "\0"


@dataclass(frozen=True, slots=True)
class NameRows:
    """Store names by number in one text, about 50 bytes each with their node's id and kind.

    ``words``: all of their tokens. ``digest`` of everything, in order.
    """

    blob: bytes
    offsets: NDArray[np.int64]
    words: frozenset[str]
    digest: str

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NameOf:
        name, node_id, kind, synonym = self.blob[self.offsets[row] : self.offsets[row + 1]].decode().split(_CUT)
        return NameOf(name, node_id, kind, synonym == "1")


class NameVectors(Protocol):
    """Search the vectors of names."""

    def search(self, queries: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
        """Return rows [n, k] and scores, higher for better, best first; row -1 if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class MatrixVectors:
    """Search float32 [names, dim] in memory: 1.5 KB a name at 384 dimensions."""

    matrix: Floats

    def search(self, queries: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
        scores = queries @ self.matrix.T
        k = min(k, scores.shape[1])
        part = np.argpartition(-scores, k - 1, axis=1)[:, :k] if k else np.empty((len(queries), 0), np.int64)
        found = np.take_along_axis(scores, part, 1)
        order = np.argsort(-found, axis=1, kind="stable")
        return np.take_along_axis(part, order, 1).astype(np.int64), np.take_along_axis(found, order, 1)


@dataclass(frozen=True, slots=True)
class IndexVectors:
    """Search an index on disk, in which row r has the id r + 1 because ids are positive."""

    index: VectorIndex

    def search(self, queries: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
        found = self.index.search(queries, k)
        return np.where(found.ids > 0, found.ids - 1, -1), found.scores


def read_names(store: GraphStore, kinds: Iterable[str] | None = None) -> NameRows:
    """Read each name once as the store gives it, except a name or id with a zero character."""
    blob, offsets, words = bytearray(), array("q", [0]), set[str]()
    digest = sha256()
    for name in store.names(kinds):
        fields = (name.name, name.node_id, name.kind)
        if any(_CUT in field for field in fields):
            continue
        row = _CUT.join((*fields, "1" if name.is_synonym else "0")).encode("utf-8", "replace")
        digest.update(len(row).to_bytes(4, "little") + row)
        blob += row
        offsets.append(len(blob))
        words.update(fold(name.name))
    return NameRows(bytes(blob), np.array(offsets, np.int64), frozenset(words), digest.hexdigest())


def vectors_in_memory(names: NameRows, encoder: Encoder) -> MatrixVectors:
    """Encode all names into memory.

    Raises:
        GraphError: there are more than 100,000 names, or the encoder does not score by inner products.
    """
    if len(names) > MAX_IN_MEMORY:
        raise GraphError(f"{len(names)} names are too many for memory ({MAX_IN_MEMORY}): name a folder", param="folder")
    if encoder.metric != "inner_product":
        raise GraphError(f"{encoder.name} scores by {encoder.metric}; linking needs inner products", param="encoder")
    parts = [encoder.encode_passages(batch) for _, batch in _batches(names)]
    return MatrixVectors(np.concatenate(parts) if parts else np.empty((0, encoder.dim), np.float32))


def build_folder(folder: Path, store: GraphStore, names: NameRows, encoder: Encoder) -> None:
    """Build the index in an empty ``folder``.

    Raises:
        IndexInputInvalid, IndexBusy, IndexWriteFailed
        GraphError: the encoder does not score by inner products.
    """
    if encoder.metric != "inner_product":
        raise GraphError(f"{encoder.name} scores by {encoder.metric}; linking needs inner products", param="encoder")
    index = create_index(folder / "index", _spec(encoder))
    try:
        for first, batch in _batches(names):
            ids = np.arange(first + 1, first + 1 + len(batch), dtype=np.int64)
            index.add(Rows(ids=ids, vectors=encoder.encode_passages(batch)))
        index.commit()
    finally:
        index.close()
    Disk().replace(folder / _MANIFEST, json.dumps(_facts(store, names, encoder), sort_keys=True).encode())


def open_folder(folder: Path, store: GraphStore, names: NameRows, encoder: Encoder) -> tuple[IndexVectors, VectorIndex]:
    """Return the vectors, and their index, which the caller must close.

    Raises:
        GraphDamaged: the folder is missing or incomplete, or of another graph, release, set of names or encoder.
        BackendUnavailable
    """
    wanted = _facts(store, names, encoder)
    _check(folder, wanted)
    try:
        index = open_index(folder / "index", _spec(encoder), OpenOptions(threads=1))
    except (IndexDamaged, IndexMismatch, OSError) as fault:
        raise GraphDamaged(f"{folder} holds no index that can be read: {fault}") from fault
    try:
        # Another process may have replaced the folder since the first check.
        _check(folder, wanted)
    except GraphDamaged:
        index.close()
        raise
    return IndexVectors(index), index


def open_or_build(
    folder: Path, store: GraphStore, names: NameRows, encoder: Encoder, wait_s: float
) -> tuple[IndexVectors, VectorIndex]:
    """Open the folder if it matches; otherwise build it in one process and install it atomically.

    Open readers of an older folder are not affected.

    Raises:
        GraphBusy: another process has not built it within ``wait_s``.
        GraphError: the folder cannot be written.
        As ``build_folder`` and ``open_folder``.
    """
    # Write nothing if the index is already built: the folder may be read-only.
    with suppress(GraphDamaged):
        return open_folder(folder, store, names, encoder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with sole_builder(folder, wait_s):
            recover(folder)
            try:
                return open_folder(folder, store, names, encoder)
            except GraphDamaged as fault:
                log.info("names of a graph become an index: names=%d cause=%s", len(names), fault.message)
            _build_in_place(folder, store, names, encoder)
            return open_folder(folder, store, names, encoder)
    except TimeoutError as fault:
        raise GraphBusy(str(fault)) from fault
    except OSError as fault:
        raise GraphError(f"{folder} cannot be written: {fault.strerror or fault}") from fault


def _build_in_place(folder: Path, store: GraphStore, names: NameRows, encoder: Encoder) -> None:
    draft = draft_beside(folder)
    try:
        build_folder(draft, store, names, encoder)
        put_in_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check(folder: Path, wanted: dict[str, Any]) -> None:
    try:
        facts = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError) as fault:
        raise GraphDamaged(f"{folder} has no readable {_MANIFEST} ({fault})") from fault
    if facts != wanted:
        raise GraphDamaged(f"{folder} holds other names, or vectors of another encoder")


def _facts(store: GraphStore, names: NameRows, encoder: Encoder) -> dict[str, Any]:
    return {
        "graph": store.graph,
        "release": store.release,
        "names": len(names),
        "sha256": names.digest,
        # As JSON gives it back.
        "encoder": json.loads(json.dumps(encoder.fingerprint.as_dict())),
    }


def _spec(encoder: Encoder) -> IndexSpec:
    # Flat: an approximate index does not find every name by itself.
    return IndexSpec(dim=encoder.dim, metric=encoder.metric, kind="flat", encoder=encoder.fingerprint.as_dict())


def _batches(names: NameRows) -> Iterator[tuple[int, list[PassageText]]]:
    rows = iter(range(len(names)))
    while part := list(islice(rows, _BATCH)):
        yield part[0], [PassageText("", names[row].name) for row in part]
