"""The figures of the knowledge graph are drawn from results, small enough for a page."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from graph_doubles import PSORIASIS, STATEMENTS

from retrieval.graph.context.select import Context, gather
from retrieval.graph.types import Neighbourhood
from scripts.benchmarks.retrieval import kg_context
from scripts.evals.comparators.measures import VARIANTS, Row, wilson
from scripts.evals.comparators.plots import comparison
from scripts.evals.kg import survival as kg_survival

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
SIGNATURE = b"\x89PNG\r\n"
MOST_BYTES = 80_000


def is_small_png(path: Path) -> bool:
    data = path.read_bytes()
    return data.startswith(SIGNATURE) and len(data) < MOST_BYTES


def test_times_are_told_with_their_ratio() -> None:
    """Processor time first, wall time in brackets."""
    times = kg_context.Times(edges=113, slow=(984, 678), fast=(19, 10.3), bare=(0.1, 0.05))
    assert times.line() == "| 113 | 984 | 678 | 19.0 | 10.3 | 0.1 | 66 (52) |"


@needs_matplotlib
def test_the_comparison_is_drawn(tmp_path: Path) -> None:
    """Also rows that found nothing and a variant without questions."""
    full = {variant: wilson(3, 4) for variant in VARIANTS}
    none = {variant: wilson(0, 0) for variant in VARIANTS}
    rows = [
        Row(set="made", retriever=name, edge=edge, p_value=edge, provenance=edge, disease=edge,
            tokens_mean=mean, tokens_max=int(mean), prompt_tokens_mean=prompt, ms=1.0)
        for name, edge, mean, prompt in (("a", full, 700.0, 0.0), ("b", none, 0.0, 344.0))
    ]  # fmt: skip
    comparison(rows, tmp_path / "a.png")
    comparison(rows, tmp_path / "b.png")
    assert is_small_png(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@needs_matplotlib
def test_times_and_survival_are_drawn(tmp_path: Path) -> None:
    """From the records that the tables are made of."""
    times = [kg_context.Times(edges=n, slow=(9.0 * n, 6.0 * n), fast=(19.0, 10.0), bare=(0.1, 0.1)) for n in (113, 300)]
    kg_context.plot(times, tmp_path / "context.png")
    around = Neighbourhood(node=PSORIASIS, statements=STATEMENTS[:5], graph="", release="")
    asked = kg_survival.Asked({"correct_node": "IL23R"}, gather("psoriasis and IL23R", [], [around]), True)
    context = Context(STATEMENTS[:2], (0.5, 0.4), "text", 120, 3, (PSORIASIS,))
    told = {name: [context] for name in ("ours, 800 tokens", "ours, 400 tokens", "the paper's")}
    assert kg_survival.share([asked], told["the paper's"], 1, 20) == (1, 1)
    kg_survival.plot([asked], told, tmp_path / "survival.png")
    assert is_small_png(tmp_path / "context.png") and is_small_png(tmp_path / "survival.png")
