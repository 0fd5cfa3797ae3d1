"""Decide whether a short name in a text is meant, by rules on one span: SET is a gene, "set" is a word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from retrieval.graph.linking.dictionary_lookup.name_table import ALIAS, COMPACT, SYMBOL
from retrieval.graph.linking.dictionary_lookup.normalize import Token, fold, words_as_folded


def _names(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(fold(name)) for name in text.split(";"))


# Function words and their like. Not even "gene" before one makes it a name, only its own capitals do.
_FUNCTION: Final = words_as_folded(
    """
    a about after all also am an and any are as at be been but by can did do does for from get give given gives
    go got had has have he her here him his how i if in into is it its just let list many may me more most much
    must my name names no none nor not of off on one only or other our out over own pe per same say see she so
    some such than that the their them then there these they this those to too two under up us use used very was
    we well were what when where which while who whom whose why will with within without would yes you your true
    false least less between both each every either associated associates association treats treat treated
    causes cause prevent prevents cure cures diagnose affect affects help helps happens explain describe compare
    versus vs risk related linked commonly question answer options option following type group class form stage
    known involved called found show shows
    """
)
# Words that are also symbols: only capitals or a word like "gene" beside one make it a name.
_AMBIGUOUS: Final = words_as_folded(
    """
    ace act age aid aim air apex arch art ask atlas back bad bag ban bar base bat bed best bid bin bit bite bond
    book box bud bug bus camp cap car card care case cast cat cell chip clip clock coil cold cope copy cord cost
    crop cut dab damage date day dip disc dot drop eat echo end face fact far fast fat fate feed fen find fit
    fix flap flow form fox gain gap gem gift grasp grow hal has heal hear heat held hell help high hit hold hook
    host hot ice impact jam job joint key kind large lead light link list load long loss low map marc march mark
    mars mask mass mat max mean mend met mice mid mix mole mouse need neo net nick node note oral page palm part
    pass past path peak pen pet pick pigs pin pit plan play plug pole pool pop pose pot prep press prima race
    raise ran rate read rear red rel rest ring rise risk rob rock role root run sale sand save scan sea seal
    sear seen set sets sex shot sky slit slow small son sos spin spot star stat step stop sum tab tag tail take
    tall tank tap target task taste tax team tec ten test tie time tin tip top track trap tub turn wars wave way
    week weight west wipe work
    """
)
# Words that are names themselves, but symbols only if written as such.
_THINGS: Final = words_as_folded(
    """
    arm bone brain ear eye foot gas gold hand head heart hip iron leg lid lip lips mouth nail neck nose
    oxygen pain salt silver skin tongue toe water zinc
    """
)
_NAMED_BEFORE: Final = words_as_folded("gene genes protein proteins symbol compound drug variant enzyme receptor")
_NAMED_AFTER: Final = words_as_folded(
    "gene genes protein proteins mutation mutations variant variants expression receptor inhibitor inhibitors"
)
# Words of a question that name the requested kind of node, not a node.
_KIND_WORDS: Final = words_as_folded(
    """
    gene protein variant compound drug medication medicine chemical anatomy tissue organ symptom pathway cell
    type organism reaction side effect patient human treatment therapy association name identifier doid food
    nutrient process function component phenotype location evidence
    """
)
_GENERIC: Final = _names(
    "disease; disorder; syndrome; cancer; tumor; neoplasm; infection; disability; condition; illness; malignancy; "
    "carcinoma; deficiency; abnormality; injury; inflammation; disease or disorder"
)
# Prefixes that change a name, mostly into its opposite.
_DENYING: Final = frozenset(("non", "pre", "pseudo"))
_LIKENING: Final = "like"
_HYPHENS: Final = frozenset("-‐‑–")
_WORD_BEFORE: Final = re.compile(r"(\w+)[-\s]$")
_ENDS: Final = frozenset(".;:?!\n")
_LEAST_SYMBOL: Final = 3
_MOST_SYMBOL: Final = 10
_MOST_COMPACT: Final = 5


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Represent a window of tokens of a text, ``first`` up to ``last`` - 1.

    ``all_caps``: the text has no lower-case letter.
    """

    text: str
    tokens: list[Token]
    first: int
    last: int
    all_caps: bool

    @property
    def start(self) -> int:
        return self.tokens[self.first].start

    @property
    def end(self) -> int:
        return self.tokens[self.last - 1].end

    @property
    def raw(self) -> str:
        return self.text[self.start : self.end]

    @property
    def folded(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens[self.first : self.last])

    @property
    def letters(self) -> int:
        """Return the number of characters of the tokens, without separators."""
        return sum(token.end - token.start for token in self.tokens[self.first : self.last])

    def before(self) -> str:
        return self.tokens[self.first - 1].text if self.first else ""

    def after(self) -> str:
        return self.tokens[self.last].text if self.last < len(self.tokens) else ""


def name_flags(name: str) -> int:
    """Return the SYMBOL and COMPACT flags of a name.

    SYMBOL: one word of at most ten characters with a digit or a capital after its first letter. COMPACT: at most five
    characters.
    """
    if len(name) > _MOST_SYMBOL or any(c.isspace() for c in name):
        return 0
    compact = COMPACT if len(name) <= _MOST_COMPACT else 0
    inner = any(c.isupper() or c.isdigit() for c in name[1:])
    return compact | (SYMBOL if inner else 0)


def is_whole(stretch: TokenSpan) -> bool:
    """Return True if the window begins and ends at word boundaries: "DNMT3" is not in "DNMT3A"."""
    tokens, first, last = stretch.tokens, stretch.first, stretch.last
    if first and tokens[first - 1].end >= tokens[first].start:
        return False
    return last == len(tokens) or tokens[last].start >= tokens[last - 1].end + 1


def has_negating_affix(stretch: TokenSpan) -> bool:
    """Return True if ``is_negated`` holds for the window."""
    tokens, first, last = stretch.tokens, stretch.first, stretch.last
    before, after = tokens[first - 1] if first else None, tokens[last] if last < len(tokens) else None
    return is_negated(stretch.text, before, stretch.start, stretch.end, after)


def is_one_phrase(stretch: TokenSpan, as_written: bool, variant: bool) -> bool:
    """Return True if no sentence ends within the window, unless the name itself is written so (St. Louis encephalitis).

    The point of 22q11.2 ends no sentence. "Type 2, ataxia" is not in "type 2, ataxia type 3".
    """
    tokens = stretch.tokens
    gaps = {
        sign
        for position in range(stretch.first, stretch.last - 1)
        if (gap := stretch.text[tokens[position].end : tokens[position + 1].start]) != "."
        or not tokens[position].text.isdigit()
        for sign in gap
    }
    if as_written:
        return True
    first = tokens[stretch.first].text
    return not gaps & _ENDS and not (variant and "," in gaps and (first == "type" or first.isdigit()))


def is_negated(text: str, before: Token | None, start: int, end: int, after: Token | None) -> bool:
    """Return True if ``start`` to ``end`` is only part of another name.

    Examples: "non-Hodgkin lymphoma", "insulin-like growth factor".
    """
    if before is not None and before.text in _DENYING and not text[before.end : start].strip("-‐‑– "):
        return True
    return after is not None and after.text == _LIKENING and text[end : after.start] in _HYPHENS


def is_kind_word(folded: tuple[str, ...]) -> bool:
    return all(word in _KIND_WORDS for word in folded)


def is_function_word(word: str) -> bool:
    return word in _FUNCTION


def is_modified(text: str, start: int) -> bool:
    """Return True if a content word directly precedes ``start``."""
    word = _WORD_BEFORE.search(text[max(0, start - 40) : start])
    return word is not None and word[1].casefold() not in _FUNCTION | _KIND_WORDS


def is_generic(folded: tuple[str, ...]) -> bool:
    return folded in _GENERIC


def is_meant(stretch: TokenSpan, flags: int, same_case: bool) -> bool:
    """Return True if the window means a name with these ``flags``.

    ``same_case``: the window is spelled exactly as the name, letter case included.
    """
    raw = stretch.raw
    if flags & COMPACT and (any(c.isspace() for c in raw) or _is_part(stretch)):
        return False
    word = raw.casefold()
    by_capitals = same_case and not stretch.all_caps and sum(c.isupper() for c in raw) > 1
    if word in _FUNCTION or all(part.isdigit() for part in stretch.folded):
        return by_capitals
    named = stretch.before() in _NAMED_BEFORE or stretch.after() in _NAMED_AFTER
    if len(word) == 1:
        return named and same_case
    if word in _AMBIGUOUS or (flags & SYMBOL and word in _THINGS):
        return by_capitals or named
    if not flags & SYMBOL:
        return True
    if flags & ALIAS:
        odd = len(word) > _LEAST_SYMBOL or any(c.isdigit() for c in word)
        return same_case or odd
    if len(word) < _LEAST_SYMBOL:
        return (same_case and not stretch.all_caps) or named
    return True


def _is_part(stretch: TokenSpan) -> bool:
    """Return True if a hyphen joins the window to a few characters, as the B of HLA-B."""
    text, tokens = stretch.text, stretch.tokens
    for offset, other in ((stretch.start - 1, stretch.first - 1), (stretch.end, stretch.last)):
        if 0 <= offset < len(text) and text[offset] in _HYPHENS and 0 <= other < len(tokens):
            piece = tokens[other]
            touches = piece.end == offset if other < stretch.first else piece.start == offset + 1
            if touches and piece.end - piece.start <= _LEAST_SYMBOL:
                return True
    return False
