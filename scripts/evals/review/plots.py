"""Draw recall over the number of articles read, and what a screening score is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(
    curve: Sequence[tuple[int, float]], reliability: Sequence[tuple[float, float, int]], folder: Path
) -> list[Path]:
    """Write two figures as PNG and return their paths; a figure without data is left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if curve:
        figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
        axes.plot([at for at, _ in curve], [share for _, share in curve], marker="o")
        axes.set(xlabel="articles, best first", ylabel="recall of gold articles", xscale="log", ylim=(0, 1))
        axes.set_xticks([at for at, _ in curve], [str(at) for at, _ in curve])
        written.append(folder / "clinfo_recall.png")
        figure.savefig(written[-1], dpi=110)
        pyplot.close(figure)
    if reliability:
        figure, axes = pyplot.subplots(figsize=(3.6, 3.2), layout="constrained")
        axes.plot([0, 1], [0, 1], linewidth=0.8, linestyle="--", color="gray")
        axes.plot([score for score, _, _ in reliability], [share for _, share, _ in reliability], marker="o")
        axes.set(xlabel="screening score", ylabel="share of gold articles", xlim=(0, 1), ylim=(0, 1))
        written.append(folder / "clinfo_reliability.png")
        figure.savefig(written[-1], dpi=110)
        pyplot.close(figure)
    return written
