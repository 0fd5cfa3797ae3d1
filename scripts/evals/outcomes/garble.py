"""Recognise a text that is no language: an accepted word among garbage is not an answer."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_LOOP_WORDS: Final = 4
_LOOP_TIMES: Final = 3
# Of a fluent text about medicine few words are neither ordinary nor in what was read; names alone are one or two.
_UNKNOWN_SHARE: Final = 0.2
_LEAST_UNKNOWN: Final = 2
_QUOTE: Final = re.compile(r"“([^”]+)”(?:\s*\[\d+\])?")
_PROMPT_MARK: Final = "Answer:"
_VOCABULARIES: Final = (
    ("formats", "words", "english.txt"),
    ("corpus", "ingest", "sample", "notes.txt"),
    ("gateway", "store", "sample", "genes.tsv"),
)


def is_garbled(text: str, read: str) -> bool:
    """Whether it repeats itself, goes on as a prompt does, or has words that are neither English nor in ``read``.

    Verbatim quotes are left out: statements about one subject begin alike.
    """
    source = " ".join(read.split()).casefold()
    text = _QUOTE.sub(lambda quote: "" if _stands(quote[1], source) else quote[0], text)
    return _loops(text) or text.count(_PROMPT_MARK) > 1 or _has_unknown_words(text, read)


def _stands(quote: str, source: str) -> bool:
    return " ".join(quote.split()).rstrip(".").casefold() in source


def _loops(text: str) -> bool:
    words = text.casefold().split()
    runs = Counter(tuple(words[start : start + _LOOP_WORDS]) for start in range(len(words) - _LOOP_WORDS + 1))
    return any(times >= _LOOP_TIMES for times in runs.values())


def _has_unknown_words(text: str, read: str) -> bool:
    words = [word.casefold() for word in _WORD.findall(text)]
    known = ordinary_words() | {word.casefold() for word in _WORD.findall(read)}
    unknown = [word for word in words if not {word, word.removesuffix("s"), word.removesuffix("es")} & known]
    return len(set(unknown)) >= _LEAST_UNKNOWN and len(unknown) >= _UNKNOWN_SHARE * len(words)


@cache
def ordinary_words() -> frozenset[str]:
    """30,000 English words, plurals as singulars, and those of the built-in notes and of the sample's genes."""
    retrieval = files("retrieval")
    texts = [retrieval.joinpath(*parts).read_text(encoding="utf-8") for parts in _VOCABULARIES]
    return frozenset(word.casefold() for text in texts for word in _WORD.findall(text))
