"""Answer with the first sentences of the best three articles by BM25: what a review has to be better than. Pure."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from scripts.evals.review.metrics import tokens
from server.methods.shared.sentences import split_sentences

_K1: Final = 1.2
_B: Final = 0.75
_TOP: Final = 3


class FirstSentences:
    """Rank a collection by Okapi BM25 and take the first sentence of each of the best articles.

    ``texts`` by PMID: title and abstract, parted by the first line break.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._postings: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self._lengths: dict[str, int] = {}
        for pmid, text in texts.items():
            counts = Counter(tokens(text))
            self._lengths[pmid] = sum(counts.values())
            for word, count in counts.items():
                self._postings[word].append((pmid, count))
        self._mean = sum(self._lengths.values()) / max(1, len(self._lengths))

    def best(self, question: str, top: int = _TOP) -> list[str]:
        """Return the PMIDs of the best articles."""
        scores: defaultdict[str, float] = defaultdict(float)
        for word in set(tokens(question)):
            found = self._postings.get(word, [])
            rarity = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for pmid, count in found:
                norm = _K1 * (1 - _B + _B * self._lengths[pmid] / self._mean)
                scores[pmid] += rarity * count * (_K1 + 1) / (count + norm)
        return heapq.nsmallest(top, scores, key=lambda pmid: (-scores[pmid], pmid))

    def answer(self, question: str) -> str:
        firsts = []
        for pmid in self.best(question):
            title, _, abstract = self._texts[pmid].partition("\n")
            firsts += [one.text for one in split_sentences(abstract.strip() or title)[:1]]
        return " ".join(firsts)
