"""Derive the keywords of a question without marked ones: every content word."""

from __future__ import annotations

from typing import Final

from retrieval.lexical.keyword_rank import Keyword, distinct_keywords

_EDGES: Final = ".,;:?!\"'()[]{}<>“”‘’«»…"
# Words of questions, not of biology. Single letters stay: vitamin A, hepatitis C.
_EMPTY: Final = frozenset(
    (
        "about", "above", "after", "again", "all", "also", "am", "among", "an", "and", "any", "are", "as", "at",
        "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could",
        "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "give", "had",
        "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "if", "in", "into", "is",
        "it", "its", "itself", "just", "me", "more", "most", "my", "no", "nor", "not", "of", "off", "on",
        "once", "only", "or", "other", "our", "out", "over", "own", "please", "same", "she", "should", "so",
        "some", "such", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they",
        "this", "those", "through", "to", "too", "under", "until", "up", "us", "very", "was", "we", "were",
        "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with", "within",
        "without", "would", "you", "your",
    )
)  # fmt: skip


def unmarked_keywords(question: str) -> tuple[Keyword, ...]:
    """Return the content words as keywords, each once, in the order of the question, none of them fixed.

    Where the question has only function words, all of them are keywords.
    """
    words = [word for part in question.split() if (word := part.strip(_EDGES))]
    telling = [word for word in words if word.lower() not in _EMPTY and word != "a"]
    return distinct_keywords(Keyword(word) for word in telling or words)
