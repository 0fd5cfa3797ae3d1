"""Exact scoring of vectors in blocks."""

from __future__ import annotations

import numpy as np

from retrieval.index.backends.base import as_floats, exact_top_k, merge_hits
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


def test_every_finite_number_of_16_bits_keeps_its_value() -> None:
    """Zeros of both signs and the smallest numbers too; what has 32 bits stays as it is."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 8)
    floats = as_floats(halves)

    assert np.array_equal(floats, halves.astype(np.float32))
    assert np.array_equal(np.signbit(floats), np.signbit(halves))
    assert as_floats(floats) is floats


def test_hits_of_one_part_are_ordered_where_scores_are_equal() -> None:
    """By id; strictly descending ones are taken as they are."""
    ids, scores = np.array([[5, 3, 9]]), np.array([[2.0, 2.0, 1.0]], np.float32)
    assert merge_hits([(ids, scores)], 1, 3).ids.tolist() == [[3, 5, 9]]
    scores[0, 0] = 3.0
    assert merge_hits([(ids, scores)], 1, 3).ids.tolist() == [[5, 3, 9]]
    assert merge_hits([(ids, scores)], 1, 2).ids.tolist() == [[5, 3]]
