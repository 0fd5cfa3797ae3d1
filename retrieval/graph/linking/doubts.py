"""Names beside a word that nobody knows: of a longer name with a slip of the pen in it they would be a wrong part."""

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
    """A word of a question in no name and not in English. ``why``: several names are as near; it looks like ``near``,
    a word of a name, misspelt; or it is like nothing."""

    place: int
    start: int
    end: int
    text: str
    why: Literal["ambiguous", "near", "strange"]
    near: str = ""


def beside(text: str, start: int, end: int, words: Iterable[Unknown]) -> Iterator[Unknown]:
    """Those of ``words`` right before or after the stretch, in one phrase with it."""
    for word in words:
        gap = text[word.end : start] if word.end <= start else text[end : word.start] if end <= word.start else None
        if gap is not None and set(gap) <= JOINERS:
            yield word


def is_weak(words: Sequence[str]) -> bool:
    """Numbers and letters that are part of any name."""
    return all(not word.isalpha() or len(word) < _LEAST_NAME for word in words)


def weigh(
    text: str, chosen: Sequence[Candidate], unknown: Sequence[Unknown], is_word: Callable[[Candidate], bool]
) -> tuple[list[Candidate], list[str]]:
    """Those of ``chosen`` that stand, and what to say of the others. ``is_word``: the name is an ordinary word."""
    kept: list[Candidate] = []
    notes: list[str] = []
    for one in chosen:
        stretch = one.stretch
        # A symbol is no part of a phrase.
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
    """Spans that may name something by themselves: none with a word of two readings, none beside a misspelt one, none
    within what is ``refused``."""
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
    """The first four of ``Unknown``."""
    return place, token.start, token.end, text[token.start : token.end]
