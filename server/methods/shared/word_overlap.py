"""Compare texts by their words without endings, each weighed by its rarity: a cheap feature of rankings. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from retrieval.lexical.tokens import index_terms, query_terms
from server.methods.shared.sentences import MARK, plain_marks, split_sentences

_SUFFIX: Final = re.compile(r"(?:ational|ations?|ings?|ions?|ors?|ives?|ally|ical|ed|es|ers?|ly|al|ic|e|s)$")
_MIN_STEM: Final = 4
# Among a few sentences, a word that one of them lacks is not rare: the counts are as if there were so many more.
_FEW: Final = 20
# The share of a claim's words from which a sentence is near it.
_QUOTED: Final = 0.5


def nearest_sentence(claim: str, text: str) -> str:
    """Return the sentence of a text that is nearest in words to a claim, "" where none has half of them."""
    wanted = set(question_stems(MARK.sub(" ", claim)))
    if not wanted:
        return ""
    shares = [(len(wanted & stems_of(one.text)) / len(wanted), one) for one in split_sentences(text)]
    share, best = max(shares, key=lambda pair: pair[0], default=(0.0, None))
    return plain_marks(best.line) if best is not None and share >= _QUOTED else ""


def stems_of(text: str) -> frozenset[str]:
    return frozenset(stemmed(text))


def stemmed(text: str) -> list[str]:
    """Return the stem of each term of a text, repeated ones as well, in no particular order."""
    return [stem_of(term) for term in index_terms(text)]


def question_stems(question: str) -> tuple[str, ...]:
    """Return the stems of the question's content words, each once."""
    return tuple(dict.fromkeys(stem_of(term) for term in query_terms(question)))


@lru_cache(maxsize=2**15)
def stem_of(term: str) -> str:
    """Return a word without its ending: inhibits, inhibited, inhibition and inhibitor are one."""
    if not term.isalpha():
        return term
    found = _SUFFIX.search(term, _MIN_STEM)
    return term[: found.start()] if found else term


def rarity(asked: Sequence[str], stems: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the weight (idf) of each asked stem by how many of the texts have it."""
    counts = Counter(word for words in stems for word in words.intersection(asked))
    number = len(stems)
    return {word: math.log(1 + (number + _FEW) / (counts[word] + 1)) for word in asked}


def share_of(asked: Iterable[str], words: Container[str], weights: Mapping[str, float]) -> float:
    """Return which share of the asked stems the words have, by weight."""
    whole = sum(weights.values())
    return sum(weights[word] for word in asked if word in words) / whole if whole else 0.0
