"""Which segments are written together. Pure: sizes in, groups out.

Segments fall into tiers by a factor of eight. Eight of one tier become one, so a row is written again only as often as
the index grows eightfold, and a search never goes through more than a few dozen segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FACTOR: Final = 8
_SMALLEST: Final = 1_024
# Merges that a commit makes by itself stay under this share of the largest segment; ``compact`` makes the others.
_COMMIT_SHARE: Final = 4
_MOST_DEAD: Final = 0.3


@dataclass(frozen=True, slots=True)
class Piece:
    """What becomes one segment: numbers of its parts (0 for the tail), rows alive and rows dead in them."""

    parts: tuple[int, ...]
    alive: int
    dead: int

    @property
    def is_stale(self) -> bool:
        """So much of it is dead that it is worth being written again."""
        return self.dead > _MOST_DEAD * (self.alive + self.dead)

    def joined(self, other: Piece) -> Piece:
        return Piece((*self.parts, *other.parts), self.alive + other.alive, self.dead + other.dead)


def at_commit(committed: Sequence[Piece], fresh: Sequence[Piece], segment_rows: int) -> list[Piece]:
    """``fresh`` are pieces that are in no generation yet: they go together, whatever their tiers."""
    pieces = [*committed, *packed(fresh, segment_rows)]
    while group := _full_tier(pieces, segment_rows // _COMMIT_SHARE):
        rest = [piece for piece in pieces if piece not in group]
        pieces = [*rest, *packed(group, segment_rows)]
    return pieces


def packed(pieces: Sequence[Piece], segment_rows: int) -> list[Piece]:
    """As few pieces as they fit into, small ones first."""
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
