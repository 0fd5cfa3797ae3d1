"""The other spellings of a name."""

from __future__ import annotations

import pytest

from retrieval.lexical.spelling import ALIASES, Part, joined, variants


def terms(*parts: str) -> list[str]:
    """Numbers and the names of Greek letters are told apart as the tokenizer does."""
    greek = {"alpha", "beta", "kappa", "gamma"}
    return [term for _, term in variants([Part(one, one.isdigit(), one in greek) for one in parts])]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("pd", "l", "1"), ["pdl1"]),
        (("nf", "kappa", "b"), ["nfk", "nfkappab", "nfkb"]),
        (("tnf", "alpha"), ["tnfa"]),
        (("mirna", "21"), ["mir21"]),
        (("val", "600", "glu"), ["val600glu", "v600e"]),
        (("state", "of", "the", "art"), []),
        (("alpha", "synuclein"), []),
        (("interferon", "gamma"), []),
        (("asthma",), []),
    ],
)
def test_a_name_has_the_terms_of_its_other_spellings(parts: tuple[str, ...], expected: list[str]) -> None:
    """Not a phrase, nor a word with a Greek letter before it."""
    assert terms(*parts) == expected


def test_long_names_are_joined_whole() -> None:
    """Up to eight parts; a text of signs between digits is no name."""
    assert "h2az" in terms("h", "2", "a", "z")
    assert not terms(*["1", "2", "3", "4", "5", "6", "7", "8", "9"])


def test_two_numbers_keep_their_dot() -> None:
    """15:01 is not 1501."""
    assert joined([Part("drb"), Part("1", True), Part("15", True), Part("01", True)]) == "drb1.15.01"


def test_aliases_go_both_ways() -> None:
    """Each name has one."""
    assert all(ALIASES[other] == one for one, other in ALIASES.items())
