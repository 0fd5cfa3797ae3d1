"""Tokenize biomedical text in the same way for passages, queries and keywords.

A text is a sequence of *atoms*: runs of letters, runs of digits, Greek letters by their names, and signs that belong to
a name (the ``+`` of CD4+, the ``(-)`` of (−)-epicatechin). Two adjacent atoms have a gap between them; those that some
spelling writes as one name are *linked* and also give one joined term, at the position of the first:

    IL-6, IL6, il 6      il · 6          and il6
    TNF-α, TNFalpha      tnf · alpha     and tnfalpha
    p.Val600Glu          p · val · 600 · glu  and pval, val600, 600glu
    HLA-DRB1*15:01       hla · drb · 1 · 15 · 01  and hladrb, drb1, 1.15, 15.01
    BRCA1/2              as BRCA1/BRCA2
    10^6, 10⁶, 10(6)     10 · ^6     and 10.^6; neither 106 nor 10.6 nor 10-6
    vitamin A, CD4+      vitamin · a and vitamina;  cd · 4 · + and cd4, 4+

Names also have the terms of their other spellings (``names``). Letters are folded (``normalise``), plurals and British
spellings too (``spelling``: genes, gene; tumours, tumor; KRAS stays), and the possessive s is dropped. Passages keep
every word; queries leave function words out where they have others. A blank links only what reads as a name: a whole
number of up to four digits or a letter after a word that is no function word, and Greek letters. Not matched:
``follow up`` by ``followup``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from models.function_words import FUNCTION_WORDS as FUNCTION_WORDS
from retrieval.lexical.spelling import ALIASES, Part, joined, variants, word_key

GREEK: Final = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "ι": "iota",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "ξ": "xi",
    "ο": "omicron",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "φ": "phi",
    "χ": "chi",
    "ψ": "psi",
    "ω": "omega",
}
_ONE_FORM: Final = {
    **dict.fromkeys("‐‑‒–—―−⁻₋﹣－˗⁃", "-"),
    **dict.fromkeys("’‘ʼ′ʹ´`ʹ", "'"),
    **dict.fromkeys("⁺₊＋", "+"),
    "×": " ",
    "·": ".",
    "∙": ".",
    "⁄": "/",
    "→": ">",
}
_UNSEEN: Final = frozenset({"Mn", "Cf", "Cs"})
_CLUSTER: Final = re.compile(r"[^\u0300-\u036f][\u0300-\u036f]*|[\u0300-\u036f]+", re.DOTALL)


class Normalised(NamedTuple):
    """Hold a normalized text with its offsets.

    Character i of ``text`` stands for ``starts[i]``..``ends[i]`` of the original.
    """

    text: str
    starts: tuple[int, ...] | range
    ends: tuple[int, ...] | range


def normalise(text: str) -> Normalised:
    """Apply NFKC and case folding, drop accents, and unify hyphens, minus signs, primes and arrows.

    Invisible characters (zero width, soft hyphen) are dropped; a raised number after a digit is separated by ``^``, a
    lowered one by ``_``, so that 10⁶ is not 106 and 10⁻⁶ not 10-6.
    """
    if text.isascii():
        return Normalised(text.lower(), range(len(text)), range(1, len(text) + 1))
    out: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        plain = _plain(cluster[0])
        if out and (out[-1].isdecimal() or out[-1] in ".,") and (mark := _number_mark(text, cluster.start())):
            plain = mark + plain
        out.extend(plain)
        starts.extend([cluster.start()] * len(plain))
        ends.extend([cluster.end()] * len(plain))
    return Normalised("".join(out), tuple(starts), tuple(ends))


def _plain(cluster: str) -> str:
    known = _ONE_FORM.get(cluster)
    if known is not None:
        return known
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", cluster).casefold())
    seen = (char for char in folded if unicodedata.category(char) not in _UNSEEN)
    return "".join(_ONE_FORM.get(char, char) for char in seen)


def _number_mark(text: str, position: int) -> str:
    """Return the mark of a raised or lowered number that begins here, "" for none."""
    place = _place(text[position])
    if not place or _place(text[position - 1]) == place:
        return ""
    first = position + (text[position] in "⁺⁻₊₋")
    is_number = first < len(text) and _place(text[first]) == place and unicodedata.digit(text[first], None) is not None
    return place if is_number else ""


def _place(char: str) -> str:
    """Return ^ for a raised character, _ for a lowered one."""
    decomposition = unicodedata.decomposition(char)
    return "^" if decomposition.startswith("<super>") else "_" if decomposition.startswith("<sub>") else ""


TOKENIZER_VERSION: Final = 3
GLUED, LINKED, BLANK, SOFT, HARD = range(5)
WORD, DIGITS, NAMED_LETTER, SIGN = range(4)
_MAX_TERM: Final = 64
_MAX_CACHED: Final = 48
_MAX_BLANK_DIGITS: Final = 4
_MAX_CODE: Final = 4  # atoms that are looked at for a code of three, as A1c
_MAX_PREFIX: Final = 3
_MAX_PAIRS: Final = 8
_NAMES_BEFORE_A: Final = frozenset(
    re.findall(
        r"\w+",
        "amyloid annexin apolipoprotein class coenzyme cyclosporin cyclosporine factor grade group haemophilia "
        "hemophilia hepatitis immunoglobulin influenza protein serotype stage subtype subunit toxin type variant "
        "vitamin",
    )
)
_ATOM: Final = re.compile(
    r"(?<=[^\W\d_])'s(?![^\W_])"
    r"|(?P<greek>[α-ω])"
    r"|(?P<word>[^\W\d_α-ω]+)"
    # A power, as typed, in LaTeX too, and as PubMed wrote it before it had markup: 10(6), which is no volume and issue.
    r"|(?P<power>(?<=\d)\^[({]?[+-]?\d+[)}]?|(?<![\d.,;]10)(?<=10)\([+-]?\d{1,2}\)(?!:))"
    r"|(?P<digits>\d+)"
    r"|\((?P<bracketed>[+±-])\)"
    r"|(?<=[^\W_])(?P<sign>\++|-(?=$|[,.;:)\]/]))"
)
_SPELLED: Final = re.compile(r"(.{0,6}?)(alpha|beta|gamma|delta|epsilon|kappa|lambda|omega|sigma|theta|zeta)([^s]?)")
# Shorter names are words of other meanings too.
_NAMES_OF_LETTERS: Final = frozenset(name for name in GREEK.values() if len(name) > 3)
_LINKS: Final = frozenset("-_.:*>^~")
_DECIMAL: Final = re.compile(r"\D*\d+\.\d")
_BREAK: Final = re.compile(r"[;!?]")
_ENDING: Final = re.compile(r"[.,;:!?]")


class Atom(NamedTuple):
    """Hold one atom of a text.

    ``kind`` is WORD, DIGITS, NAMED_LETTER (Greek) or SIGN; ``gap``, GLUED to HARD, is that to the atom before.
    ``start``, ``end`` are character offsets into the original text.
    """

    term: str
    kind: int
    gap: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Token:
    """Hold all terms of one position: the atom first, then its join with the next.

    ``position`` counts from 0.
    """

    position: int
    start: int
    end: int
    terms: tuple[str, ...]


class _Chunk(NamedTuple):
    """Hold the atoms of the text between two blanks.

    ``tail`` is the gap that its end makes, ``terms`` are those within it, ``joins``: whether its first atom may be
    linked to the one before.
    """

    atoms: tuple[Atom, ...]
    tail: int
    terms: tuple[str, ...]
    joins: bool


def atoms_of(text: str) -> list[Atom]:
    """Return the atoms in order, none for a text without letters and digits; never raises."""
    out: list[Atom] = []
    tail = HARD
    for base, chunk in _chunks(text):
        for position, atom in enumerate(chunk.atoms):
            gap = atom.gap if position else max(tail, atom.gap)
            out.append(Atom(atom.term, atom.kind, gap, atom.start + base, atom.end + base))
        tail = chunk.tail if chunk.atoms else max(tail, chunk.tail)
    return out


def atoms_without_offsets(text: str) -> list[Atom]:
    """Return the atoms of ``atoms_of`` with meaningless offsets, several times faster."""
    out: list[Atom] = []
    tail = HARD
    for word in text.split():
        atoms, end, _, _ = _cached_chunk(word) if len(word) <= _MAX_CACHED else _chunk(word)
        if not atoms:
            tail = max(tail, end)
            continue
        if tail > atoms[0].gap:
            out.append(atoms[0]._replace(gap=tail))
            out.extend(atoms[1:])
        else:
            out.extend(atoms)
        tail = end
    return out


def tokenize(text: str) -> list[Token]:
    """Return the terms of each position, as an index stores them."""
    atoms = atoms_of(text)
    others: dict[int, list[str]] = {}
    for position, term in _variants(atoms):
        others.setdefault(position, []).append(term)
    out = []
    for position, atom in enumerate(atoms):
        after = atoms[position + 1] if position + 1 < len(atoms) else None
        joined = join(atom, after) if after is not None and linked(atom, after) else ""
        terms = (atom.term, joined) if joined else (atom.term,)
        out.append(Token(position, atom.start, atom.end, (*terms, *others.get(position, ()))))
    return out


def index_terms(text: str) -> list[str]:
    """Return the terms of ``tokenize`` in no particular order, several times faster."""
    out: list[str] = []
    last: Atom | None = None
    for word in text.split():
        atoms, tail, terms, joins = _cached_chunk(word) if len(word) <= _MAX_CACHED else _chunk(word)
        if joins and last is not None:
            if _blank_links(last, atoms[0]):
                out.append(join(last, atoms[0]))
            out.extend(_blank_variants(last, atoms))
        out.extend(terms)
        if tail > BLANK:
            last = None
        elif atoms:
            last = atoms[-1]
    return out


def query_terms(text: str) -> list[str]:
    """Return the terms to search for, each once, in order: joined ones for names, and words.

    Function words are searched for only if there is nothing else. A number or a letter that is part of a joined term is
    not searched for by itself, since it is too common. Capitals make a name of a function word (the WAS gene), unless
    the whole text is in capitals.
    """
    return list(dict.fromkeys(term for group in _groups(text) for term in group))


def query_groups(text: str) -> list[list[str]]:
    """Return the terms of ``query_terms`` in groups, of which a passage should be credited with its best term alone.

    The other spellings of a name say nothing more than the one that is there, and neither does the symbol of its gene,
    which is added.
    """
    groups = _groups(text)
    known = {term for group in groups for term in group}
    return [
        [*group, *(ALIASES[one] for one in group if one in ALIASES and ALIASES[one] not in known)] for group in groups
    ]


def _groups(text: str) -> list[list[str]]:
    atoms = atoms_of(text)
    pairs = [linked(one, two) for one, two in pairwise(atoms)]
    shouted = text.isupper()
    chosen: dict[str, list[str]] = {}
    weak: dict[str, list[str]] = {}
    last_join: dict[int, str] = {}
    for position, atom in enumerate(atoms):
        if not _is_joined(atoms, pairs, position):
            is_name = len(atom.term) > 1 and not shouted and text[atom.start : atom.end].isupper()
            kind = weak if atom.term in FUNCTION_WORDS and not is_name else chosen
            kind.setdefault(atom.term, [atom.term])
        if position < len(pairs) and pairs[position]:
            joined_term = join(atom, atoms[position + 1])
            chosen.setdefault(joined_term, [joined_term])
            last_join[position] = joined_term
    for position, term in _variants(atoms):
        if term not in chosen:
            # The last pair of the name: it is as specific as its other spellings.
            chosen.setdefault(last_join.get(_last_pair(pairs, position), term), []).append(term)
    return list((chosen or weak).values())


def _last_pair(pairs: list[bool], position: int) -> int:
    """Return the last pair of the name that begins at ``position``, of a bounded number of parts; -1 for none."""
    last = -1
    for place in range(position, min(position + _MAX_PAIRS, len(pairs))):
        if not pairs[place]:
            break
        last = place
    return last


def _is_joined(atoms: list[Atom], pairs: list[bool], position: int) -> bool:
    """Return whether a joined term represents the atom better.

    Two numbers may be separate in another spelling, so their join does not.
    """
    atom = atoms[position]
    if len(atom.term) > 1 and atom.kind != DIGITS:
        return False
    neighbours = [
        atoms[other] for other, pair in ((position - 1, position - 1), (position + 1, position)) if _is(pairs, pair)
    ]
    return any(not (other.kind == DIGITS == atom.kind) for other in neighbours)


def _is(pairs: list[bool], position: int) -> bool:
    return 0 <= position < len(pairs) and pairs[position]


def linked(atom: Atom, after: Atom) -> bool:
    """Return whether the two atoms are parts of one name."""
    if after.gap <= LINKED:
        return True
    return after.gap == BLANK and _blank_links(atom, after)


def join(atom: Atom, after: Atom) -> str:
    """Return one term for two atoms; digits keep a dot between them, as 15:01 is not 1501."""
    return f"{atom.term}{'.' if atom.kind == DIGITS == after.kind else ''}{after.term}"


def _blank_links(atom: Atom, after: Atom) -> bool:
    if atom.kind == SIGN or after.kind == SIGN or atom.term in FUNCTION_WORDS:
        return False
    if after.kind == DIGITS:
        return atom.kind != DIGITS and len(after.term) <= _MAX_BLANK_DIGITS
    if after.term == "a":
        return atom.term in _NAMES_BEFORE_A
    return len(after.term) == 1 or after.kind == NAMED_LETTER


def _variants(atoms: Sequence[Atom]) -> Iterator[tuple[int, str]]:
    """Yield (position, term) for the other spellings of all names."""
    start = 0
    for end in range(1, len(atoms) + 1):
        if end < len(atoms) and atoms[end].gap <= LINKED:
            continue
        for place, term in variants(_parts(atoms[start:end])):
            yield start + place, term
        if end < len(atoms) and atoms[end].gap == BLANK:
            for term in _blank_variants(atoms[end - 1], atoms[end : end + _MAX_CODE]):
                yield end - 1, term
        start = end


def _blank_variants(atom: Atom, after: Sequence[Atom]) -> Iterator[str]:
    """Yield the terms of a name that a blank divides: TNF alpha, microRNA 21, Hb A1c."""
    if _blank_links(atom, after[0]):
        yield from (term for _, term in variants(_parts((atom, after[0]))))
    code = [after[0]]
    for part in after[1:_MAX_CODE]:
        if part.gap > LINKED:
            break
        code.append(part)
    is_code = len(code) == _MAX_CODE - 1 and len(code[0].term) == 1 and code[1].kind == DIGITS
    if is_code and atom.kind == WORD and len(atom.term) <= _MAX_PREFIX and atom.term not in FUNCTION_WORDS:
        yield joined(_parts((atom, *code)))


def _parts(atoms: Sequence[Atom]) -> list[Part]:
    return [Part(atom.term, atom.kind == DIGITS, atom.kind == NAMED_LETTER) for atom in atoms]


def _chunks(text: str) -> Iterator[tuple[int, _Chunk]]:
    for found in re.finditer(r"\S+", text):
        chunk = found[0]
        yield found.start(), _cached_chunk(chunk) if len(chunk) <= _MAX_CACHED else _chunk(chunk)


def _chunk(text: str) -> _Chunk:
    plain = normalise(text)
    atoms: list[Atom] = []
    end = 0
    for found in _ATOM.finditer(plain.text):
        if found.lastgroup is None:
            end = found.end()
            continue
        gap = _gap(plain.text[end : found.start()]) if atoms or found.start() else GLUED
        for atom in _atoms_of_match(found, plain, gap):
            _append(atoms, atom, plain.text[end : found.start()])
        end = found.end()
    if atoms:
        decimal = atoms[0].kind == DIGITS and _DECIMAL.match(plain.text)
        atoms[0] = atoms[0]._replace(gap=max(atoms[0].gap, SOFT if decimal else BLANK))
    after = plain.text[end:].strip("'\"”»")
    tail = HARD if _ENDING.search(after) else SOFT if after else GLUED
    terms = [atom.term for atom in atoms]
    terms += [join(one, two) for one, two in pairwise(atoms) if linked(one, two)]
    terms += [term for _, term in _variants(atoms)]
    joins = bool(atoms) and atoms[0].gap == BLANK and (atoms[0].kind != WORD or len(atoms[0].term) == 1)
    return _Chunk(tuple(atoms), tail, tuple(terms), joins)


# Two thirds of the words of any text are among the commonest few thousand.
_cached_chunk = lru_cache(maxsize=2**16)(_chunk)


def _gap(between: str) -> int:
    bare = between.replace("'", "").replace('"', "")
    if not between:
        return GLUED
    if bare in _LINKS or bare == "":
        return LINKED
    return HARD if _BREAK.search(bare) else SOFT


def _atoms_of_match(found: re.Match[str], plain: Normalised, gap: int) -> Iterator[Atom]:
    kind = found.lastgroup or ""
    start, end = plain.starts[found.start()], plain.ends[found.end() - 1]
    if kind == "greek":
        yield Atom(GREEK.get(found[0], found[0]), NAMED_LETTER, gap, start, end)
    elif kind == "digits":
        yield Atom(found[0][:_MAX_TERM], DIGITS, gap, start, end)
    elif kind == "power":
        yield Atom(f"^{found[0].strip('^(){}').removeprefix('+')}"[:_MAX_TERM], DIGITS, gap, start, end)
    elif kind == "word":
        yield from _letters(found, plain, gap)
    else:
        yield Atom(found[kind][0], SIGN, gap, start, end)


def _letters(found: re.Match[str], plain: Normalised, gap: int) -> Iterator[Atom]:
    """Yield the atoms of a word, split around a Greek letter's name in a symbol (TNFalpha, NFkappaB)."""
    spelled = _SPELLED.fullmatch(found[0])
    parts = [part for part in spelled.groups() if part] if spelled else [found[0]]
    at = found.start()
    for part in parts:
        kind = NAMED_LETTER if part in _NAMES_OF_LETTERS else WORD
        yield Atom(word_key(part)[:_MAX_TERM], kind, gap, plain.starts[at], plain.ends[at + len(part) - 1])
        at += len(part)
        gap = GLUED


def _append(atoms: list[Atom], atom: Atom, between: str) -> None:
    """Append an atom, preceded by the letters of the name where only its number is repeated.

    BRCA1/2 means BRCA1 and BRCA2.
    """
    has_letters = len(atoms) >= 2 and atoms[-1].kind == DIGITS and atoms[-2].kind == WORD and atoms[-1].gap <= LINKED
    if between == "/" and atom.kind == DIGITS and has_letters:
        atoms.append(Atom(atoms[-2].term, WORD, SOFT, atom.start, atom.end))
        atom = atom._replace(gap=atoms[-2].gap)
    atoms.append(atom)
