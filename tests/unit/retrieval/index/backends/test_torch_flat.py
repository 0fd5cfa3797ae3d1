"""The torch back end: filter masks, blocks on the device."""

from __future__ import annotations

import numpy as np
import pytest

from models.encoders.base import Metric
from retrieval.index.backends.base import SegmentVectors, exact_top_k
from retrieval.index.base import NO_ID


def test_torch_keeps_one_mask_for_many_searches() -> None:
    """A forbidden row is not among what the searcher returns, whatever its score."""
    pytest.importorskip("torch")
    from retrieval.index.backends.torch_flat import TorchFlatBackend

    vectors = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float16)
    searcher = TorchFlatBackend().open(SegmentVectors(kind="flat", metric="inner_product", vectors=vectors))
    allowed = np.zeros(300, np.bool_)
    allowed[5:8] = True

    rows, scores = searcher.search(np.ones((2, 8), np.float32), 10, allowed, 0.01)

    assert sorted(rows[0, :3].tolist()) == [5, 6, 7]
    assert (rows[:, 3:] == NO_ID).all() and np.isneginf(scores[:, 3:]).all()
    assert searcher.bytes_memory() == 300 * 8 * 2


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_blocks_on_a_device_are_searched_as_one(metric: Metric) -> None:
    """The GPU back end's searcher over blocks on the CPU: rows of the whole segment, masks met by fetching more."""
    faiss = pytest.importorskip("faiss")
    from retrieval.index.backends.faiss_cpu import metric_of
    from retrieval.index.backends.faiss_gpu import GpuSearcher

    vectors = np.random.default_rng(0).standard_normal((900, 8)).astype(np.float32)
    blocks = []
    for start in range(0, 900, 400):
        blocks.append((start, faiss.IndexFlat(8, metric_of(faiss, metric))))
        blocks[-1][1].add(vectors[start : start + 400])
    searcher = GpuSearcher(faiss, tuple(blocks), 0, 1.0)
    allowed = np.arange(900) % 3 == 1
    queries = vectors[1:800:100]

    rows, scores = searcher.search(queries, 5, None, 1.0)
    some, _ = searcher.search(queries, 5, allowed, 1 / 3)

    truth, _ = exact_top_k(metric, queries, vectors, np.arange(900), 5)
    assert np.array_equal(rows, truth)
    assert (np.diff(scores, axis=1) <= 0).all()
    filtered, _ = exact_top_k(metric, queries, vectors, np.flatnonzero(allowed), 5)
    there = some != NO_ID
    assert allowed[some[there]].all()
    assert np.array_equal(some[there], filtered[there])
