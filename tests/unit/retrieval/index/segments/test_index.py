"""Segments, tail and tombstones together, over a back end that cannot be trusted, and against a plain dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_rows import DIM, clustered, matching_mask, nearest, recall, rows_for
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.index.backends.base import SegmentVectors, Sink
from retrieval.index.base import NO_ID, Mask, RowFilter, Rows
from retrieval.index.segments.index import IndexResources, SegmentedIndex
from retrieval.index.segments.manifest import Manifest, OpenOptions
from retrieval.index.segments.storage import Storage
from retrieval.index.spec import Kind, KindChoice


class CarelessBackend:
    """As a GPU build of faiss: ignores the mask, returns at most ``most`` rows, and its scores are rough."""

    name = "careless"

    def __init__(self, most: int = 2_048) -> None:
        self.most = most

    def kind_for(self, choice: KindChoice, rows: int) -> Kind:
        return "flat"

    def build(self, data: SegmentVectors, sink: Sink) -> None:
        raise AssertionError("flat segments have no structure")

    def open(self, data: SegmentVectors) -> CarelessSearcher:
        return CarelessSearcher(data, self.most)

    def describe(self) -> dict[str, Any]:
        return {}


class CarelessSearcher:
    exact = False
    flat = None

    def __init__(self, data: SegmentVectors, most: int) -> None:
        self._vectors, self._most = data.vectors.astype(np.float32), most

    def search(
        self, queries: Floats, k: int, allowed: Mask | None, selectivity: float
    ) -> tuple[NDArray[np.int64], Floats]:
        scores = np.round(queries @ self._vectors.T, 2)
        order = np.argsort(-scores, axis=1)[:, : min(k, self._most)]
        missing = np.full((len(queries), 1), NO_ID)
        return np.hstack([missing, order]), np.hstack([missing * 0, np.take_along_axis(scores, order, 1)])

    def bytes_memory(self) -> int:
        return 0


@contextmanager
def careless_index(folder: Path, most: int = 2_048, **options: int) -> Iterator[SegmentedIndex]:
    chosen = OpenOptions(write=True, filtered="structure", **options)  # type: ignore[arg-type]
    manifest = Manifest(generation=0, dim=DIM, metric="inner_product", kind="auto", encoder={})
    storage = Storage(folder, chosen.disk)
    if not storage.exists():
        storage.prepare()
        storage.publish(manifest).close()
    index = SegmentedIndex(IndexResources(storage, CarelessBackend(most), chosen, None), manifest)
    yield index
    index.close()


@pytest.mark.parametrize("most", [5, 2_048])
def test_a_back_end_that_ignores_filters_leaks_nothing(tmp_path: Path, most: int) -> None:
    """Nor one that finds too few: what is missing is found by a scan."""
    rows, queries = rows_for(clustered(1_500)), clustered(5, seed=1)
    with careless_index(tmp_path / "index", most) as index:
        index.add(rows)
        index.commit()
        for where in (RowFilter(namespaces=frozenset({2})), RowFilter(ids=np.array([1, 8, 15])), RowFilter(types=4)):
            mask = matching_mask(rows, where)
            for k in (10, int(mask.sum()) + 3):
                found = index.search(queries, k, where)
                assert np.isin(found.ids, [*rows.ids[mask], NO_ID]).all()
                assert recall(found.ids, nearest("inner_product", rows, queries, k, mask)) >= 0.97
            assert ((found.ids != NO_ID).sum(axis=1) == mask.sum()).all()


def test_a_tail_whose_rows_are_all_deleted_takes_no_segment(tmp_path: Path) -> None:
    """And an index whose rows are all deleted is an empty one."""
    rows = rows_for(clustered(20))
    with careless_index(tmp_path / "index", tail_rows=8) as index:
        index.add(rows)
        index.delete(rows.ids)
        index.add(rows)
        assert (index.stats().rows, index.stats().segments) == (20, 0)
        index.commit()
        index.delete(rows.ids)
        index.commit()
        assert (index.stats().rows, index.stats().segments, index.stats().bytes_disk) == (0, 0, 0)
        assert (index.search(rows.vectors[:1], 2).ids == NO_ID).all()
    with careless_index(tmp_path / "index") as index:
        assert index.stats().rows == 0


changes: st.SearchStrategy[tuple[str, list[int]]] = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(1, 40), min_size=1, max_size=12, unique=True)),
    st.tuples(st.just("delete"), st.lists(st.integers(1, 40), max_size=12)),
    st.tuples(st.sampled_from(["commit", "compact", "reopen"]), st.just([])),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(changes, max_size=14))
def test_any_sequence_of_changes_leaves_what_a_dictionary_would_hold(steps: list[tuple[str, list[int]]]) -> None:
    """Every id once, with its last vector; reopening goes back to the last commit."""
    rng, state, durable = np.random.default_rng(0), dict[int, Floats](), dict[int, Floats]()
    with TemporaryDirectory() as home:
        for span in _spans(steps):
            with careless_index(Path(home) / "index", tail_rows=8, segment_rows=30) as index:
                state = dict(durable)
                for name, ids in span:
                    if name == "add":
                        vectors = rng.standard_normal((len(ids), DIM)).astype(np.float32)
                        index.add(Rows(ids=np.array(ids), vectors=vectors, dates=np.array(ids, np.int32)))
                        state.update(zip(ids, vectors, strict=True))
                    elif name == "delete":
                        gone = {one for one in ids if state.pop(one, None) is not None}
                        assert index.delete(np.array(ids, np.int64)) == len(gone)
                    elif name in ("commit", "compact"):
                        getattr(index, name)()
                        durable = dict(state)
                    _check(index, state)


def _spans(steps: list[tuple[str, list[int]]]) -> Iterator[list[tuple[str, list[int]]]]:
    span: list[tuple[str, list[int]]] = []
    for step in steps:
        if step[0] == "reopen":
            yield span
            span = []
        else:
            span.append(step)
    yield span
    yield [("delete", [])]


def _check(index: SegmentedIndex, state: dict[int, Floats]) -> None:
    found = {}
    for part in index.export():
        assert part.dates is not None
        assert np.array_equal(part.dates, part.ids)
        for one, vector in zip(part.ids.tolist(), part.vectors, strict=True):
            assert one not in found
            found[one] = vector
    assert found.keys() == state.keys()
    assert all(np.allclose(found[one], state[one], atol=0.01) for one in found)
    assert index.stats().rows == len(state)
    if state:
        one = next(iter(state))
        assert index.search(state[one][None] * 3, len(state)).ids[0].tolist().count(one) == 1
