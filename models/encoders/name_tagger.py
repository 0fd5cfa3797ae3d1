"""Find the gene or the disease that a question names in words, by a linear model of each word and its neighbours.

Needs numpy alone; ``scripts/train_name_tagger.py`` trains it.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Floats
from models.encoders.message_head import read_trained, softmax, unfitting

NAME_TAGGER_DIR: Final = Path(__file__).parents[1] / "embedded" / "name-tagger"
GENE: Final = "gene"
DISEASE: Final = "disease"
# Of a word that is no part of a name.
NO_NAME: Final = ""
_WORD: Final = re.compile(r"[^\W_](?:[\w'’./,+-]*[\w'’+])?")
_GRAM_SIZES: Final = (3, 4)
_AFFIX: Final = 3
_AROUND: Final = 2
# The questions that it was trained on are shorter.
MAX_WORDS: Final = 60
# Words of a name at most, and the odds (natural logarithm) from which on a word beside it is one of another name.
_LONGEST: Final = 8
_SURE: Final = 3.0
# Odds from which on a word beside a name belongs to it, as "protein" does to kinase C.
_EDGE: Final = -1.5


@dataclass(frozen=True, slots=True)
class NamedInWords:
    """Hold a name as it stands in a question, from ``start`` to ``end``, and its kind with the probability of it."""

    text: str
    kind: str
    probability: float
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NameTagger:
    """Hold the weights, float32 [buckets, kinds], and the bias of each kind, float32 [kinds].

    ``known`` are the words by which the training questions ask for something.
    """

    kinds: tuple[str, ...]
    known: frozenset[str]
    weights: Floats
    bias: Floats

    def find(self, question: str) -> NamedInWords | None:
        """Return the one name of a question, None where it has none or several, or more than ``MAX_WORDS`` words."""
        places = words_of(question)
        if not 0 < len(places) <= MAX_WORDS:
            return None
        none = self.kinds.index(NO_NAME)
        scores = np.stack([self._scores(codes) for codes in coded([question[a:b] for a, b in places], self.known)])
        # How much likelier each word is within a name of each kind than outside of one.
        odds = scores - scores[:, [none]]
        first, last, kind = self._best_run(odds)
        others = np.delete(odds, np.s_[first : last + 1], axis=0)
        if odds[first : last + 1, kind].sum() <= 0 or (others > _SURE).any():
            return None
        while first and odds[first - 1, kind] > _EDGE:
            first -= 1
        while last + 1 < len(odds) and odds[last + 1, kind] > _EDGE:
            last += 1
        start, end = places[first][0], places[last][1]
        of_kinds = odds[first : last + 1].sum(axis=0)
        of_kinds[none] = -np.inf
        return NamedInWords(question[start:end], self.kinds[kind], float(softmax(of_kinds)[kind]), start, end)

    def _best_run(self, odds: Floats) -> tuple[int, int, int]:
        """Return the first and last place, and the kind, of the run of words that is likeliest a name."""
        until = np.vstack([np.zeros(len(self.kinds)), odds.cumsum(axis=0)])
        kinds = [kind for kind, name in enumerate(self.kinds) if name != NO_NAME]
        runs = [(first, last, kind) for first, last in _runs(len(odds)) for kind in kinds]
        return max(runs, key=lambda run: until[run[1] + 1, run[2]] - until[run[0], run[2]])

    def _scores(self, codes: Sequence[int]) -> Floats:
        buckets = np.fromiter((code % len(self.weights) for code in codes), np.int64)
        return np.asarray(self.weights[buckets].sum(axis=0) / np.sqrt(len(buckets)) + self.bias, np.float32)


def _runs(num_words: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last place of each run of words that may be a name."""
    for first in range(num_words):
        for last in range(first, min(num_words, first + _LONGEST)):
            yield first, last


def words_of(question: str) -> list[tuple[int, int]]:
    """Return the places of the words, a hyphen or an apostrophe within them."""
    return [found.span() for found in _WORD.finditer(question)]


def coded(words: Sequence[str], known: Set[str]) -> list[list[int]]:
    """Return the features of each word as numbers to hash: its signs, its form, and the words around it.

    Of these and of the word, also whether they are ``known`` to ask for something.
    """
    around = [unicodedata.normalize("NFKC", word).casefold() for word in words]
    padded = [*[""] * _AROUND, *around, *[""] * _AROUND]
    rows: list[list[int]] = []
    for place, word in enumerate(around):
        marked = f"<{word}>"
        grams = {marked[i : i + size] for size in _GRAM_SIZES for i in range(len(marked) - size + 1)}
        near = padded[place : place + 2 * _AROUND + 1]
        told = {f"g{gram}" for gram in grams} | {f"w{word}", f"f{_form(words[place])}"}
        told |= {f"{shift}{other}" for shift, other in enumerate(near) if shift != _AROUND}
        told |= {f"{shift}-{other[:_AFFIX]}-{other[-_AFFIX:]}" for shift, other in enumerate(near) if shift != _AROUND}
        told |= {
            f"b{near[1]} {near[3]}",
            f"p{near[1]} {near[2]}",
            f"n{near[2]} {near[3]}",
            f"l{near[0]} {near[1]}",
            f"r{near[3]} {near[4]}",
        }
        told |= {f"k{shift}{not other or other in known}" for shift, other in enumerate(near)}
        told.add(f"m{''.join(str(int(not other or other in known)) for other in near[1:4])}")
        rows.append([zlib.crc32(one.encode()) for one in sorted(told)])
    return rows


def _form(word: str) -> str:
    """Return how a word is written: its length up to three, and if it has digits, capitals or a hyphen."""
    marks = (any(map(str.isdigit, word)), word[0].isupper(), word.isupper(), "-" in word)
    return f"{min(len(word), 3)}{''.join(str(int(mark)) for mark in marks)}"


def load_name_tagger(folder: Path = NAME_TAGGER_DIR) -> NameTagger:
    """Load the tagger of a folder, by default the one that ships.

    Raises:
        ModelNotFound: its files are missing or do not fit one another.
    """
    tagger = read_trained(
        folder,
        lambda config, weights: NameTagger(
            tuple(config["kinds"]), frozenset(config["known"]), weights["weights"], weights["bias"]
        ),
    )
    num_kinds = len(tagger.kinds)
    shapes = (tagger.weights.shape[1:], tagger.bias.shape)
    if shapes != ((num_kinds,), (num_kinds,)) or NO_NAME not in tagger.kinds:
        raise unfitting(folder)
    return tagger
