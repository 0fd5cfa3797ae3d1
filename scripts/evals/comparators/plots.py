"""Figures of the knowledge graph's evaluations. matplotlib is imported where a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scripts.evals.comparators.measures import VARIANTS, Row

_DPI: Final = 100
_COLOURS: Final = {"original": "#33658a", "perturbed": "#f6ae2d", "slipped": "#c1666b"}
_LABELS: Final = {"original": "as asked", "perturbed": "small letters", "slipped": "one slip"}


def new_figure(columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """(figure, its axes from left to right)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=size)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Few colours and no date: a figure drawn again from the same numbers is the same file."""
    figure.tight_layout()
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def comparison(rows: Sequence[Row], path: Path) -> None:
    """Left: the share of questions whose edge is in the context, with Wilson's intervals. Right: tokens."""
    figure, (left, right) = new_figure(2, (11, 0.55 * len(rows) + 1.8))
    places = range(len(rows))
    for offset, variant in zip((-0.27, 0, 0.27), VARIANTS, strict=True):
        shares = [row.edge[variant] for row in rows]
        spread = [[max(0, s.value - s.low) for s in shares], [max(0, s.high - s.value) for s in shares]]
        at = [place + offset for place in places]
        left.barh(at, [s.value for s in shares], 0.26, label=_LABELS[variant], color=_COLOURS[variant])
        left.errorbar([s.value for s in shares], at, xerr=spread, fmt="none", ecolor="black", elinewidth=0.8)
    left.set_yticks(list(places), [row.retriever for row in rows])
    left.set(xlim=(0, 1.02), xlabel=f"needed edge in the context, {rows[0].set}")
    left.invert_yaxis()
    left.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, frameon=False)
    right.barh(list(places), [max(1.0, row.tokens_mean) for row in rows], 0.5, color="#86bbd8", label="context, mean")
    right.plot([max(1, row.tokens_max) for row in rows], list(places), "k|", markersize=12, label="context, max")
    before = [
        (row.prompt_tokens_mean, place) for place, row in zip(places, rows, strict=True) if row.prompt_tokens_mean
    ]
    if before:
        right.plot(*zip(*before, strict=True), "D", color="#f26419", markersize=5, label="read before it, mean")
    right.set_yticks(list(places), [""] * len(rows))
    right.set(xscale="log", xlim=(10, None), xlabel="tokens (logarithmic)")
    right.invert_yaxis()
    right.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, frameon=False, fontsize="small")
    save(figure, path)
