"""Draw the figures of docs/figures. matplotlib is imported only for that: runs without --plot need none."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

DPI: Final = 100
BLUE: Final = "#33658a"
SKY: Final = "#86bbd8"
AMBER: Final = "#f6ae2d"
ORANGE: Final = "#f26419"
RED: Final = "#c1666b"


def new_figure(columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """(figure, its axes from left to right), ``size`` in inches; drawn without a screen."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=size)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Without the program's version in it: the same numbers give the same file."""
    figure.tight_layout()
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
