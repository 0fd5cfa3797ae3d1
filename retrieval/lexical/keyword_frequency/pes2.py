r"""Rank passages by keyword frequency with PES2 of WeiseEule: distinct keywords first, then occurrences.

The order of the paper (Fig. 6): passages are sorted by the number of distinct keywords they have, then by the sum of
all counts. Where some keywords are *fixed*, the passages that have every fixed one come before all others. Equal ones
keep their order, passages without any keyword are left out.

Counting differs from the original on purpose: ``KeywordIndex`` finds other spellings, keywords that begin or end with a
sign (AROM+), and counts a keyword given twice once. ``count_by_pattern`` counts as the original does.

``ExactIndex`` counts so too, by an index instead of a regular expression over all text. The original counts the matches
of ``\bkeyword\b`` in any case; before the last character of a keyword that ends in a digit, any non-word characters
may stand. A text is a sequence of words (runs of ``\w``) with separators between them, so each match is a run of words
with given separators: the index finds the same ones in milliseconds. The tests compare both on a whole namespace.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from retrieval.errors import IndexTooLarge
from retrieval.index.base import Ids, RowFilter
from retrieval.lexical.question_keywords import Keyword, KeywordQuery, distinct_keywords
from retrieval.passages import Hit, Passage, type_bits

DEFAULT_K: Final = 10
# Twelve bytes each in memory.
MAX_WORDS: Final = 50_000_000
_PARTS: Final = re.compile(r"(\W+)")
_WORD: Final = re.compile(r"\w+")
# Characters that IGNORECASE takes for others beside their small form.
_SAME: Final = str.maketrans("ſµςϐϑϕϖϰϱϵι", "sμσβθφπκρει")
_EDGE: Final = 0  # the separator before the first word of a passage, which no keyword has
_Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeywordTable:
    """Hold the counts of keywords in passages.

    ``counts`` int64 [n, len(keywords)], row i for passage ``ids[i]``; rows in passage order.
    """

    keywords: tuple[str, ...]
    ids: Ids
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordRanking:
    """Hold ranked passages, best first.

    ``counts`` are the rows of the table; ``has_fixed``: whether a passage has every fixed keyword. ``num_found``
    passages had any keyword, ``num_with_fixed`` every fixed one, before the cut to k.
    """

    keywords: tuple[Keyword, ...]
    ids: Ids
    counts: NDArray[np.int64]
    has_fixed: NDArray[np.bool_]
    num_found: int
    num_with_fixed: int

    @property
    def distinct(self) -> NDArray[np.int64]:
        """Return the number of distinct keywords in each passage."""
        numbers: NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return numbers

    @property
    def totals(self) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.counts.sum(axis=1)
        return sums

    def hits(self) -> list[Hit]:
        """Return hits with scores that express only the order.

        A score combines group, distinct keywords and total in one number.
        """
        totals = self.totals
        scale = int(totals.max(initial=0)) + 1
        scores = (self.has_fixed * (len(self.keywords) + 1) + self.distinct) * scale + totals
        return [Hit(int(number), float(score)) for number, score in zip(self.ids, scores, strict=True)]


class CountsKeywords(Protocol):
    """Provide what ``keyword_search`` needs of a keyword index."""

    def count(self, keywords: Sequence[str], where: RowFilter | None = None) -> KeywordTable: ...


def rank_by_keywords(
    table: KeywordTable, fixed: Sequence[bool], k: int = DEFAULT_K, only_fixed: bool = False
) -> KeywordRanking:
    """Rank the rows of a table in the order of the paper.

    ``fixed`` has one flag for each column. ``only_fixed`` without a fixed keyword excludes nothing.
    """
    distinct = np.count_nonzero(table.counts, axis=1)
    totals = table.counts.sum(axis=1)
    columns = table.counts[:, np.array(fixed, dtype=np.bool_)]
    has_fixed = np.count_nonzero(columns, axis=1) == columns.shape[1]
    keep = np.flatnonzero((totals > 0) & has_fixed if only_fixed else totals > 0)
    scale = int(totals.max(initial=0)) + 1
    keys = ((has_fixed * (table.counts.shape[1] + 1) + distinct) * scale + totals)[keep]
    best = keep[_largest(keys, max(k, 0))]
    return KeywordRanking(
        keywords=tuple(Keyword(text, bool(is_fixed)) for text, is_fixed in zip(table.keywords, fixed, strict=True)),
        ids=table.ids[best],
        counts=table.counts[best],
        has_fixed=has_fixed[best],
        num_found=int(np.count_nonzero(totals)),
        num_with_fixed=int(np.count_nonzero(has_fixed & (totals > 0))),
    )


def _largest(keys: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the positions of the k largest keys, largest first, equal ones in their order.

    Few of many are wanted, so not all are sorted.
    """
    positions = np.arange(len(keys), dtype=np.int64)
    if 0 < k < len(keys):
        positions = np.flatnonzero(keys >= np.partition(keys, len(keys) - k)[len(keys) - k])
    return positions[np.argsort(-keys[positions], kind="stable")][:k]


def keyword_search(
    index: CountsKeywords, query: KeywordQuery, k: int = DEFAULT_K, where: RowFilter | None = None
) -> KeywordRanking:
    """Rank all passages of an index that pass ``where`` by PES2, and return the k best."""
    keywords = distinct_keywords(query.keywords)
    table = index.count([keyword.text for keyword in keywords], where)
    return rank_by_keywords(table, [keyword.fixed for keyword in keywords], k, query.only_fixed)


def count_by_pattern(passages: Iterable[Passage], keywords: Sequence[str]) -> KeywordTable:
    r"""Count as the original does, to reproduce its results: slow, and with its gaps.

    The pattern is ``\bkeyword\b`` in any case; before the last character of a keyword that ends in a digit, any
    non-word characters may stand. A keyword that begins or ends with a sign is hardly ever found; one given twice
    counts twice.
    """
    patterns = [re.compile(_pattern(keyword), re.IGNORECASE) for keyword in keywords]
    ids, counts = [], []
    for passage in passages:
        row = [sum(1 for _ in pattern.finditer(passage.text)) for pattern in patterns]
        if any(row):
            ids.append(passage.passage_id)
            counts.append(row)
    shape = (len(ids), len(patterns))
    return KeywordTable(tuple(keywords), np.array(ids, dtype=np.int64), np.array(counts, dtype=np.int64).reshape(shape))


def _pattern(keyword: str) -> str:
    if keyword[-1:].isdigit():
        return rf"\b{re.escape(keyword[:-1])}\W*{keyword[-1]}\b"
    return rf"\b{re.escape(keyword)}\b"


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

    def _starts(self, pattern: _Pattern) -> _Positions:
        """Return the positions of the first words of all runs that match, ascending."""
        none = np.zeros(0, dtype=np.int64)
        if not pattern.words:
            # Signs alone, with a word on either side: the position of the word behind them.
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

    def _has_gap(self, positions: _Positions, gap: str, *, is_open: bool = False) -> NDArray[np.bool_]:
        if not is_open:
            same: NDArray[np.bool_] = self._gaps[positions] == self._separators.get(gap, -1)
            return same
        numbers = [number for text, number in self._separators.items() if number and text.startswith(gap)]
        return np.isin(self._gaps[positions], np.array(numbers, dtype=np.int32))

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


def _without_overlaps(starts: _Positions, length: int) -> _Positions:
    """Return the starts of the runs that a search from the left finds, none within another."""
    kept, free = list[int](), -1
    for start in starts.tolist():
        if start >= free:
            kept.append(start)
            free = start + length
    return np.array(kept, dtype=np.int64)
