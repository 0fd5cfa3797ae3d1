"""Find names whose words are not contiguous or not in order.

These are names inverted at a comma ("arthritis, rheumatoid") and names that share their last words with the next name
("breast and ovarian cancer").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retrieval.graph.linking.folding import Token

_MOST_WORDS: Final = 5
_MOST_COMMAS: Final = 64
_MOST_SHARED: Final = 3


class Inversion(NamedTuple):
    """Hold tokens ``first`` up to ``last`` - 1, with ``folded`` the name's words in their usual order."""

    first: int
    last: int
    folded: tuple[str, ...]


def inversions(text: str, tokens: Sequence[Token]) -> Iterator[Inversion]:
    """Yield inversions of up to five words on each side of each of the first 64 commas."""
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


def shared_endings(text: str, tokens: Sequence[Token], first: int, last: int) -> Iterator[Inversion]:
    """Yield the words before an "and", "or" or slash that precedes a name, each completed with an ending of the name.

    The name is at ``first`` up to ``last`` - 1. For "ovarian cancer" in "breast and ovarian cancer", yields "breast"
    with ``folded`` breast cancer. The positions are those of the preceding words alone.
    """
    end = first
    if first and tokens[first - 1].text in ("and", "or"):
        end = first - 1
    elif not (first and _gap(text, tokens, first).strip() == "/"):
        return
    for begin in range(end - 1, max(-1, end - 1 - _MOST_SHARED), -1):
        if begin < end - 1 and _gap(text, tokens, begin + 1).strip(" -"):
            return
        for cut in range(first + 1, last):
            words = (*tokens[begin:end], *tokens[cut:last])
            yield Inversion(begin, end, tuple(token.text for token in words))
