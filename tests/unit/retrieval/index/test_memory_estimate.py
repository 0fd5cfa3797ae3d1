"""Estimates of memory."""

from __future__ import annotations

import pytest

from retrieval.index.spec import estimate


@pytest.mark.parametrize(
    ("kind", "per_row"),
    [("flat", 1536), ("sq8", 768), ("ivf-sq8", 792), ("ivf-pq", 124), ("hnsw", 1808), ("ivf-rabitq", 904)],
)
def test_estimates_are_near_what_was_measured(kind: str, per_row: int) -> None:
    """Bytes per vector at 200,000 x 768."""
    found = estimate(kind, 200_000, 768)  # type: ignore[arg-type]

    assert found.memory / 200_000 == pytest.approx(per_row, rel=0.08)
    assert found.disk >= 200_000 * 1536
