"""Takes a search term apart into clauses: words, and the field they are looked for in. Pure; judges nothing.

Only what telling values apart needs: AND, OR and NOT in capitals and parentheses end a clause, a [tag] belongs to the
words before it, quotes are dropped. What does not come out even is reported, not mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PIECE: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\[(?P<tag>[^\[\]]*)\]|(?P<paren>[()])|(?P<odd>["\[\]])|(?P<word>[^\s"\[\]()]+)'
)
_TAG: Final = re.compile(r"\[([^\[\]]*)\]")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
# Entrez takes "mesh:noexp" and "tiab:~3"; the part behind the colon says how, not what.
_HOW: Final = re.compile(r":(?:noexp|~[0-9]{1,3})$")


@dataclass(frozen=True, slots=True)
class Clause:
    """``text``: words with single spaces, "" for a tag without words. ``tag``: lower case, "" where there is none."""

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class Term:
    """``uneven``: a bracket or quote has no partner."""

    clauses: tuple[Clause, ...]
    uneven: bool


def clauses_of(term: str) -> Term:
    clauses: list[Clause] = []
    words: list[str] = []
    uneven = False

    def close(tag: str = "") -> None:
        if words or tag:
            clauses.append(Clause(" ".join(" ".join(words).split()), tag))
        words.clear()

    for piece in _PIECE.finditer(term):
        if piece["tag"] is not None:
            close(_plain(piece["tag"]) or "?")
        elif piece["paren"] or piece["word"] in _OPERATORS:
            close()
        elif piece["odd"]:
            uneven = True
        else:
            words.append(piece["quoted"] if piece["quoted"] is not None else piece["word"])
    close()
    return Term(tuple(clauses), uneven)


def tags_in(text: str) -> frozenset[str]:
    """Every tag written in the text, also inside quotes."""
    return frozenset(_plain(tag) for tag in _TAG.findall(text))


def _plain(tag: str) -> str:
    return _HOW.sub("", " ".join(tag.lower().replace("+", " ").split()))
