"""Generate made-up biomedical text: word frequencies as in abstracts, names of genes, proteins and variants.

Frequencies follow Zipf's law (exponent 1); one word in eight is a name in one of its spellings, so that tokenizers have
as much work as with real text. The same seed gives the same text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from retrieval.passages import Passage

SYLLABLES = "al an ar ba be cal cel ci cor cy de di do en ep fi ga gen gly ha he in ka la li lo ma me mi mo na neu no "
SYLLABLES += "ol os pa per phe pro ra re ri ro sa se si so sta ta te the ti to tri tu va ve vi xa xy za zo"
SPELLINGS = ("{0}-{1}", "{0}{1}", "{0} {1}", "{0}{1}", "{0}-{1}+", "({0}-{1})", "{0}{1}-α", "{0}-{1}/2")
NAMES_SHARE = 0.125


class TextMaker:
    """``vocabulary`` ordinary words and a tenth as many names."""

    def __init__(self, vocabulary: int, seed: int = 1) -> None:
        self._draw = np.random.default_rng(seed)
        rng = random.Random(seed)
        syllables = SYLLABLES.split()
        words: dict[str, None] = {}
        while len(words) < vocabulary:
            words["".join(rng.choices(syllables, k=rng.choice((2, 3, 3, 4, 5))))] = None
        self.words = list(words)
        self.names = []
        for _ in range(max(vocabulary // 10, 1)):
            stem = "".join(rng.choices("ABCDEFGHIKLMNPRSTX", k=rng.choice((2, 3, 4))))
            self.names.append((stem, rng.randrange(1, 40)))
        self._shares = [_zipf(len(self.words)), _zipf(len(self.names))]

    def text(self, num_words: int) -> str:
        """Sentences of about twenty words."""
        words = [self.words[rank] for rank in self._ranks(0, num_words)]
        places = np.flatnonzero(self._draw.random(num_words) < NAMES_SHARE)
        spellings = self._draw.integers(0, len(SPELLINGS), len(places))
        for place, rank, spelling in zip(places, self._ranks(1, len(places)), spellings, strict=True):
            words[place] = SPELLINGS[spelling].format(*self.names[rank])
        for end in range(19, num_words, 20):
            words[end] += "."
        return " ".join(words)

    def passages(self, count: int, num_words: int, first: int = 1) -> Iterator[Passage]:
        """With titles of twelve words, dates over thirty years."""
        for number in range(first, first + count):
            date = 19950101 + number % 30 * 10_000
            text, title = self.text(num_words), self.text(12)
            yield Passage(passage_id=number, document_id=f"PMID:{number}", title=title, text=text, date=date)

    def _ranks(self, kind: int, count: int) -> list[int]:
        places = np.searchsorted(self._shares[kind], self._draw.random(count))
        return [int(place) for place in places]


def _zipf(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    shares = np.cumsum(1 / np.arange(1, count + 1, dtype=np.float64))
    scaled: np.ndarray[tuple[int], np.dtype[np.float64]] = shares / shares[-1] * (1 - 1e-12)
    return scaled
