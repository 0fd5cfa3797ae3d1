"""Compare words letter by letter: an edit is a letter more, less or another, or two neighbours exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase


def single_edits(word: str, first: int = 0) -> Iterator[str]:
    """Yield the words one edit away from place ``first`` on; some twice, and the word itself."""
    for place in range(first, len(word) + 1):
        head, tail = word[:place], word[place:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]


def edit_distance(one: str, other: str, most: int) -> int:
    """Return the number of edits between two words, or ``most`` + 1 if it is larger."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        following = [i]
        for j, match in enumerate(other, 1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (letter != match))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == match:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return min(row[-1], most + 1)
