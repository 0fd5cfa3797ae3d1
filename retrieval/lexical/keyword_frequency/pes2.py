r"""Rank passages by keyword frequency with PES2 of WeiseEule: distinct keywords first, then occurrences.

The order of the paper (Fig. 6): passages are sorted by the number of distinct keywords they have, then by the sum of
all counts. Where some keywords are *fixed*, the passages that have every fixed one come before all others. Equal ones
keep their order, passages without any keyword are left out.

Counting differs from the original on purpose: ``KeywordCounts`` finds other spellings, keywords that begin or end
with a sign (AROM+), and counts a keyword given twice once. ``count_by_pattern`` counts as the original does, in the
passages that have the words of a keyword at all (``words_of``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retrieval.index.base import Ids
from retrieval.lexical.question_keywords import Keyword
from retrieval.lexical.tokens import WORD, atoms_of
from retrieval.passages import Hit, Passage

DEFAULT_K: Final = 10


@dataclass(frozen=True, slots=True)
class KeywordTable:
    """Hold the counts of keywords in passages.

    ``counts`` int64 [n, len(keywords)], row i for passage ``ids[i]``.
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


def words_of(keyword: str) -> tuple[str, ...]:
    """Return terms that every passage has in which ``count_by_pattern`` finds the keyword, () where none is certain.

    Numbers, signs and single letters are in other terms too (the 6 of 10^6). Missed is only a part of a word that an
    invisible character divides.
    """
    return tuple(atom.term for atom in atoms_of(keyword) if atom.kind == WORD and len(atom.term) > 1)


def count_by_pattern(passages: Iterable[Passage], keywords: Sequence[str]) -> KeywordTable:
    r"""Count as the original does, to reproduce its results, with its gaps.

    The pattern is ``\bkeyword\b`` in any case; before the last character of a keyword that ends in a digit, any
    non-word characters may stand. A keyword that begins or ends with a sign is hardly ever found; one given twice
    counts twice.
    """
    patterns = [(_sought(keyword), re.compile(_pattern(keyword), re.IGNORECASE)) for keyword in keywords]
    ids, counts = [], []
    for passage in passages:
        # The pattern is tried only where its letters stand, which is most of the work saved.
        plain = _small(passage.text)
        row = [sum(1 for _ in pattern.finditer(passage.text)) if sought in plain else 0 for sought, pattern in patterns]
        if any(row):
            ids.append(passage.passage_id)
            counts.append(row)
    shape = (len(ids), len(patterns))
    return KeywordTable(tuple(keywords), np.array(ids, dtype=np.int64), np.array(counts, dtype=np.int64).reshape(shape))


def _small(text: str) -> str:
    """Return the text in small letters, with those that IGNORECASE takes for ASCII letters as these."""
    small = text.lower()
    return small if small.isascii() else small.replace("ſ", "s").replace("ı", "i")


def _sought(keyword: str) -> str:
    """Return letters that ``_small`` leaves in each text with the keyword; none where others count as one of them."""
    if not keyword.isascii():
        return ""
    return (keyword[:-1] if keyword[-1:].isdigit() else keyword).lower()


def _pattern(keyword: str) -> str:
    if keyword[-1:].isdigit():
        return rf"\b{re.escape(keyword[:-1])}\W*{keyword[-1]}\b"
    return rf"\b{re.escape(keyword)}\b"
