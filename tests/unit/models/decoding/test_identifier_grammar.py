"""The grammar of listed identifiers, as llguidance and as xgrammar read it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from grammar_walks import BOTH, Walk, admits, written

from models.decoding.grammar import MAX_LISTED, identifier_grammar, is_listable
from models.errors import GRAMMAR_INVALID, ModelError
from server.methods.shared.identifiers import IdentifierIndex, identifiers_in

LISTED = ("TP53", "5 mg", "chr17:7,674,220", "p < 0.001", "24.7%", "c.35G>A", "rs334", "IL-6", "DNA", "µg", "1–2 mg/kg")
HARD = ('a\\b "c" [d] {e} (f)* | $^', "#x", "%llguidance")


@BOTH
@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("It is (TP53) [1][2].\n\n- Give 5 mg, not more.", True),
        ("The genes TP53, IL-6 and rs334 [1] are: a T-cell; vitamin D (24.7%) at p < 0.001.", True),
        ("Die Größe ist α-Synuklein, белок.", True),
        (" c.35G>A.", True),
        ("", True),
        (" TP54.", False),
        (" TP53x.", False),
        ("anti-TP53.", False),
        (" TP53-mediated.", False),
        (" 5mg.", False),
        (" 7.", False),
        (" TP53IL-6.", False),
        (" ABC.", False),
        (" x [3].", False),
        ("TP53", False),
    ],
)
def test_only_listed_identifiers_stand_beside_words(walk: Callable[[str], Walk], text: str, admitted: bool) -> None:
    """Whole, between blanks and punctuation; other marks and numbers cannot be written."""
    assert admits(walk(identifier_grammar(LISTED, ("[1]", "[2]")).spec), text) == admitted


@BOTH
def test_what_grammars_are_written_in_can_be_listed(walk: Callable[[str], Walk]) -> None:
    spec = identifier_grammar(HARD).spec
    assert all(admits(walk(spec), f"So {text}.") for text in HARD)
    assert admits(walk(identifier_grammar(()).spec), "Words alone.")


@BOTH
def test_random_text_has_no_other_identifier(walk: Callable[[str], Walk]) -> None:
    """Looked up as an answer is."""
    evidence = IdentifierIndex("\n".join(LISTED))
    spec, chooser = identifier_grammar(LISTED).spec, random.Random(3)
    found: set[str] = set()
    for _ in range(6):
        text = written(walk(spec), chooser, most=300)
        identifiers = list(identifiers_in(text))
        assert [one.text for one in identifiers if not evidence.has(one)] == []
        found.update(one.text for one in identifiers)
    assert found


@pytest.mark.parametrize("listed", [[""], ["a\nb"], ["a\u202eb"], ["x" * 121], ["a::=b"], [str(n) for n in range(300)]])
def test_what_cannot_be_listed_is_refused(listed: list[str]) -> None:
    assert len(listed) > MAX_LISTED or not is_listable(listed[0])
    with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
        identifier_grammar(listed)
