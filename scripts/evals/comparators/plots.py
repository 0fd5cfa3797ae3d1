"""Draw the figure of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.evals.comparators.measures import VARIANTS, Row
from scripts.figures import AMBER, BLUE, ORANGE, RED, SKY, new_figure, save

_COLOURS: Final = {"original": BLUE, "perturbed": AMBER, "slipped": RED}
_LABELS: Final = {"original": "as asked", "perturbed": "small letters", "slipped": "one slip"}


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
    right.barh(list(places), [max(1.0, row.tokens_mean) for row in rows], 0.5, color=SKY, label="context, mean")
    right.plot([max(1, row.tokens_max) for row in rows], list(places), "k|", markersize=12, label="context, max")
    before = [
        (row.prompt_tokens_mean, place) for place, row in zip(places, rows, strict=True) if row.prompt_tokens_mean
    ]
    if before:
        right.plot(*zip(*before, strict=True), "D", color=ORANGE, markersize=5, label="read before it, mean")
    right.set_yticks(list(places), [""] * len(rows))
    right.set(xscale="log", xlim=(10, None), xlabel="tokens (logarithmic)")
    right.invert_yaxis()
    right.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, frameon=False, fontsize="small")
    save(figure, path)
