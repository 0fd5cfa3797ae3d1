"""The grammar of quotes, as llguidance and as xgrammar read it: random choosers cannot misquote."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from grammar_walks import BOTH, Walk, admits, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.decoding.grammar import MAX_CHARS, MAX_PASSAGES, quote_grammar, quote_line
from models.errors import GrammarInvalid

NOTHING = "None of them."
HARD = (
    'He said "no" \\ {x} | [a-z]+ (?:y)* ::= // # $1 ^a$ <|eos|>',
    "αβ-тест 😀 基因 ~` 'x' é",
    "\\u0041 \\n \\\\ %llguidance {}",
    "start: LINE",
    "The drug is safe.",
    "The drug is safe. In adults.",
)


@BOTH
def test_random_choosers_write_whole_texts_under_their_numbers(walk: Callable[[str], Walk]) -> None:
    """Texts full of what grammars, expressions and prompts are written in; one is the beginning of another."""
    passages = {1: HARD[:2], 2: HARD[2:4], 15: HARD[4:]}
    spec = quote_grammar(passages, most=3, endings=("Answer: A", "Answer: none"), nothing=NOTHING).spec
    lines = {quote_line(text, number) for number, texts in passages.items() for text in texts}
    chooser, seen, sizes = random.Random(7), set(), set()
    for _ in range(150):
        text = written(walk(spec), chooser)
        if text == NOTHING:
            continue
        *quotes, ending = text.split("\n")
        assert set(quotes) <= lines and ending in ("Answer: A", "Answer: none")
        seen.update(quotes)
        sizes.add(len(quotes))
    assert seen == lines and sizes == {1, 2, 3}


ONE_LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp")), min_size=1).filter(
    lambda text: text.isprintable()
)


@BOTH
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.integers(1, 999), st.lists(ONE_LINE, min_size=1, max_size=3), min_size=1, max_size=3))
def test_any_printable_text_can_be_quoted(walk: Callable[[str], Walk], passages: dict[int, list[str]]) -> None:
    spec = quote_grammar(passages, most=1, nothing=NOTHING).spec
    lines = {quote_line(text, number) for number, texts in passages.items() for text in texts}
    assert written(walk(spec), random.Random(len(spec))) in lines | {NOTHING}


@BOTH
@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("> The drug is safe. [1]", True),
        ("> The drug is safe. In adults. [1]", True),
        ("> The drug is safe. [1]\n> The drug is safe. [1]", True),
        ("None of them.", True),
        ("> The drug is safe. [2]", False),
        ("> drug is safe. [1]", False),
        ("> The drug [1]", False),
        ("> The drug is safe. [1]\n", False),
        ("> The drug is safe. [1]\nNone of them.", False),
        ("", False),
    ],
)
def test_nothing_else_is_written(walk: Callable[[str], Walk], text: str, admitted: bool) -> None:
    spec = quote_grammar({1: HARD[4:]}, most=2, nothing=NOTHING).spec
    assert admits(walk(spec), text) == admitted


@pytest.mark.parametrize(
    "passages",
    [
        {},
        {1: []},
        {1: ["two\nlines"]},
        {1: ["a\x00b"]},
        {1: ["a\u202eb"]},
        {n: ["text"] for n in range(MAX_PASSAGES + 1)},
        {1: ["x" * MAX_CHARS]},
    ],
)
def test_what_cannot_be_a_grammar_is_refused(passages: dict[int, list[str]]) -> None:
    """Nothing to quote, what is no line of printable text, too much of it."""
    with pytest.raises(GrammarInvalid):
        quote_grammar(passages, most=1, nothing=NOTHING)
