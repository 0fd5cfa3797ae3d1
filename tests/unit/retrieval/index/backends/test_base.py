"""Exact scoring of vectors in blocks."""

from __future__ import annotations

import numpy as np

from retrieval.index.backends.base import exact_top_k, merge_hits
from retrieval.index.base import NO_ID


def test_scanning_in_blocks_is_scanning_at_once() -> None:
    """More rows than one block; equal vectors in the order of their rows."""
    vectors = np.random.default_rng(0).standard_normal((20_000, 4)).astype(np.float16)
    vectors[[3, 9_000, 19_999]] = 9
    queries = np.ones((2, 4), np.float32)

    rows, scores = exact_top_k("inner_product", queries, vectors, np.arange(20_000), 5)

    assert rows[0, :3].tolist() == [3, 9_000, 19_999]
    assert scores[0, :3].tolist() == [36, 36, 36]
    assert merge_hits([], 2, 3).ids.tolist() == [[NO_ID] * 3] * 2
