"""Which known names may leave, in which letter case."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from retrieval.types import MAX_NAME_CHARS, KnownName, NameKind
from server.egress.recognition.vocabulary import PERSON_NAMES, EmptyVocabulary, known_name, reads_as_language


class One:
    """Know one name; everyday language is four words."""

    def __init__(self, spelling: str, kind: NameKind) -> None:
        self._known = KnownName(spelling, kind)

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        yield self._known

    def is_ordinary(self, word: str) -> bool:
        return word in {"rest", "cat", "white", "disease"}


@pytest.mark.parametrize(
    ("spelling", "kind", "leaves"),
    [
        ("NAT2", "symbol", True), ("CAT", "symbol", True), ("NAT2", "alias", True), ("REST", "alias", False),
        ("MECL", "alias", True), ("GAA", "alias", False), ("CAT-REST", "alias", False), ("CAT2", "alias", True),
        ("white", "other_symbol", False), ("ftz", "other_symbol", False), ("Trp53", "other_symbol", True),
        ("AND", "symbol", False), ("is", "alias", False), ("white disease", "disease", True),
    ],
)  # fmt: skip
def test_aliases_and_other_species_need_more_than_a_symbol(spelling: str, kind: NameKind, leaves: bool) -> None:
    """Official symbols of human genes may be words; aliases may not; other species' symbols need a digit."""
    assert (known_name(spelling, {kind}, One(spelling, kind)) is not None) is leaves


@pytest.mark.parametrize(
    "written", ["Tay-Sachs disease", "tay-sachs disease", "TAY-SACHS DISEASE", "Tay-Sachs Disease"]
)
def test_usual_letter_case_is_accepted(written: str) -> None:
    """Part by part."""
    assert known_name(written, {"disease"}, One("Tay-Sachs disease", "disease")) is not None


@pytest.mark.parametrize(
    "written", ["tAY-sachs disease", "TaY-Sachs disease", "Tay Sachs disease", "Tay-Sachs disease ", "Tay-Sachs", ""]
)
def test_odd_letter_case_and_other_spellings_are_not(written: str) -> None:
    """Each letter's case is a bit; so is a hyphen or a space."""
    assert known_name(written, {"disease"}, One("Tay-Sachs disease", "disease")) is None


def test_long_text_is_not_looked_up_and_an_empty_vocabulary_knows_nothing() -> None:
    """Whatever a source says."""
    long = "a" * (MAX_NAME_CHARS + 1)
    assert known_name(long, {"disease"}, One(long, "disease")) is None
    assert known_name("NAT2", {"symbol"}, EmptyVocabulary()) is None


def test_symbols_that_read_as_language_are_told_apart() -> None:
    """A term may have one of them."""
    names = One("CAT", "symbol")
    assert reads_as_language(KnownName("CAT", "symbol"), names) and reads_as_language(KnownName("TAT", "symbol"), names)
    assert not reads_as_language(KnownName("NAT2", "symbol"), names)
    assert not reads_as_language(KnownName("cat", "organism"), names)
    assert {"john", "smith", "maria", "max"} <= PERSON_NAMES
