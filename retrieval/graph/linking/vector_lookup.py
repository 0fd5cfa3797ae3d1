"""Find names that differ from the dictionary's spelling by their vectors and by their words.

Vectors propose candidates and spelling decides, because no threshold of similarity or margin separates right from wrong
ones. Measured with all-MiniLM-L6-v2 over 6,306 names of diseases: of the 246 of them that development questions name, a
name removed from the graph still matched another at 0.6 or above 215 times, at 0.85 90 times ("beta-mannosidosis"
matched alpha-mannosidosis at 0.90), while names with one wrong letter were often below 0.7.

So a candidate must have the same words (``agreement``: typos only, the same numbers), a similarity of at least 0.45,
below which chance matches begin ("T2DM" T cell deficiency at 0.38, "pasta" impetigo at 0.41), and be 0.02 better than
the next node with the same words. Otherwise the span stays unlinked. Measured with these rules over all 6,306 names: of
6,260 with one random typo, 4,945 were right, 2 wrong, the rest unlinked; removed from the graph one by one, 11 were
linked to another node, 4 of them to a second node of the same name, the others to one that is a letter or two away
(ectropion, entropion).
"""

from __future__ import annotations

import json
import logging
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Encoder, Floats, PassageText
from retrieval.errors import GraphBusy, GraphDamaged, GraphError, IndexDamaged, IndexMismatch
from retrieval.graph.linking.dictionary_lookup.ambiguity import is_generic
from retrieval.graph.linking.dictionary_lookup.names import agreement
from retrieval.graph.linking.dictionary_lookup.normalize import fold
from retrieval.graph.linking.dictionary_lookup.spans import outside
from retrieval.graph.types import GraphStore, Mention, NameOf, Span
from retrieval.index.base import Rows, VectorIndex
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec
from retrieval.storage.files import Disk, build_lock, create_draft, make_folder, recover, replace_folder

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
    expected = _facts(store, names, encoder)
    _check(folder, expected)
    try:
        index = open_index(folder / "index", _spec(encoder), OpenOptions(threads=1))
    except (IndexDamaged, IndexMismatch, OSError) as fault:
        raise GraphDamaged(f"{folder} holds no index that can be read: {fault}") from fault
    try:
        # Another process may have replaced the folder since the first check.
        _check(folder, expected)
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
        make_folder(folder.parent)
        with build_lock(folder, wait_s):
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
    draft = create_draft(folder)
    try:
        build_folder(draft, store, names, encoder)
        replace_folder(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check(folder: Path, expected: dict[str, Any]) -> None:
    try:
        facts = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError) as fault:
        raise GraphDamaged(f"{folder} has no readable {_MANIFEST} ({fault})") from fault
    if facts != expected:
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


FLOOR: Final = 0.45
MARGIN: Final = 0.02
BUILD_WAIT_S: Final = 120.0
_NEIGHBOURS: Final = 24
_MAX_SPANS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestMatch:
    """Hold the nearest node of a span; if ``accepted`` is False, the linker abstains for the reason ``why``."""

    name: NameOf
    score: float
    margin: float
    accepted: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class NearestNames:
    """Link spans by vectors, from any thread, blocking while the encoder runs; made by ``build_nearest``."""

    store: GraphStore
    encoder: Encoder
    names: NameRows
    vectors: NameVectors
    index: VectorIndex | None = None
    floor: float = FLOOR
    margin: float = MARGIN

    def find(self, spans: Sequence[Span], kinds: frozenset[str] | None = None) -> list[Mention]:
        """Return mentions without overlaps, the longest spans first, for at most 64 spans."""
        spans = [span for span in spans if not is_generic(tuple(fold(span.text)))][:_MAX_SPANS]
        mentions: list[Mention] = []
        used_spans: list[tuple[int, int]] = []
        guesses = dict(zip(spans, self.guess([span.text for span in spans], kinds), strict=True))
        for span in spans:
            guess = guesses[span]
            if guess is None or not guess.accepted or not list(outside([span], used_spans)):
                continue
            node = self.store.node(guess.name.node_id)
            if node is not None:
                used_spans.append((span.start, span.end))
                mentions.append(
                    Mention(
                        node=node,
                        start=span.start,
                        end=span.end,
                        method="nearest",
                        score=guess.score,
                        margin=guess.margin,
                    )
                )
        return mentions

    def guess(self, texts: Sequence[str], kinds: frozenset[str] | None = None) -> list[NearestMatch | None]:
        """Return for each text its accepted node, or the nearest one and why it was rejected; None without names."""
        if not texts or not len(self.names):
            return [None] * len(texts)
        rows, scores = self.vectors.search(self.encoder.encode_queries(texts), _NEIGHBOURS)
        return [
            self._judge(
                text,
                [(float(score), self.names[int(row)]) for row, score in zip(*found, strict=True) if row >= 0],
                kinds,
            )
            for text, found in zip(texts, zip(rows, scores, strict=True), strict=True)
        ]

    def close(self) -> None:
        if self.index is not None:
            self.index.close()

    def _judge(self, text: str, near: list[tuple[float, NameOf]], kinds: frozenset[str] | None) -> NearestMatch | None:
        near = [(score, name) for score, name in near if kinds is None or name.kind in kinds]
        if not near:
            return None
        words = fold(text)
        best: dict[str, tuple[float, float, NameOf]] = {}
        for score, name in near:
            same = agreement(words, fold(name.name), self.names.words)
            if same and score > best.get(name.node_id, (-2.0, 0.0, name))[0]:
                best[name.node_id] = (score, same, name)
        if not best:
            score, name = near[0]
            return NearestMatch(name=name, score=score, margin=0.0, accepted=False, why="of other words")
        ranked = sorted(best.values(), key=lambda found: (-found[1], -found[0]))
        score, _, name = ranked[0]
        margin = 1.0
        if len(ranked) > 1:
            margin = ranked[0][0] * ranked[0][1] - ranked[1][0] * ranked[1][1]
        why = "too far" if score < self.floor else "another is as near" if margin < self.margin else ""
        return NearestMatch(name=name, score=score, margin=margin, accepted=not why, why=why)


def build_nearest(
    store: GraphStore, encoder: Encoder, folder: Path | None = None, *, wait_s: float = BUILD_WAIT_S
) -> NearestNames:
    """Build or open the vectors of all names of the graph.

    Without ``folder`` they are in memory, up to 100,000 names; with it in an index on disk, opened if it is complete
    and of these names, and built otherwise (about 5 ms a name on one core).

    Raises:
        GraphBusy: another process builds the folder for longer than ``wait_s``.
        GraphError: too many names, or an encoder without inner products.
        As ``open_or_build``.
    """
    names = read_names(store)
    if folder is None:
        return NearestNames(store, encoder, names, vectors_in_memory(names, encoder))
    vectors, index = open_or_build(folder, store, names, encoder, wait_s)
    return NearestNames(store, encoder, names, vectors, index)
