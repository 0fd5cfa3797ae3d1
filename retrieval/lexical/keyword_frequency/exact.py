r"""Count keywords exactly as the original program does, by an index instead of a regular expression over all text.

The original counts the matches of ``\bkeyword\b`` in any case; before the last character of a keyword that ends in a
digit, any non-word characters may stand (``count_by_pattern`` in ``pes2`` does so literally). A text is a sequence of
words (runs of ``\w``) with separators between them, so each match is a run of words with given separators: this index
finds the same ones in milliseconds. The tests compare both on a whole namespace.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retrieval.index.base import RowFilter
from retrieval.index.errors import IndexTooLarge
from retrieval.lexical.keyword_frequency.pes2 import KeywordTable
from retrieval.passages import Passage, type_bits

# Twelve bytes each in memory.
MAX_WORDS: Final = 50_000_000
_PARTS: Final = re.compile(r"(\W+)")
_WORD: Final = re.compile(r"\w+")
# Characters that IGNORECASE takes for others beside their small form.
_SAME: Final = str.maketrans("ſµςϐϑϕϖϰϱϵι", "sμσβθφπκρει")
_EDGE: Final = 0  # the separator before the first word of a passage, which no keyword has
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Describe a run of words.

    ``between`` are the separators before each word but the first; ``before`` and ``after`` those around the run, "" for
    any. With ``open_last`` the last separator may go on with further characters.
    """

    words: tuple[str, ...]
    between: tuple[str, ...]
    before: str = ""
    after: str = ""
    open_last: bool = False


class ExactIndex:
    """Hold the words of passages with the separators between them, in memory.

    Immutable, so safe from many threads. Rows are in the order of the passages given.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        """Index the texts of the passages.

        Raises:
            IndexTooLarge: they have more words than are held in memory.
        """
        words, separators = dict[str, int](), {"": _EDGE}
        numbers, gaps, bases = array("i"), array("i"), array("q", [0])
        columns = (array("q"), array("i"), array("q"))
        for passage in passages:
            parts = _inner_parts(passage.text)
            numbers.extend([words.setdefault(word, len(words)) for word in parts[::2]])
            gaps.extend([_EDGE][: len(parts)])
            gaps.extend([separators.setdefault(gap, len(separators)) for gap in parts[1::2]])
            bases.append(len(numbers))
            if len(numbers) > MAX_WORDS:
                raise IndexTooLarge(f"exact counting holds {MAX_WORDS:,} words in memory, and there are more")
            for column, value in zip(
                columns, (passage.passage_id, passage.date, type_bits(passage.types)), strict=True
            ):
                column.append(value)
        self._words, self._separators = words, separators
        self._numbers = np.array(numbers, dtype=np.int32)
        self._gaps = np.array(gaps, dtype=np.int32)
        self._bases = np.array(bases, dtype=np.int64)
        self._order = np.argsort(self._numbers, kind="stable").astype(np.int32)
        self._offsets = np.concatenate(([0], np.cumsum(np.bincount(self._numbers, minlength=len(words)))))
        self._ids, self._dates, self._types = (np.array(column) for column in columns)

    def __len__(self) -> int:
        return len(self._ids)

    def count(self, keywords: Sequence[str], where: RowFilter | None = None) -> KeywordTable:
        """Count the keywords in every passage that has at least one, in the order of the passages."""
        shape = (len(self), len(keywords))
        table = np.stack([self._counts(one) for one in keywords], axis=1) if keywords else np.zeros(shape, np.int64)
        keep = table.any(axis=1)
        if where is not None:
            keep &= self._passing(where)
        return KeywordTable(tuple(keywords), self._ids[keep], table[keep])

    def _counts(self, keyword: str) -> NDArray[np.int64]:
        patterns = _patterns(_folded(keyword))
        found = [self._starts(one) for one in patterns]
        starts = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        length = len(patterns[0].words)
        if length > 1 and len(starts) > 1 and (np.diff(starts) < length).any():
            starts = _without_overlaps(starts, length)
        rows = np.searchsorted(self._bases, starts, side="right") - 1
        counts: NDArray[np.int64] = np.bincount(rows, minlength=len(self))
        return counts

    def _starts(self, pattern: _Pattern) -> _Places:
        """Return the places of the first words of all runs that match, ascending."""
        none = np.zeros(0, dtype=np.int64)
        if not pattern.words:
            # Signs alone, with a word on either side: the place of the word behind them.
            number = self._separators.get(pattern.before)
            return none if number is None else np.flatnonzero(self._gaps == number)
        numbers = [self._words.get(word, -1) for word in pattern.words]
        if -1 in numbers:
            return none
        rarest = min(range(len(numbers)), key=lambda at: self._offsets[numbers[at] + 1] - self._offsets[numbers[at]])
        number = numbers[rarest]
        starts = self._order[self._offsets[number] : self._offsets[number + 1]].astype(np.int64) - rarest
        starts = starts[(starts >= 0) & (starts + len(numbers) <= len(self._numbers))]
        for at, number in enumerate(numbers):
            if at != rarest:
                starts = starts[self._numbers[starts + at] == number]
        for at, gap in enumerate(pattern.between, 1):
            is_open = pattern.open_last and at == len(pattern.between)
            starts = starts[self._has_gap(starts + at, gap, is_open=is_open)]
        if pattern.before:
            starts = starts[self._has_gap(starts, pattern.before, is_open=pattern.open_last and not pattern.between)]
        if pattern.after:
            starts = starts[starts + len(numbers) < len(self._numbers)]
            starts = starts[self._has_gap(starts + len(numbers), pattern.after)]
        return starts

    def _has_gap(self, places: _Places, gap: str, *, is_open: bool = False) -> NDArray[np.bool_]:
        if not is_open:
            same: NDArray[np.bool_] = self._gaps[places] == self._separators.get(gap, -1)
            return same
        numbers = [number for text, number in self._separators.items() if number and text.startswith(gap)]
        return np.isin(self._gaps[places], np.array(numbers, dtype=np.int32))

    def _passing(self, where: RowFilter) -> NDArray[np.bool_]:
        keep = np.ones(len(self), dtype=np.bool_)
        if where.date_from or where.date_to:
            keep &= self._dates >= max(where.date_from, 1)
        if where.date_to:
            keep &= self._dates <= where.date_to
        if where.types:
            keep &= (self._types & where.types) != 0
        if where.without_types:
            keep &= (self._types & where.without_types) == 0
        if where.ids is not None:
            keep &= np.isin(self._ids, where.ids)
        return keep


def _inner_parts(text: str) -> list[str]:
    """Return words and separators in turn, without those before the first and after the last word.

    No keyword has these: a sign at its end needs a word behind it.
    """
    parts = _PARTS.split(_folded(text))
    if not parts[0]:
        del parts[:2]
    if parts and not parts[-1]:
        del parts[-2:]
    return parts


def _folded(text: str) -> str:
    """Return the text in the form in which IGNORECASE compares it."""
    small = text.lower()
    return small if small.isascii() else small.translate(_SAME)


def _patterns(keyword: str) -> list[_Pattern]:
    """Return the runs that the keyword stands for, the one that is written first."""
    found = [_parsed(keyword)]
    head, last = keyword[:-1], keyword[-1:]
    if last.isdigit() and head:
        # Signs stand between the last digit and what is before it: the digit is a word of its own.
        before = _parsed(head)
        words = (*before.words, last)
        if before.words:
            found.append(_Pattern(words, (*before.between, before.after), before.before, open_last=True))
        else:
            found.append(_Pattern(words, (), before.before, open_last=True))
    return found


def _parsed(keyword: str) -> _Pattern:
    words = list(_WORD.finditer(keyword))
    if not words:
        return _Pattern((), (), keyword)
    between = tuple(keyword[one.end() : two.start()] for one, two in pairwise(words))
    before, after = keyword[: words[0].start()], keyword[words[-1].end() :]
    return _Pattern(tuple(one[0] for one in words), between, before, after)


def _without_overlaps(starts: _Places, length: int) -> _Places:
    """Return the starts of the runs that a search from the left finds, none within another."""
    kept, free = list[int](), -1
    for start in starts.tolist():
        if start >= free:
            kept.append(start)
            free = start + length
    return np.array(kept, dtype=np.int64)
