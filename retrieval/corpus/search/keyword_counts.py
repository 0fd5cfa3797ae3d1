"""Rank the passages of an index by keywords, and count keywords in those that a search found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from retrieval.corpus.search.ranking import RankedPassage
from retrieval.index.base import RowFilter
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.keyword_frequency.pes2 import rank_by_keywords
from retrieval.lexical.keyword_frequency.phrases import KeywordCounts, keyword_forms
from retrieval.lexical.keyword_frequency.spellings import Spelling, mentions_in
from retrieval.lexical.question_keywords import searched_keywords
from retrieval.passages import Hit

# By namespace and passage, in the order of the keywords.
Counts = Mapping[tuple[str, int], tuple[int, ...]]


def keyword_counts(found: Sequence[RankedPassage], keywords: Sequence[str]) -> Counts:
    """Return how often each passage has each keyword, in all spellings that PES2 takes as one."""
    ways = [[Spelling(keyword, "spelling", keyword_forms(keyword))] for keyword in keywords]
    counts: dict[tuple[str, int], tuple[int, ...]] = {}
    for one in found:
        numbers = Counter(mention.keyword for mention in mentions_in(one.passage.text, ways, len(one.passage.text)))
        counts[one.namespace, one.passage.passage_id] = tuple(numbers[at] for at in range(len(keywords)))
    return counts


def keyword_search(index: LexicalIndex, query: str, k: int, where: RowFilter | None) -> list[Hit]:
    """Search by PES2 for the marked keywords of a query or, without marks, for its content words; equal ones by id."""
    asked = searched_keywords(query)
    names = [one.text for one in asked.keywords]
    table = KeywordCounts(index, where).table(names, [keyword_forms(name) for name in names])
    return rank_by_keywords(table, [one.fixed for one in asked.keywords], k, asked.only_fixed).hits()
