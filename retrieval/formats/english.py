"""Provide the ordinary English words that ship with the package, and join words that a line end broke."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Final

_LIGATURES: Final = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
_BROKEN: Final = re.compile(r"(?P<left>[^\W\d_][\w.+-]*)-$")
_NEXT: Final = re.compile(r"(?P<right>[^\W_][^\s]*)\s*")
_FIRST_WORD: Final = re.compile(r"[^\W\d_]+")
_LAST_WORD: Final = re.compile(r"[^\W\d_]+$")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LEAST_PART: Final = 2
_SHORTEST: Final = 3


@lru_cache(maxsize=1)
def ordinary_words() -> frozenset[str]:
    """Return the words of the list, in small letters, plurals as singulars."""
    text = files("retrieval.formats").joinpath("words", "english.txt").read_text(encoding="ascii")
    return frozenset(text.split())


def is_ordinary(word: str) -> bool:
    """Return whether a word in small letters is in the list, as it is or without the ending of a plural or verb."""
    known = ordinary_words()
    stems = [word.removesuffix(ending) for ending in ("", "s", "es", "ed", "ing")]
    if word.endswith(("ed", "ied", "ies")):
        stems += [word[:-1], f"{word[:-3]}y"]
    return any(stem in known for stem in stems)


def join_broken_words(lines: Iterable[str], known: frozenset[str] = frozenset()) -> list[str]:
    """Return the lines with words that a line end breaks after a hyphen whole again, at the end of the first line.

    A compound keeps its hyphen: well-known, anti-IL-5. One of small letters is told by ``known``, the words that stand
    in the same document, and by the list: the hyphen goes unless both parts are words and the whole is none.
    """
    out: list[str] = []
    for line in lines:
        broken = _BROKEN.search(out[-1]) if out else None
        following = _NEXT.match(line) if broken else None
        if broken is None or following is None:
            out.append(line)
            continue
        last = out[-1] if _keeps_hyphen(broken["left"], following["right"], known) else out[-1][:-1]
        out[-1] = last + following["right"]
        if rest := line[following.end() :]:
            out.append(rest)
    return out


def printed_text(text: str) -> str:
    """Return the text of printed lines as typed: broken words whole, ligatures as their letters."""
    lines = text.translate(_LIGATURES).split("\n")
    return "\n".join(join_broken_words(lines, words_of(lines)))


def words_of(lines: Iterable[str]) -> frozenset[str]:
    """Return the words within lines, compounds whole, in small letters; without the parts of broken ones."""
    words: set[str] = set()
    is_broken = False
    for line in lines:
        found = [one[0].lower() for one in _WORD.finditer(line)]
        goes_on, is_broken = is_broken, _BROKEN.search(line) is not None
        words.update(found[goes_on : len(found) - is_broken])
    return frozenset(words)


def _keeps_hyphen(before: str, after: str, known: frozenset[str]) -> bool:
    left, right = _LAST_WORD.search(before), _FIRST_WORD.match(after)
    if left is None or right is None or not (left[0].islower() or left[0].istitle()) or not right[0].islower():
        return True  # a number, a symbol or a name beside the hyphen
    if min(len(left[0]), len(right[0])) < _LEAST_PART or not (left[0] + right[0]).isascii():
        return True  # interferon-γ
    if left.start() and before[left.start() - 1].isdigit():
        return True
    first, second = left[0].lower(), right[0]
    return not _is_one_word(first, second, lambda word: word in known or is_ordinary(word), known)


def _is_one_word(first: str, second: str, is_word: Callable[[str], bool], known: frozenset[str]) -> bool:
    if first + second in known:
        return True
    if f"{first}-{second}" in known:
        return False
    if is_ordinary(first + second):
        return True
    return not (min(len(first), len(second)) >= _SHORTEST and is_word(first) and is_word(second))
