"""Find the other spellings of keywords that a namespace has, and where a text has them.

``KeywordIndex`` takes hyphens, case, Greek letters, the plural, British and American spelling as one. Added here, each
only where the namespace has it: words with a slip of the pen, and synonyms, which the caller gives. A slip is one
letter more, less, changed or exchanged with its neighbour, never the first one, which often makes another word
(atypical). Of a word that the namespace has, only longer words and no changed letters count (abduction, adduction), and
only where the slip is rare beside the right word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, Protocol

from retrieval.lexical.keyword_frequency.segment import Form, keyword_forms
from retrieval.lexical.tokens import GLUED, HARD, LINKED, SIGN, WORD, Atom, atoms_of

Kind = Literal["spelling", "slip", "synonym"]
MAX_SYNONYMS: Final = 24
_MAX_SLIPS: Final = 5
_MIN_UNKNOWN: Final = 5  # letters of a word that the namespace does not have, for which slips are sought
_MIN_KNOWN: Final = 8  # and of one that it has
_RARE: Final = 50  # a slip is at least so many times rarer than the right word
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Vocabulary(Protocol):
    """Count the words of a namespace."""

    def occurrences(self, term: str) -> int:
        """Return how often the namespace has a term of ``tokens.atoms_of``."""
        ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """Hold one way to write a keyword, with the forms that the index is asked for."""

    text: str
    kind: Kind
    forms: tuple[Form, ...]


def spellings_of(keyword: str, vocabulary: Vocabulary, synonyms: Sequence[str] = ()) -> tuple[Spelling, ...]:
    """Return the spellings of a keyword, first its own, then those that the namespace may have besides."""
    own = Spelling(keyword, "spelling", keyword_forms(keyword))
    found: dict[tuple[Form, ...], Spelling] = {own.forms: own}
    for spelling in (*_respelled(keyword, vocabulary), *_renamed(keyword, vocabulary, synonyms)):
        found.setdefault(spelling.forms, spelling)
    return tuple(found.values())


def _renamed(keyword: str, vocabulary: Vocabulary, synonyms: Sequence[str]) -> Iterator[Spelling]:
    for synonym in synonyms[:MAX_SYNONYMS]:
        forms = keyword_forms(synonym)
        if forms and any(all(vocabulary.occurrences(term) for term in form) for form in forms):
            yield Spelling(synonym, "synonym", forms)


def _respelled(keyword: str, vocabulary: Vocabulary) -> Iterator[Spelling]:
    """Yield spellings with a slip in one word."""
    atoms = atoms_of(keyword)
    terms = [atom.term for atom in atoms]
    for at, atom in enumerate(atoms):
        for other in _slips(atom.term, vocabulary) if atom.kind == WORD else ():
            changed = (*terms[:at], other, *terms[at + 1 :])
            yield Spelling(" ".join(changed), "slip", (changed,))


def _slips(term: str, vocabulary: Vocabulary) -> list[str]:
    count = vocabulary.occurrences(term)
    if len(term) < (_MIN_KNOWN if count else _MIN_UNKNOWN) or not (term.isascii() and term.isalpha()):
        return []
    most = count / _RARE if count else float("inf")
    found = [
        (number, other)
        for other in _one_letter_off(term, with_changed=not count)
        if 0 < (number := vocabulary.occurrences(other)) <= max(most, 1)
    ]
    return [other for _, other in sorted(found, reverse=True)[:_MAX_SLIPS]]


def _one_letter_off(term: str, *, with_changed: bool) -> set[str]:
    """Return the words that differ in one letter, or in the order of two, but not in the first one."""
    cuts = [(term[:at], term[at:]) for at in range(1, len(term) + 1)]
    found = {head + tail[1:] for head, tail in cuts if tail}
    found |= {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    found |= {head + letter + tail for head, tail in cuts for letter in _LETTERS}
    if with_changed:
        found |= {head + letter + tail[1:] for head, tail in cuts if tail for letter in _LETTERS}
    # The plural and its like are no slips.
    return {one for one in found - {term} if one.rstrip("s") != term.rstrip("s")}


@dataclass(frozen=True, slots=True)
class Mention:
    """Mark a place of a text that is one of a keyword's spellings: characters ``start`` to ``end``."""

    keyword: int
    start: int
    end: int


def mentions_in(text: str, keywords: Sequence[Sequence[Spelling]], most: int = 1000) -> list[Mention]:
    """Return where the text has the keywords, as the index counts them, in the order of the text."""
    starting: dict[str, list[tuple[Form, int]]] = {}
    for number, spellings in enumerate(keywords):
        for form in dict.fromkeys(form for spelling in spellings for form in spelling.forms):
            starting.setdefault(form[0], []).append((form, number))
    return list(islice(_mentions(text, starting), most))


def _mentions(text: str, starting: Mapping[str, Sequence[tuple[Form, int]]]) -> Iterator[Mention]:
    atoms = atoms_of(text)
    for at, atom in enumerate(atoms):
        if _is_glued(atoms, at):
            continue
        seen: set[int] = set()
        for first, behind in _readings(atoms, at):
            for form, number in starting.get(first, ()):
                end = _end_of(atoms, behind, form[1:])
                if end and number not in seen and not _is_glued(atoms, end):
                    seen.add(number)
                    yield Mention(number, atom.start, atoms[end - 1].end)


def _readings(atoms: Sequence[Atom], at: int) -> list[tuple[str, int]]:
    """Return the terms that begin at an atom, its own and its join with the next, with the place behind each."""
    found = [(atoms[at].term, at + 1)]
    if at + 1 < len(atoms) and atoms[at + 1].gap <= LINKED:
        found.append((atoms[at].term + atoms[at + 1].term, at + 2))
    return found


def _end_of(atoms: Sequence[Atom], at: int, rest: Form) -> int:
    """Return the place behind the atoms from ``at`` on that are the terms of ``rest``, 0 where they are not."""
    for term in rest:
        if at >= len(atoms) or atoms[at].gap == HARD:
            return 0
        at = next((behind for reading, behind in _readings(atoms, at) if reading == term), 0)
        if not at:
            return 0
    return at


def _is_glued(atoms: Sequence[Atom], at: int) -> bool:
    """Return whether an atom is part of a longer name with the one before; a sign ends a name."""
    if not 0 < at < len(atoms) or atoms[at].gap != GLUED:
        return False
    return SIGN not in (atoms[at - 1].kind, atoms[at].kind)
