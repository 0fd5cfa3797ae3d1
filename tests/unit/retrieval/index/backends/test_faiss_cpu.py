"""FAISS on the processor: rows as they are stored, scanned."""

from __future__ import annotations

import numpy as np
import pytest

from models.encoders.base import Metric
from retrieval.index.backends.base import SegmentVectors, best, exact_top_k
from retrieval.index.backends.faiss_cpu import FaissCpuBackend


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
@pytest.mark.parametrize("queries", [1, 5, 40])
def test_a_flat_scan_is_exact(metric: Metric, queries: int) -> None:
    """Over more than one large page: the best rows, their scores, and of equal vectors, at any place, equal scores."""
    random = np.random.default_rng(1)
    vectors = random.standard_normal((6_000, 384)).astype(np.float16)
    vectors[[7, 100, 3_001, 5_999]] = vectors[5]
    asked = (vectors[5:6] + random.standard_normal((queries, 384)) / 10).astype(np.float32)
    searcher = FaissCpuBackend(threads=1).open(SegmentVectors(kind="flat", metric=metric, vectors=vectors))
    rows, scores = best(*searcher.search(asked, 10, None, 1.0), 10)
    truth, exact = exact_top_k(metric, asked, vectors, np.arange(6_000), 10)

    assert searcher.exact and np.array_equal(rows, truth)
    assert np.allclose(scores, exact, rtol=1e-5)
    assert rows[:, :5].tolist() == [[5, 7, 100, 3_001, 5_999]] * queries
    assert (scores[:, :5] == scores[:, :1]).all()
