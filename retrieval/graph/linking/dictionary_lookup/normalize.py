"""Normalize the words of names and questions, so that spellings of one name match in any graph.

Normalizes: case, Unicode compatibility forms and accents, Greek letters and their names, hyphens, slashes, commas and
spaces, "COVID19" and "COVID-19", possessives, plain plurals, British spelling, roman numerals. A question's tokens
retain their positions in the original text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
# A word with its combining marks and invisible characters (soft hyphens, zero-width spaces) and a following "'s"; the
# pattern of a letter also matches superscripts, which are none. Or digits.
_TOKEN: Final = re.compile(r"(?:[^\W\d_][\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufeff]*)+(?:['’ʼ`´][sS](?!\w))?|\d+")
# The same for ASCII, in a third of the time: most names are.
_ASCII_TOKEN: Final = re.compile(r"[a-zA-Z]+(?:['`][sS](?!\w))?|[0-9]+")
_POSSESSIVE: Final = re.compile(r"['’ʼ`´][sS]$")
_PIECE: Final = re.compile(r"[^\W\d_]+|\d+")
_GREEK: Final = re.compile(r"[α-ω]")
_GREEK_NAMES: Final = {
    letter: unicodedata.name(letter).rsplit(" ", 1)[1].lower().replace("lamda", "lambda")
    for letter in "αβγδεζηθικλμνξοπρςστυφχψω"
}
_TENS: Final = ("", "x", "xx")
_ONES: Final = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_ROMAN: Final = {
    ten + one: str(10 * tens + ones) for tens, ten in enumerate(_TENS) for ones, one in enumerate(_ONES) if ten or one
}
# A single letter is a numeral only after one of these words: "X-linked", "vitamin V" and "I have" have none.
_COUNTED: Final = frozenset(("type", "group", "class", "stage", "grade", "factor", "complex", "form", "bipolar"))
_LEAST_PLURAL: Final = 5
# The words of a graph's names recur: a third of the time that a dictionary takes to build.
_CACHED: Final = 16_384
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


class Token(NamedTuple):
    """Hold one normalized token.

    ``start``, ``end``: characters of the text; the pieces of one character (½) share them.
    """

    text: str
    start: int
    end: int


def tokens_of(text: str) -> list[Token]:
    """Return the tokens in order, none for a text without letters or digits."""
    found: list[Token] = []
    for match in _pattern(text).finditer(text):
        for piece in _pieces(match.group()):
            number = numeral(piece, found[-1].text if found else "")
            found.append(Token(number, match.start(), match.end()))
    return found


def fold(text: str) -> list[str]:
    """Return the texts of the tokens, without their places: a dictionary folds names by the hundred thousand."""
    found = [""]
    for word in _pattern(text).findall(text):
        for piece in _pieces(word):
            found.append(numeral(piece, found[-1]))
    return found[1:]


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else _TOKEN


def surface(text: str) -> str:
    """Return the text normalized only in case, compatibility forms and runs of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=_CACHED)
def hash_text(text: str) -> int:
    """Return a 64-bit hash that is the same on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def hash_tokens(tokens: Sequence[str]) -> int:
    """Return the hash of the whole sequence, equal to the last one of ``window_hashes``."""
    value = 0
    for token in tokens:
        value = (value * int(_PRIME) + hash_text(token)) & 0xFFFF_FFFF_FFFF_FFFF
    return value


def window_hashes(tokens: Sequence[str], longest: int) -> Iterator[tuple[int, Hashes]]:
    """Yield (length, hash of each window of that length) for 1, 2, ... ``longest`` tokens."""
    single = np.fromiter((hash_text(token) for token in tokens), np.uint64, len(tokens))
    value = single.copy()
    for length in range(1, min(longest, len(tokens)) + 1):
        if length > 1:
            value = value[:-1] * _PRIME + single[length - 1 :]
        yield length, value


@lru_cache(maxsize=_CACHED)
def _pieces(word: str) -> tuple[str, ...]:
    if word.isascii() and word.isalnum():
        return (spelling(word.lower()),)
    bare = _POSSESSIVE.sub("", word)
    if not bare.isascii():
        bare = "".join(c for c in unicodedata.normalize("NFKD", bare) if not _is_unseen(c))
    folded = bare.casefold()
    if not folded.isascii():
        folded = _GREEK.sub(lambda letter: f" {_GREEK_NAMES[letter.group()]} ", folded)
    return tuple(spelling(piece) for piece in _PIECE.findall(folded))


def _is_unseen(c: str) -> bool:
    return unicodedata.combining(c) > 0 or unicodedata.category(c) == "Cf"


def spelling(word: str) -> str:
    """Normalize one lower-case word: singular, American spelling, a number without leading zeros."""
    if word.isdigit():
        return word.lstrip("0") or "0"
    if len(word) >= _LEAST_PLURAL:
        word = word.replace("ae", "e").replace("oe", "e").replace("sulph", "sulf").replace("tumour", "tumor")
        if word.endswith("ies"):
            return word[:-3] + "y"
        if word.endswith("s") and not word.endswith(("ss", "us", "is")):
            return word[:-1]
    return word


def numeral(word: str, before: str) -> str:
    """Return a roman numeral as a number; a single letter counts only if the word before it requires a number."""
    if word in _ROMAN and (len(word) > 1 or before in _COUNTED):
        return _ROMAN[word]
    return word


def gap_before(text: str, tokens: Sequence[Token], position: int) -> str:
    return text[tokens[position - 1].end : tokens[position].start]
