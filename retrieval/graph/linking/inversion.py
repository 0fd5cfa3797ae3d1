"""Names turned round at a comma, as in headings of catalogues: "arthritis, rheumatoid" for "rheumatoid arthritis"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retrieval.graph.linking.folding import Token

_MOST_WORDS: Final = 5
_MOST_COMMAS: Final = 64


class Inversion(NamedTuple):
    """Tokens ``first`` up to ``last`` - 1 with a comma within; ``folded`` as they read without it."""

    first: int
    last: int
    folded: tuple[str, ...]


def inversions(text: str, tokens: Sequence[Token]) -> Iterator[Inversion]:
    """Up to five words on each side of each of the first 64 commas."""
    commas = [place for place in range(1, len(tokens)) if _gap(text, tokens, place).strip() == ","]
    for comma in commas[:_MOST_COMMAS]:
        for first in range(comma - 1, max(-1, comma - 1 - _MOST_WORDS), -1):
            if first < comma - 1 and "," in _gap(text, tokens, first + 1):
                break
            for last in range(comma + 1, min(len(tokens), comma + _MOST_WORDS) + 1):
                if last > comma + 1 and "," in _gap(text, tokens, last - 1):
                    break
                words = (*tokens[comma:last], *tokens[first:comma])
                yield Inversion(first, last, tuple(token.text for token in words))


def _gap(text: str, tokens: Sequence[Token], place: int) -> str:
    return text[tokens[place - 1].end : tokens[place].start]
