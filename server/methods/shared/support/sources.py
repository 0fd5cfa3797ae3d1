"""Prepare the texts that an answer may rest on, so that its sentences can be compared with them. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from models.function_words import FUNCTION_WORDS
from server.methods.base import Source
from server.methods.shared.identifiers import Identifier, IdentifierIndex, identifiers_in, tokens_of
from server.methods.shared.sentences import split_sentences
from server.methods.shared.support.quantities import Quantity, QuantityReader

_OPTIONS: Final = re.compile(r"(?s)(?:^|\s)\(?A[.):]\s.*?\s\(?B[.):]\s.*")
_STEM: Final = 7


@dataclass(frozen=True, slots=True)
class PreparedText:
    """Hold a text with what is read from it once."""

    text: str
    index: IdentifierIndex
    identifiers: tuple[Identifier, ...]
    quantities: tuple[Quantity, ...]
    sentence_starts: tuple[int, ...]
    written: frozenset[float]
    by_dimension: dict[str, tuple[Quantity, ...]]

    @classmethod
    def of(cls, text: str, reader: QuantityReader) -> PreparedText:
        identifiers = tuple(identifiers_in(text))
        quantities = tuple(reader.read(text, [(one.start, one.end) for one in identifiers], is_evidence=True))
        by_dimension: dict[str, list[Quantity]] = {}
        for quantity in quantities:
            by_dimension.setdefault(quantity.dimension, []).append(quantity)
        return cls(
            text,
            IdentifierIndex(text),
            identifiers,
            quantities,
            tuple(sorted({0, *(sentence.start for sentence in split_sentences(text))})),
            frozenset(abs(value) for quantity in quantities for value in quantity.written),
            {dimension: tuple(members) for dimension, members in by_dimension.items()},
        )

    def sentence_of(self, place: int) -> int:
        """Return the number of the sentence that holds a place."""
        return max(0, bisect_right(self.sentence_starts, place) - 1)

    def sentence(self, place: int) -> str:
        """Return the sentence of a number."""
        end = self.sentence_starts[place + 1] if place + 1 < len(self.sentence_starts) else len(self.text)
        return self.text[self.sentence_starts[place] : end]

    def by_sentence(self) -> list[list[Quantity]]:
        """Return the quantities of each sentence."""
        groups: list[list[Quantity]] = [[] for _ in self.sentence_starts]
        for quantity in self.quantities:
            groups[self.sentence_of(quantity.start)].append(quantity)
        return groups


@dataclass(frozen=True, slots=True)
class PreparedSource:
    """Hold a source, its text with its title, and its records as prepared texts."""

    source: Source
    whole: PreparedText
    records: tuple[PreparedText, ...]
    sentences: tuple[tuple[Quantity, ...], ...]

    @classmethod
    def of(cls, source: Source, reader: QuantityReader) -> PreparedSource:
        text = f"{source.title}\n\n{source.text}" if source.title else source.text
        whole = PreparedText.of(text, reader)
        records = tuple(PreparedText.of(record, reader) for record in source.records)
        return cls(source, whole, records, tuple(map(tuple, whole.by_sentence())))

    @property
    def name(self) -> str:
        """Return how a reader is told of the source."""
        return f"[{self.source.number}]" if self.source.number is not None else self.source.title or "another source"


def without_options(question: str) -> str:
    """Return a question without its lettered choices, of which all but one are wrong."""
    return _OPTIONS.sub(" ", question)


def stem_of(word: str) -> str:
    """Return the letters by which two forms of a word are taken for one."""
    return word[:_STEM].rstrip("s") or word if word.isalpha() else word


@lru_cache(maxsize=512)
def stems_of(text: str) -> frozenset[str]:
    """Return the words of a text that can tell two clauses apart, each by its first letters, and its numbers."""
    words: Sequence[str] = tokens_of(text)
    return frozenset(
        stem_of(word) for word in words if word.isdecimal() or (len(word) > 2 and word not in FUNCTION_WORDS)
    )
