"""Find the spans of a question that could name something: runs of content words, without a tagger or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.graph.linking.dictionary_lookup.ambiguity import is_foreign, is_function_word, is_kind_word
from retrieval.graph.linking.dictionary_lookup.matching import Candidate
from retrieval.graph.linking.dictionary_lookup.names import SYMBOL
from retrieval.graph.linking.dictionary_lookup.normalize import Token, tokens_of
from retrieval.graph.types import Span

_MAX_RUNS: Final = 64
# Characters that may separate two words of one name.
JOINERS: Final = frozenset(" \t\n-‐‑–/'’")


def free_runs(text: str, used_spans: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """Return at most 64 maximal runs of content words outside ``used_spans``, split at punctuation."""
    return [_span(text, run) for run in _runs(text, list(used_spans))][:_MAX_RUNS]


def _runs(text: str, used_spans: list[tuple[int, int]]) -> list[list[Token]]:
    runs: list[list[Token]] = []
    run: list[Token] = []
    covered = bytearray(len(text))
    for start, end in used_spans:
        covered[start:end] = b"\1" * (end - start)
    for token in tokens_of(text):
        free = not any(covered[token.start : token.end])
        joined = not run or set(text[run[-1].end : token.start]) <= JOINERS
        if not joined and run:
            runs.append(run)
            run = []
        if free and not is_function_word(token.text):
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    runs.append(run)
    return [trimmed for trimmed in map(_trimmed, runs) if trimmed]


def _trimmed(run: list[Token]) -> list[Token]:
    while run and is_kind_word((run[0].text,)):
        run = run[1:]
    while run and is_kind_word((run[-1].text,)):
        run = run[:-1]
    return run


def _span(text: str, tokens: list[Token]) -> Span:
    start, end = tokens[0].start, tokens[-1].end
    return Span(start=start, end=end, text=text[start:end])


_LEAST_NAME: Final = 3


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """Represent a word of a question that is in no name and not English.

    ``why``: several names are equally near; it looks like a typo of ``near``, a word of a name; or it is like no word.
    """

    place: int
    start: int
    end: int
    text: str
    why: Literal["ambiguous", "near", "strange"]
    near: str = ""


def sibling(text: str, start: int, end: int, words: Iterable[UnknownWord]) -> Iterator[UnknownWord]:
    """Yield those of ``words`` directly before or after the span, in one phrase with it."""
    for word in words:
        gap = text[word.end : start] if word.end <= start else text[end : word.start] if end <= word.start else None
        if gap is not None and set(gap) <= JOINERS:
            yield word


def is_weak(words: Sequence[str]) -> bool:
    """Return True if all words are numbers or letters that could be part of any name."""
    return all(not word.isalpha() or len(word) < _LEAST_NAME for word in words)


def filter_ambiguous(
    text: str, chosen: Sequence[Candidate], unknown: Sequence[UnknownWord], is_word: Callable[[Candidate], bool]
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates that are accepted, and notes on the others.

    ``is_word`` tells whether a name is an ordinary word.
    """
    accepted: list[Candidate] = []
    notes: list[str] = []
    for one in chosen:
        stretch = one.stretch
        # A symbol is never part of a phrase.
        is_symbol = one.posting.flags & SYMBOL
        words = [] if is_symbol else list(sibling(text, stretch.start, stretch.end, unknown))
        weak = is_weak(stretch.folded) or is_word(one)
        # All words of a foreign sentence are unknown and near to something.
        near = [word for word in words if word.why != "strange" and not is_foreign(stretch)]
        if words and (weak or near):
            word = (near or words)[0]
            seems = f', which may be "{word.near}"' if word.why == "near" else ""
            notes.append(f'"{stretch.raw}" was not taken: it stands beside the unknown word "{word.text}"{seems}')
            continue
        accepted.append(one)
        if words:
            notes.append(f'"{words[0].text}" beside "{stretch.raw}" is in no name of the graph')
    return accepted, notes


def word_at(text: str, position: int, token: Token) -> tuple[int, int, int, str]:
    """Return the first four fields of ``Unknown``."""
    return position, token.start, token.end, text[token.start : token.end]
