"""Count keywords in the passages that a search found, as PES2 counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.errors import IndexDamaged, NamespaceDamaged
from retrieval.index.base import RowFilter
from retrieval.lexical.keyword_frequency.index import KeywordIndex

# By namespace and passage, in the order of the keywords.
Counts = Mapping[tuple[str, int], tuple[int, ...]]


def keyword_counts(namespaces: Namespaces, found: Sequence[RankedPassage], keywords: Sequence[str]) -> Counts:
    """Return how often each passage has each keyword, in all spellings that the index takes as one.

    Passages of a namespace without an index of keywords, or whose index is being built, are left out.
    """
    counts: dict[tuple[str, int], tuple[int, ...]] = {}
    for name in dict.fromkeys(one.namespace for one in found):
        ids = sorted(one.passage.passage_id for one in found if one.namespace == name)
        with namespaces.using(name) as namespace:
            index = _index_of(namespace)
            if index is None:
                continue
            table = index.count(keywords, RowFilter(ids=np.array(ids, dtype=np.int64)))
        counts |= {(name, number): (0,) * len(keywords) for number in ids}
        rows = zip(table.ids.tolist(), table.counts.tolist(), strict=True)
        counts |= {(name, number): tuple(row) for number, row in rows}
    return counts


def _index_of(namespace: Namespace) -> KeywordIndex | None:
    if "keywords" not in namespace.settings.targets:
        return None
    try:
        index = namespace.keywords
    except (NamespaceDamaged, IndexDamaged):
        return None
    return index if isinstance(index, KeywordIndex) else None
