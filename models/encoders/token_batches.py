"""Group token rows into batches of bounded cost.

Pure: lengths in, row indices out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_SHORT: Final = 32
_SHORT_STEP: Final = 8
_STEP: Final = 32


class Batch(NamedTuple):
    """Group rows that run together.

    ``rows`` are indices into the lengths given; every row is padded to ``width`` tokens.
    """

    width: int
    rows: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Return the number of tokens computed, padding counted."""
        return self.width * len(self.rows)


def padded_width(length: int, limit: int) -> int:
    """Return the multiple of 32 (of 8 up to 32) that ``length`` is padded to, never over ``limit``."""
    # Few widths mean few tensor shapes: allocators keep memory for every shape they have seen.
    step = _SHORT_STEP if length <= _SHORT else _STEP
    return max(length, min(-(-max(length, 1) // step) * step, limit))


def plan_batches(lengths: Sequence[int], budget: int, limit: int) -> list[Batch]:
    """Assign every row to one batch, longest rows first, so that running out of memory shows at the start.

    ``budget`` is tokens per batch, padding counted; only a single row may exceed it. ``limit`` is the longest row that
    the model accepts. Which rows share a batch depends on their lengths and order alone.
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
