"""Define the closed vocabulary whose words may leave, and the rules for the words that can be read as plain language.

Symbols and aliases of genes include ordinary words and names of people (CAT, REST, MAX), so that a list of symbols
alone does not keep sentences here. A symbol that is a common name of a person counts as an ordinary word; that makes
sentences from symbols harder, but it is not what keeps names of patients here: the vocabulary has no names of people.
Pure; ``server.wiring`` supplies the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from retrieval.types import MAX_NAME_CHARS, KnownName, NameKind, same

_SYMBOLS: Final[frozenset[NameKind]] = frozenset({"symbol", "alias", "other_symbol"})
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
_BASES: Final = re.compile(r"[ACGTUN]+", re.IGNORECASE)
_PARTS: Final = re.compile(r"[A-Za-z]+")
# Words of language that are shorter than those of the list of ordinary words.
_TWO_LETTERS: Final = """
ad ah al am an as at be by do ed go ha he hi if in is it jo ma me mr ms my no of oh ok on or ow pa so ti to up us we ya
ye yo
"""
_SHORT_WORDS: Final = frozenset(_TWO_LETTERS.split())


class Vocabulary(Protocol):
    """Answer what names this site's own data has, and which words are ordinary ones; called from any thread."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterable[KnownName]:
        """Yield the names of these kinds that equal the whole of ``name`` but for letter case, as they are found."""
        ...

    def is_ordinary(self, word: str) -> bool:
        """Return whether a word in lower case is one of everyday language or the name of a person."""
        ...


class EmptyVocabulary:
    """Know no names, so that no word may leave."""

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        return ()

    def is_ordinary(self, word: str) -> bool:
        return True


def known_name(written: str, kinds: Collection[NameKind], vocabulary: Vocabulary) -> KnownName | None:
    """Return the entry of the vocabulary that ``written`` is, None if there is none that may leave.

    Each part of a name is in its stored letter case, or in small letters, in capitals, or with a first capital.
    """
    if not written or len(written) > MAX_NAME_CHARS:
        return None
    for entry in vocabulary.find(written, kinds):
        spelled = entry.spelling.isascii() and same(written, entry.spelling) and _is_plain_case(written, entry.spelling)
        if spelled and _may_leave(entry, vocabulary):
            return entry
    return None


def reads_as_language(entry: KnownName, vocabulary: Vocabulary) -> bool:
    """Return whether a symbol is also an ordinary word, a name of a person, or a piece of a sequence."""
    return entry.kind in _SYMBOLS and _is_ordinary(entry.spelling, vocabulary)


def is_symbol(entry: KnownName) -> bool:
    return entry.kind in _SYMBOLS


def _may_leave(entry: KnownName, vocabulary: Vocabulary) -> bool:
    """Return whether a known name is specific enough.

    Official symbols of human genes are; an alias only if it is no ordinary word; other species have given genes the
    names of so many things that their symbols need a digit.
    """
    if entry.spelling.upper() in _OPERATORS:
        return False
    match entry.kind:
        case "alias":
            return not _is_ordinary(entry.spelling, vocabulary)
        case "other_symbol":
            return any(letter.isdigit() for letter in entry.spelling) and not _is_ordinary(entry.spelling, vocabulary)
    return True


def _is_ordinary(word: str, vocabulary: Vocabulary) -> bool:
    """Return whether a word is language, as a whole or each part of a hyphenated one, or consists of bases (GAA)."""
    if _BASES.fullmatch(word):
        return True
    if any(letter.isdigit() for letter in word):
        return False
    parts = [part.lower() for part in _PARTS.findall(word)]
    return bool(parts) and all(part in _SHORT_WORDS or len(part) == 1 or vocabulary.is_ordinary(part) for part in parts)


def _is_plain_case(written: str, stored: str) -> bool:
    places = [(found.start(), found.end()) for found in _PARTS.finditer(stored)]
    for start, end in places:
        part, own = written[start:end], stored[start:end]
        if part not in (own, own.lower(), own.upper(), own.capitalize()):
            return False
    return True


# Common given names and surnames.
_GIVEN: Final = """
aaron abdul abraham adam adrian ahmed aisha alan albert alex alexander alexandra ali alice alicia amanda amir amy ana
andrea andreas andrew angela anita ann anna anne annette anthony antonio arthur asha barbara beatrice ben benjamin
bernd bert beth betty bianca bill bob brad brian bruce carl carla carlos carmen carol caroline catherine cathy chad
charles charlotte chen chloe chris christian christina claire clara claudia craig daisy dan daniel daniela dave david
dean deborah denise dennis derek diana dieter don donald donna doris dorothy doug douglas ed eddie edgar edith edward
elena eli elias elizabeth ella ellen emil emily emma eric erica erik ernest ethan eva eve evelyn fatima felix fernando
finn flora florence frances francis frank franz fred frederick fritz gabriel gail gary george gerald gina gloria grace
greg gus hanna hannah hans harold harry hassan heidi heinz helen helga henry herman hugo ian ibrahim igor ina ines
inga ingrid irene iris irma isaac isabel ivan jack jacob jake james jan jane janet jason jay jean jeff jennifer jeremy
jessica jim joan joe joel johann johanna john jonas jonathan jorge jose josef joseph joshua juan judith julia juliana
julie jung jurgen karen karin karl kate katherine kathy katrin keith ken kenneth kevin khalid kim klaus kurt kyle lana
lara larry lars laura lauren lea lee lena leo leon leonard leslie lewis liam lily linda lisa liu lois lola lorenzo lou
louis louise lucas lucy luis luke lydia lynn mai manuel marc marco margaret maria marie marina mario marion mark markus
martha martin mary mathilde matt matthew maurice max maya mei melanie melissa michael michelle miguel mike mila min
ming miriam mohamed mohammed mona monica moritz muhammad nadia nancy naomi natalie nathan neil nick nicholas nicole
nina noah noel nora norma norman olaf olga olivia omar oscar otto pablo pamela pat patricia patrick paul paula pauline
pedro peggy penny pete peter phil philip pia pierre rachel ralph ramon ray raymond rebecca rene rita rob robert roberto
robin rod roger roland rolf ron ronald rosa rosa rose roy ruby rudolf russell ruth ryan sabine sally sam samantha
samuel sandra sandy sara sarah sasha scott sean sebastian sharon shirley simon simone sofia sonia sophia sophie stan
stefan stephanie stephen steve steven stuart sue susan suzanne sven sylvia tanya tara ted teresa terry theo theresa
thomas tim timothy tina toby todd tom tommy tony tracy ulrich ulrike una ursula uwe valerie vanessa vera vera veronica
victor victoria vincent viola virginia vivian walter wanda warren wayne wei wendy werner will william willy wolfgang
xavier yan yasmin yusuf yves zara zoe
"""
_SURNAMES: Final = """
adams ahmed alvarez andersen anderson bailey baker barnes bauer becker bell bennett berger black brown bryant burns
butler campbell carter castro chan chang chavez clark cohen cole collins cook cooper cox cruz davis diaz edwards evans
fischer fisher flores ford foster fox garcia gomez gonzales gonzalez gray green griffin gupta hall hamilton harris hart
hayes henderson hernandez hill hoffmann howard huang hughes hunt ivanov jackson jenkins jensen jimenez johnson jones
kaufmann keller kelly khan king klein koch kumar lang larsen lehmann lewis li lin long lopez maier marsh marshall martin
martinez mayer mendoza meyer miller mitchell moore morales moreno morgan morris mueller muller murphy murray myers
nelson neumann nguyen nielsen novak obrien olsen ortiz owens park parker patel perez perry peters petrov phillips
popescu powell price ramirez ramos reed reyes richards richardson richter rivera roberts robinson rodriguez rogers
romero ross rossi russo ruiz sanchez sanders santos sato schmidt schneider schroeder schulz schwarz shah sharma silva
singh smith sokolov stewart stone suzuki tanaka taylor thompson torres tran turner walker wagner wallace wang ward
washington watson weber west white williams wilson wolf wong wood wright wu xu yamamoto yang yilmaz young zhang zhao
zimmermann
"""
PERSON_NAMES: Final = frozenset(f"{_GIVEN} {_SURNAMES}".split())
