"""Reject names beside an unknown word, which may be a misspelt part of a longer name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.graph.linking.folding import Token
from retrieval.graph.linking.matching import Candidate
from retrieval.graph.linking.name_table import SYMBOL
from retrieval.graph.linking.spans import JOINERS
from retrieval.graph.linking.types import Span

_LEAST_NAME: Final = 3


@dataclass(frozen=True, slots=True)
class Unknown:
    """Represent a word of a question that is in no name and not English.

    ``why``: several names are equally near; it looks like a typo of ``near``, a word of a name; or it is like no word.
    """

    place: int
    start: int
    end: int
    text: str
    why: Literal["ambiguous", "near", "strange"]
    near: str = ""


def beside(text: str, start: int, end: int, words: Iterable[Unknown]) -> Iterator[Unknown]:
    """Yield those of ``words`` directly before or after the span, in one phrase with it."""
    for word in words:
        gap = text[word.end : start] if word.end <= start else text[end : word.start] if end <= word.start else None
        if gap is not None and set(gap) <= JOINERS:
            yield word


def is_weak(words: Sequence[str]) -> bool:
    """Return True if all words are numbers or letters that could be part of any name."""
    return all(not word.isalpha() or len(word) < _LEAST_NAME for word in words)


def weigh(
    text: str, chosen: Sequence[Candidate], unknown: Sequence[Unknown], is_word: Callable[[Candidate], bool]
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates that are accepted, and notes on the others.

    ``is_word`` tells whether a name is an ordinary word.
    """
    kept: list[Candidate] = []
    notes: list[str] = []
    for one in chosen:
        stretch = one.stretch
        # A symbol is never part of a phrase.
        is_symbol = one.posting.flags & SYMBOL
        words = [] if is_symbol else list(beside(text, stretch.start, stretch.end, unknown))
        weak = is_weak(stretch.folded) or is_word(one)
        near = [word for word in words if word.why != "strange"]
        if words and (weak or near):
            word = (near or words)[0]
            seems = f', which may be "{word.near}"' if word.why == "near" else ""
            notes.append(f'"{stretch.raw}" was not taken: it stands beside the unknown word "{word.text}"{seems}')
            continue
        kept.append(one)
        if words:
            notes.append(f'"{words[0].text}" beside "{stretch.raw}" is in no name of the graph')
    return kept, notes


def trusted(
    text: str, spans: Iterable[Span], unknown: Sequence[Unknown], refused: Iterable[tuple[int, int]]
) -> list[Span]:
    """Return the spans that may name something by themselves.

    Drops spans with an ambiguous word, spans beside a misspelt word, and spans within ``refused``.
    """
    unclear = [(word.start, word.end) for word in unknown if word.why == "ambiguous"]
    barred = list(refused)
    found: list[Span] = []
    for span in spans:
        words = list(beside(text, span.start, span.end, unknown))
        if any(span.start < end and start < span.end for start, end in unclear):
            continue
        if any(start <= span.start and span.end <= end for start, end in barred):
            continue
        if not any(word.why != "strange" for word in words):
            found.append(span)
    return found


def word_at(text: str, place: int, token: Token) -> tuple[int, int, int, str]:
    """Return the first four fields of ``Unknown``."""
    return place, token.start, token.end, text[token.start : token.end]
