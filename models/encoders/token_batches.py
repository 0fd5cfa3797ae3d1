"""Groups token rows into batches of bounded cost. Pure: lengths in, row numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_SHORT: Final = 32
_SHORT_STEP: Final = 8
_STEP: Final = 32


class Batch(NamedTuple):
    """``rows`` are numbers into the lengths given; every row is padded to ``width`` tokens."""

    width: int
    rows: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Tokens computed, padding counted."""
        return self.width * len(self.rows)


def padded_width(length: int, limit: int) -> int:
    """The multiple of 32 (of 8 up to 32) that ``length`` is padded to, never over ``limit``."""
    # Few widths mean few tensor shapes: allocators keep memory for every shape they have seen.
    step = _SHORT_STEP if length <= _SHORT else _STEP
    return max(length, min(-(-max(length, 1) // step) * step, limit))


def plan_batches(lengths: Sequence[int], budget: int, limit: int) -> list[Batch]:
    """Every row once, longest first, so that what does not fit into memory shows at the start.

    ``budget`` is tokens per batch, padding counted; only a single row may be over it. ``limit`` is the longest row
    that the model takes. Which rows share a batch follows from their lengths and places alone.
    """
    batches: list[Batch] = []
    width, rows = 0, list[int]()
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        own = padded_width(lengths[row], limit)
        # A row half as wide would be more padding than text.
        if rows and ((len(rows) + 1) * width > budget or 2 * own <= width):
            batches.append(Batch(width, tuple(rows)))
            rows = []
        if not rows:
            width = own
        rows.append(row)
    if rows:
        batches.append(Batch(width, tuple(rows)))
    return batches
