"""Words of names and questions in one form, so that spellings of one name meet. Knows no graph.

One form for: case, Unicode compatibility forms and accents, Greek letters and their names, hyphens, slashes, commas and
spaces, "COVID19" and "COVID-19", possessives, plain plurals, British spelling, roman numerals. A question's tokens keep
their places in the text as it was given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

# A word with its combining marks and signs that nobody sees (soft hyphens, zero-width spaces), with "'s" taken along;
# or digits; or what is a letter nowhere (superscripts).
_TOKEN: Final = re.compile(r"(?:[^\W\d_][\u0300-\u036f\u00ad\u200b-\u200d\u2060\ufeff]*)+(?:['’ʼ`´][sS](?!\w))?|\d+")
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
# One letter is a numeral only where a number is due: "X-linked", "vitamin V" and "I have" are none.
_COUNTED: Final = frozenset(("type", "group", "class", "stage", "grade", "factor", "complex", "form", "bipolar"))
_LEAST_PLURAL: Final = 5
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


class Token(NamedTuple):
    """``start``, ``end``: characters of the text; pieces of one character (½) share them."""

    text: str
    start: int
    end: int


def tokens_of(text: str) -> list[Token]:
    """In order. Nothing of a text that has neither letters nor digits."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        for piece in _pieces(match.group()):
            number = numeral(piece, found[-1].text if found else "")
            found.append(Token(number, match.start(), match.end()))
    return found


def fold(text: str) -> list[str]:
    """The tokens alone."""
    return [token.text for token in tokens_of(text)]


def surface(text: str) -> str:
    """The text as it is written but for case, compatibility forms and stretches of white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def hash_text(text: str) -> int:
    """64 bits, the same on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def hash_tokens(tokens: Sequence[str]) -> int:
    """Of the whole sequence, as the last of ``window_hashes`` has it."""
    value = 0
    for token in tokens:
        value = (value * int(_PRIME) + hash_text(token)) & 0xFFFF_FFFF_FFFF_FFFF
    return value


def window_hashes(tokens: Sequence[str], longest: int) -> Iterator[tuple[int, Hashes]]:
    """(length, hash of each window of that length) for 1, 2, ... ``longest`` tokens."""
    single = np.fromiter((hash_text(token) for token in tokens), np.uint64, len(tokens))
    value = single.copy()
    for length in range(1, min(longest, len(tokens)) + 1):
        if length > 1:
            value = value[:-1] * _PRIME + single[length - 1 :]
        yield length, value


def _pieces(word: str) -> list[str]:
    bare = _POSSESSIVE.sub("", word)
    if not bare.isascii():
        bare = "".join(c for c in unicodedata.normalize("NFKD", bare) if not _is_unseen(c))
    folded = bare.casefold()
    if not folded.isascii():
        folded = _GREEK.sub(lambda letter: f" {_GREEK_NAMES[letter.group()]} ", folded)
    return [spelling(piece) for piece in _PIECE.findall(folded)]


def _is_unseen(c: str) -> bool:
    return unicodedata.combining(c) > 0 or unicodedata.category(c) == "Cf"


def spelling(word: str) -> str:
    """One word in small letters as names have it: a singular, American, a number without zeros before it."""
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
    """A roman one as a number; one of a single letter only where the word before asks for a number."""
    if word in _ROMAN and (len(word) > 1 or before in _COUNTED):
        return _ROMAN[word]
    return word
