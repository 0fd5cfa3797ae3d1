"""Decide which segments are merged, from their sizes alone.

Segments fall into tiers by a factor of eight. Eight of one tier are merged into one, so a row is rewritten only as
often as the index grows eightfold, and a search visits at most a few dozen segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FACTOR: Final = 8
_SMALLEST: Final = 1_024
# A commit's own merges stay below this fraction (1/n) of the largest segment size; ``compact`` makes larger ones.
_COMMIT_SHARE: Final = 4
_MOST_DEAD: Final = 0.3


@dataclass(frozen=True, slots=True)
class Piece:
    """Describe one planned segment: numbers of its parts (0 for the memtable), live rows and dead rows."""

    parts: tuple[int, ...]
    alive: int
    dead: int

    @property
    def is_stale(self) -> bool:
        """Return whether enough of its rows are dead to justify a rewrite."""
        return self.dead > _MOST_DEAD * (self.alive + self.dead)

    def joined(self, other: Piece) -> Piece:
        return Piece((*self.parts, *other.parts), self.alive + other.alive, self.dead + other.dead)


def at_commit(committed: Sequence[Piece], fresh: Sequence[Piece], segment_rows: int) -> list[Piece]:
    """Return the segments that a commit leaves.

    ``fresh`` pieces belong to no generation yet: they are packed together, whatever their tiers.
    """
    pieces = [*committed, *packed(fresh, segment_rows)]
    while group := _full_tier(pieces, segment_rows // _COMMIT_SHARE):
        rest = [piece for piece in pieces if piece not in group]
        pieces = [*rest, *packed(group, segment_rows)]
    return pieces


def packed(pieces: Sequence[Piece], segment_rows: int) -> list[Piece]:
    """Pack pieces into as few segments as possible, small ones first."""
    groups: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: piece.alive):
        if groups and groups[-1].alive + piece.alive <= segment_rows:
            groups[-1] = groups[-1].joined(piece)
        else:
            groups.append(piece)
    return groups


def _full_tier(pieces: Sequence[Piece], most_rows: int) -> list[Piece]:
    tiers: dict[int, list[Piece]] = {}
    for piece in pieces:
        tiers.setdefault(_tier(piece.alive), []).append(piece)
    for tier in sorted(tiers):
        found = tiers[tier]
        if len(found) >= _FACTOR and sum(piece.alive for piece in found) <= most_rows:
            return found
    return []


def _tier(rows: int) -> int:
    tier, bound = 0, _SMALLEST
    while rows >= bound:
        tier, bound = tier + 1, bound * _FACTOR
    return tier
