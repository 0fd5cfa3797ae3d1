"""Split a search term into clauses: words, and the field in which they are searched.

Parses only what is needed to distinguish values: AND, OR and NOT in capitals and parentheses end a clause, a [tag]
belongs to the words before it, quotes are dropped. Unbalanced brackets and quotes are reported, not repaired. Pure;
classifies nothing.
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
# Entrez accepts "mesh:noexp" and "tiab:~3"; the suffix says how to search, not in which field.
_HOW: Final = re.compile(r":(?:noexp|~[0-9]{1,3})$")


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold one clause.

    ``text``: words with single spaces, "" for a tag without words. ``tag``: lower case, "" if there is none.
    """

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class Term:
    """Hold the clauses of a term; ``uneven`` means that a bracket or quote is unbalanced."""

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
    """Return every tag written in the text, also inside quotes."""
    return frozenset(_plain(tag) for tag in _TAG.findall(text))


def _plain(tag: str) -> str:
    return _HOW.sub("", " ".join(tag.lower().replace("+", " ").split()))
