"""The recall of a segment, and what is done where it is too low."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from index_rows import clustered, rows_for
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.index.backends.base import Backend, Searcher, SegmentVectors
from retrieval.index.backends.faiss_cpu import FaissCpuBackend
from retrieval.index.base import Columns, Mask
from retrieval.index.open import committed_recall, create_index, open_index
from retrieval.index.segments.manifest import OpenOptions, SegmentEntry
from retrieval.index.segments.segment import RowSelection, SegmentPlan, write_segment
from retrieval.index.segments.snapshot import MemtableSnapshot
from retrieval.index.spec import RECALL_GOAL, IndexSpec, Kind, KindChoice
from retrieval.storage.files import Disk

DIM = 64
ROWS = 4000


class _Small(FaissCpuBackend):
    """Takes for "auto", at any number of rows, the type that the real one takes for many."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self._kind = kind

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        return self._kind if choice == "auto" else choice


@dataclass(frozen=True)
class _HalfBlind:
    """Finds rows of even numbers alone."""

    inner: Searcher

    @property
    def exact(self) -> bool:
        return self.inner.exact

    @property
    def flat(self) -> Searcher | None:
        return self.inner.flat

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        even = np.arange(ROWS) % 2 == 0
        return self.inner.search(queries, k, even if allowed is None else even & allowed, selectivity)

    def bytes_memory(self) -> int:
        return self.inner.bytes_memory()


class _Poor(_Small):
    """Opens one type so that it finds half of the rows."""

    def open(self, data: SegmentVectors) -> Searcher:
        opened = super().open(data)
        return _HalfBlind(opened) if data.kind == "ivf-pq" else opened


def unclustered(rows: int) -> Floats:
    vectors = np.random.default_rng(0).standard_normal((rows, DIM))
    unit: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def written(folder: Path, vectors: Floats, backend: Backend, choice: KindChoice = "auto") -> SegmentEntry:
    count = len(vectors)
    columns = Columns(
        ids=np.arange(1, count + 1, dtype=np.int64),
        dates=np.zeros(count, np.int32),
        types=np.zeros(count, np.int64),
        namespaces=np.zeros(count, np.int32),
    )
    source = MemtableSnapshot(columns, vectors, np.ones(count, np.bool_))
    plan = SegmentPlan(folder=folder, number=1, kind=choice, metric="inner_product", dim=DIM)
    folder.mkdir()
    return write_segment(plan, [RowSelection(source, np.arange(count))], backend, Disk())


def test_clustered_vectors_keep_the_type(tmp_path: Path) -> None:
    """With a quarter of the lists, and the recall that this has."""
    entry = written(tmp_path / "i", clustered(ROWS, DIM), _Small("ivf-sq8"))
    assert (entry.kind, entry.probe_share) == ("ivf-sq8", 0.25)
    assert entry.recall is not None
    assert entry.recall >= RECALL_GOAL


def test_unclustered_vectors_have_more_lists_probed(tmp_path: Path) -> None:
    """All, where half of them lose neighbours."""
    entry = written(tmp_path / "i", unclustered(ROWS), _Small("ivf-sq8"))
    assert (entry.kind, entry.probe_share) == ("ivf-sq8", 1.0)
    assert entry.recall is not None
    assert entry.recall >= RECALL_GOAL


def test_a_type_that_cannot_reach_the_goal_is_replaced_unless_it_was_chosen(tmp_path: Path) -> None:
    """By one that scans all rows; what was chosen is kept, with its recall."""
    entry = written(tmp_path / "i", unclustered(ROWS), _Poor("ivf-pq"))
    assert entry.kind == "sq8"
    assert entry.recall is not None
    assert entry.recall >= RECALL_GOAL
    chosen = written(tmp_path / "j", unclustered(ROWS), _Poor("ivf-pq"), "ivf-pq")
    assert chosen.kind == "ivf-pq"
    assert chosen.recall is not None
    assert chosen.recall < RECALL_GOAL


def test_the_recall_is_in_the_manifest_and_the_probes_are_used(tmp_path: Path) -> None:
    """Also by the next process; an exact index has 1, and one that is not there none."""
    spec = IndexSpec(dim=DIM, metric="inner_product", kind="ivf-sq8", encoder={"encoder_id": "test"})
    index = create_index(tmp_path / "i", spec, OpenOptions(write=True))
    vectors = unclustered(ROWS)
    rows = replace(rows_for(vectors), vectors=vectors)
    index.add(rows)
    assert committed_recall(tmp_path / "i") == 1.0
    index.commit()
    index.close()
    recall = committed_recall(tmp_path / "i")
    assert recall is not None
    assert recall >= RECALL_GOAL
    reader = open_index(tmp_path / "i", spec)
    assert reader.stats().detail["recall"] == recall
    exact = rows.ids[np.argsort(-(vectors[:50] @ vectors.T), axis=1)[:, :10]]
    found = reader.search(vectors[:50], 10).ids
    assert np.mean([len(set(a) & set(b)) for a, b in zip(exact.tolist(), found.tolist(), strict=True)]) >= 9.5
    assert reader.get([int(rows.ids[7]), 10**12])[int(rows.ids[7])] == pytest.approx(vectors[7], abs=1e-3)
    reader.close()
    assert committed_recall(tmp_path / "none") is None
