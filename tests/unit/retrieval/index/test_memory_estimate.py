"""Estimates of memory, and refusal of what does not fit."""

from __future__ import annotations

import pytest

from retrieval.errors import INDEX_TOO_LARGE, IndexFault
from retrieval.index.spec import GIB, MemoryBudget, MemoryClaim, estimate


@pytest.mark.parametrize(
    ("kind", "per_row"),
    [("flat", 1536), ("sq8", 768), ("ivf-sq8", 792), ("ivf-pq", 124), ("hnsw", 1808), ("ivf-rabitq", 904)],
)
def test_estimates_are_near_what_was_measured(kind: str, per_row: int) -> None:
    """Bytes per vector at 200,000 x 768."""
    found = estimate(kind, 200_000, 768)  # type: ignore[arg-type]

    assert found.memory / 200_000 == pytest.approx(per_row, rel=0.08)
    assert found.disk >= 200_000 * 1536


def test_the_ledger_refuses_what_does_not_fit_and_tells_the_numbers() -> None:
    """All of PubMed flat is 54.4 GiB; beside it, an engine gets the rest and nothing may come after it."""
    ledger = MemoryBudget({"cuda:0": 80.0}, reserve_gib=3.0)
    pubmed = estimate("flat", 38_000_000, 768).memory
    ledger.claim(MemoryClaim("pubmed", "index", "cuda:0", pubmed))
    with pytest.raises(
        IndexFault, match=r"54\.39 GiB of cuda:0, of which 22\..*index pubmed: 54\.39", check=INDEX_TOO_LARGE.is_of
    ):
        ledger.claim(MemoryClaim("again", "index", "cuda:0", pubmed))
    ledger.claim(MemoryClaim("medcpt", "encoder", "cuda:0", 1 * GIB))
    ledger.claim(MemoryClaim("llama", "engine", "cuda:0", ledger.left("cuda:0")))
    assert ledger.left("cuda:0") == 0
    with pytest.raises(IndexFault, match="before medcpt"):
        ledger.claim(MemoryClaim("late", "index", "cuda:0", 0))
    ledger.release("llama")
    assert ledger.left("cuda:0") > 20 * GIB
    with pytest.raises(IndexFault, match="budget"):
        ledger.claim(MemoryClaim("x", "index", "cuda:1", 0))
