"""Draft the next tokens of a sequence from what stood behind its last ones before: prompt lookup.

A draft only says which tokens to compute together. The model then chooses each token as without a draft, and the rest
is dropped where it chooses another one. Calls repeat the parts of earlier calls and demonstrations, and take their
values from the question and from replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

# Occurrences of the last token that are compared, and those of them whose continuation is tried.
_MOST_COMPARED: Final = 64
_MOST_TRIED: Final = 6
_LONGEST_MATCH: Final = 8


class PromptLookup:
    """Find earlier occurrences of the last tokens of one growing sequence."""

    def __init__(self) -> None:
        self._places: dict[int, list[int]] = {}
        self._num_indexed = 0

    def draft(
        self, tokens: Sequence[int], most: int, *, shortest: int, count_allowed: Callable[[list[int]], int]
    ) -> list[int]:
        """Return up to ``most`` tokens that may follow ``tokens``, none where nothing is found.

        Of the places where at least ``shortest`` of the last tokens stood before, the one with the longest match comes
        first, and of equal ones the latest. ``count_allowed`` returns how many of the given tokens may follow; a place
        after which none may is passed over.
        """
        self._index(tokens)
        if most < 1:
            return []
        for place in self._matches(tokens, shortest):
            following = list(tokens[place + 1 : place + 1 + most])
            allowed = count_allowed(following)
            if allowed:
                return following[:allowed]
        return []

    def _index(self, tokens: Sequence[int]) -> None:
        # All but the last token, behind which nothing stands yet.
        for place in range(self._num_indexed, len(tokens) - 1):
            self._places.setdefault(tokens[place], []).append(place)
        self._num_indexed = max(self._num_indexed, len(tokens) - 1)

    def _matches(self, tokens: Sequence[int], shortest: int) -> list[int]:
        places = self._places.get(tokens[-1], [])[-_MOST_COMPARED:]
        found = [(length, place) for place in places if (length := _match(tokens, place)) >= shortest]
        return [place for _, place in sorted(found, reverse=True)[:_MOST_TRIED]]


def _match(tokens: Sequence[int], place: int) -> int:
    """Return how many tokens up to ``place`` equal the last ones."""
    last, length = len(tokens) - 1, 1
    while length < _LONGEST_MATCH and length <= place and tokens[place - length] == tokens[last - length]:
        length += 1
    return length
