"""Find the spellings of keywords, and where a text has them.

One spelling takes hyphens, case, Greek letters, the plural, British and American spelling as one. ``spellings_of``
adds words of the namespace with a slip of the pen, and synonyms, which the caller gives. A slip is one letter more,
less, changed or exchanged with its neighbour, never the first one, which often makes another word (atypical). Of a word
that the namespace has, only longer words and no changed letters count (abduction, adduction), and only where the slip
is rare beside the right word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, Protocol

from retrieval.formats.edits import single_edits
from retrieval.lexical.keyword_frequency.phrases import Form, are_linked_words, keyword_forms
from retrieval.lexical.tokens import GLUED, HARD, SIGN, WORD, Atom, atoms_of

Kind = Literal["spelling", "slip", "synonym"]
MAX_SYNONYMS: Final = 24
_MAX_SLIPS: Final = 5
_MIN_UNKNOWN: Final = 5  # letters of a word that the namespace does not have, for which slips are sought
_MIN_KNOWN: Final = 8  # and of one that it has
_RARE: Final = 50  # a slip is at least so many times rarer than the right word


class Vocabulary(Protocol):
    """Count the passages of a namespace that have a word."""

    def num_with(self, terms: Iterable[str]) -> Mapping[str, int]:
        """Return how many passages have each of the terms of ``tokens.atoms_of`` that any has."""
        ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """Hold one way to write a keyword, with its forms."""

    text: str
    kind: Kind
    forms: tuple[Form, ...]


def spellings_of(keyword: str, vocabulary: Vocabulary, synonyms: Sequence[str] = ()) -> tuple[Spelling, ...]:
    """Return the spellings of a keyword: its own, slips that the namespace has, and the first of the synonyms."""
    own = Spelling(keyword, "spelling", keyword_forms(keyword))
    renamed = (Spelling(one, "synonym", keyword_forms(one)) for one in synonyms[:MAX_SYNONYMS])
    found: dict[tuple[Form, ...], Spelling] = {own.forms: own}
    for spelling in (*_respelled(keyword, vocabulary), *renamed):
        if spelling.forms:
            found.setdefault(spelling.forms, spelling)
    return tuple(found.values())


def _respelled(keyword: str, vocabulary: Vocabulary) -> Iterator[Spelling]:
    """Yield spellings with a slip in one word."""
    atoms = atoms_of(keyword)
    terms = [atom.term for atom in atoms]
    for at, atom in enumerate(atoms):
        for other in _slips(atom.term, vocabulary) if atom.kind == WORD else ():
            changed = (*terms[:at], other, *terms[at + 1 :])
            yield Spelling(" ".join(changed), "slip", (changed,))


def _slips(term: str, vocabulary: Vocabulary) -> list[str]:
    if not (term.isascii() and term.isalpha()):
        return []
    count = vocabulary.num_with([term]).get(term, 0)
    if len(term) < (_MIN_KNOWN if count else _MIN_UNKNOWN):
        return []
    most = max(count / _RARE, 1) if count else float("inf")
    found = vocabulary.num_with(_one_letter_off(term, with_changed=not count))
    slips = sorted(((number, other) for other, number in found.items() if number <= most), reverse=True)
    return [other for _, other in slips[:_MAX_SLIPS]]


def _one_letter_off(term: str, *, with_changed: bool) -> set[str]:
    """Return the words that differ in one letter, or in the order of two, but not in the first one."""
    found = set(single_edits(term, 1))
    if not with_changed:
        found = {one for one in found if len(one) != len(term) or sorted(one) == sorted(term)}
    # The plural and its like are no slips.
    return {one for one in found - {term} if one.rstrip("s") != term.rstrip("s")}


@dataclass(frozen=True, slots=True)
class Mention:
    """Mark a position of a text that is one of a keyword's spellings: characters ``start`` to ``end``."""

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
    """Return the terms that begin at an atom, its own and two linked words as one, with the position behind each."""
    found = [(atoms[at].term, at + 1)]
    if at + 1 < len(atoms) and are_linked_words(atoms[at], atoms[at + 1]):
        found.append((atoms[at].term + atoms[at + 1].term, at + 2))
    return found


def _end_of(atoms: Sequence[Atom], at: int, rest: Form) -> int:
    """Return the position behind the atoms from ``at`` on that are the terms of ``rest``, 0 where they are not."""
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
