"""Write passages as tokens whose phrases a lexical index counts, and keywords as such phrases.

A token is the term of an atom (``tokens.atoms_of``) with marks of how it touches its neighbours: ``<`` where it is
glued to the one before, as the 6 of IL6, then ``=`` where it is glued to the next, as the IL, or ``-`` where it is a
word that a sign links with the next (anti-inflammatory). ``.`` stands where a clause ends, so that no phrase spans two.
A sign ends a name and is glued to nothing: CD4 occurs in CD4+, and CD25 in CD4+CD25+.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

from retrieval.index.base import RowFilter
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.keyword_frequency.pes2 import KeywordTable
from retrieval.lexical.tokens import (
    GLUED,
    HARD,
    LINKED,
    NAMED_LETTER,
    SIGN,
    WORD,
    Atom,
    atoms_of,
    atoms_without_offsets,
)

_AFTER_GLUE, _GLUED, _LINKED = "<", "=", "-"
_RIGHT: Final = ("", _LINKED, _GLUED)
_END: Final = "."
_LETTERS: Final = (WORD, NAMED_LETTER)
_MAX_FORMS_ATOMS: Final = 8
# Consecutive terms.
Form = tuple[str, ...]
# Consecutive tokens.
Phrase = tuple[str, ...]
Occurs = Callable[[Phrase], bool]


def phrase_tokens(text: str) -> list[str]:
    """Return the tokens of a text in their order."""
    atoms = atoms_without_offsets(text)
    out: list[str] = []
    left = ""
    for at, atom in enumerate(atoms):
        if out and atom.gap == HARD:
            out.append(_END)
        right = _right_mark(atom, atoms[at + 1]) if at + 1 < len(atoms) else ""
        out.append(atom.term + left + right)
        left = _AFTER_GLUE if right == _GLUED else ""
    return out


def _right_mark(atom: Atom, after: Atom) -> str:
    if after.gap == GLUED and SIGN not in (atom.kind, after.kind):
        return _GLUED
    return _LINKED if are_linked_words(atom, after) else ""


def are_linked_words(atom: Atom, after: Atom) -> bool:
    return after.gap <= LINKED and atom.kind in _LETTERS and after.kind in _LETTERS


def keyword_forms(keyword: str) -> tuple[Form, ...]:
    """Return the sequences of terms that match a keyword: its atoms, also with adjacent words joined.

    () for a keyword without letters, digits and signs of names.
    """
    atoms = atoms_of(keyword)
    plain = tuple(atom.term for atom in atoms)
    if not plain or len(plain) > _MAX_FORMS_ATOMS:
        return (plain,) if plain else ()
    forms: list[list[Form]] = [[] for _ in range(len(atoms) + 1)]
    forms[0] = [()]
    for at, atom in enumerate(atoms):
        forms[at + 1] += [(*form, atom.term) for form in forms[at]]
        if at and atom.kind in _LETTERS and atoms[at - 1].kind in _LETTERS:
            forms[at + 1] += [(*form, atoms[at - 1].term + atom.term) for form in forms[at - 1]]
    return tuple(dict.fromkeys(forms[-1]))


def phrases_of(forms: Sequence[Form], occurs: Occurs) -> list[Phrase]:
    """Return the phrases by which a text has one of the forms as a whole name, no two of them at the same position.

    ``occurs`` tells whether passages have a phrase; without those that occur nowhere only few are left.
    """
    found = dict.fromkeys(phrase for form in forms for phrase in _phrases((), "", form, occurs))
    return [phrase for phrase in found if not any(phrase[:length] in found for length in range(1, len(phrase)))]


def _phrases(before: Phrase, left: str, form: Form, occurs: Occurs) -> Iterator[Phrase]:
    """Yield the phrases of a form that follow ``before``; ``left`` is the mark of the first token."""
    for tokens in _readings(form[0], left, occurs):
        phrase, is_glued = (*before, *tokens), tokens[-1].endswith(_GLUED)
        if len(form) == 1:
            if not is_glued:
                yield phrase
        elif len(phrase) == 1 or occurs(phrase):
            yield from _phrases(phrase, _AFTER_GLUE if is_glued else "", form[1:], occurs)


def _readings(term: str, left: str, occurs: Occurs) -> Iterator[Phrase]:
    """Yield the tokens that read as a term: its own, and two linked words that make it together."""
    for right in _RIGHT:
        if occurs((token := term + left + right,)):
            yield (token,)
    for cut in range(1, len(term)) if term.isalpha() else ():
        for link, after in ((_LINKED, ""), (_GLUED, _AFTER_GLUE)):
            if not occurs((first := term[:cut] + left + link,)):
                continue
            for right in _RIGHT:
                if occurs((second := term[cut:] + after + right,)):
                    yield first, second


class KeywordCounts:
    """Count keywords in the passages of an index that a filter admits, and ask for each phrase once."""

    def __init__(self, index: LexicalIndex, where: RowFilter | None = None) -> None:
        self._phrases = index.phrases()
        self._has = cache(self._phrases.has)
        self._counts = cache(lambda phrase: self._phrases.counts(phrase, where))

    def num_with(self, terms: Iterable[str]) -> Counter[str]:
        """Return how many passages have each of the terms that any has, alone or at the beginning of a name."""
        tokens = {term + right: term for term in terms for right in _RIGHT}
        found = Counter[str]()
        for token, number in self._phrases.known(tokens).items():
            found[tokens[token]] += number
        return found

    def total(self, forms: Sequence[Form]) -> int:
        """Return how often the passages have one of the forms."""
        return sum(int(self._counts(phrase)[1].sum()) for phrase in phrases_of(forms, self._has))

    def table(self, names: Sequence[str], forms: Sequence[Sequence[Form]]) -> KeywordTable:
        """Count, under each name, the positions that have one of its forms, in every passage that has any.

        A keyword inside a longer name (IL-1 in IL-10, BRCA in BRCA1) does not count.
        """
        none = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        columns = []
        for one in forms:
            parts = [none, *map(self._counts, phrases_of(one, self._has))]
            columns.append((np.concatenate([ids for ids, _ in parts]), np.concatenate([found for _, found in parts])))
        ids = np.unique(np.concatenate([none[0], *(ids for ids, _ in columns)]))
        # Column by column in memory, as the ranking sums over keywords.
        counts = np.zeros((len(ids), len(forms)), dtype=np.int64, order="F")
        for at, (having, found) in enumerate(columns):
            counts[:, at] = np.bincount(np.searchsorted(ids, having), found, len(ids))
        return KeywordTable(tuple(names), ids, counts)
