"""Find the spans of a question that could name something: runs of content words, without a tagger or model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from retrieval.graph.linking.folding import Token, tokens_of
from retrieval.graph.linking.symbols import is_denied, is_function_word, is_kind_word
from retrieval.graph.linking.types import Span

MAX_SPANS: Final = 48
_MAX_WORDS: Final = 6
_MAX_RUNS: Final = 64
# Characters that may separate two words of one name.
JOINERS: Final = frozenset(" \t\n-‐‑–/'’")


def free_runs(text: str, taken: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """Return at most 64 maximal runs of content words outside ``taken``, split at punctuation."""
    return [_span(text, run) for run in _runs(text, list(taken))][:_MAX_RUNS]


def candidate_spans(text: str, taken: Iterable[tuple[int, int]] = ()) -> list[Span]:
    """Return at most 48 spans of one to six words within ``free_runs``, the longest first.

    A span needs a word of at least four letters or a digit. A span that the word before it negates ("non-") is omitted.
    """
    found: list[Span] = []
    for run in _runs(text, list(taken))[:_MAX_RUNS]:
        words = _words(run)
        for length in range(min(_MAX_WORDS, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                tokens = [token for word in words[first : first + length] for token in word]
                before = words[first - 1][-1] if first else None
                after = words[first + length][0] if first + length < len(words) else None
                if is_denied(text, before, tokens[0].start, tokens[-1].end, after):
                    continue
                if any(len(token.text) > 3 for token in tokens) or any(token.text.isdigit() for token in tokens):
                    found.append(_span(text, tokens))
    return sorted(found, key=lambda span: (span.start - span.end, span.start))[:MAX_SPANS]


def _runs(text: str, taken: list[tuple[int, int]]) -> list[list[Token]]:
    runs: list[list[Token]] = []
    run: list[Token] = []
    covered = bytearray(len(text))
    for start, end in taken:
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


def _words(run: list[Token]) -> list[list[Token]]:
    words: list[list[Token]] = []
    for token in run:
        if words and words[-1][-1].end >= token.start:
            words[-1].append(token)
        else:
            words.append([token])
    return words


def _span(text: str, tokens: list[Token]) -> Span:
    start, end = tokens[0].start, tokens[-1].end
    return Span(start=start, end=end, text=text[start:end])


def outside(spans: Iterable[Span], taken: list[tuple[int, int]]) -> Iterator[Span]:
    """Yield the spans that do not overlap ``taken``."""
    for span in spans:
        if not any(span.start < end and start < span.end for start, end in taken):
            yield span
