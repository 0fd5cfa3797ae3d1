"""The call grammar: what xgrammar admits under it, with and without a token that is the arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
import xgrammar as xgr

from models.decoding.grammar import call_grammar, forced_call_grammar
from models.engines.base import Tokenizer
from models.engines.scripted_engine import ByteTokenizer
from models.errors import GRAMMAR_INVALID, ModelError
from models.types import Grammar

CALLS = r"https://ncbi/(a|b\?term=[A-Za-z\[\]]{1,9})"
END = 257
TOKENS = ("[https://", "]->[", "->{", "]->")
Build = Callable[[str, Tokenizer], Grammar]


def make_matcher(build: Build, tokens: Sequence[str], calls: str = CALLS) -> Callable[[str], bool]:
    """A check whether one text, its longest tokens first, is a whole output under the grammar."""
    tokenizer = ByteTokenizer(tokens)
    pieces = [tokenizer.decode([i]).encode() if i > 255 else bytes([i]) for i in range(tokenizer.vocab_size)]
    info = xgr.TokenizerInfo(pieces, vocab_type=xgr.VocabType.RAW, stop_token_ids=[END])
    compiled = xgr.GrammarCompiler(info, max_threads=1).compile_structural_tag(build(calls, tokenizer).spec)

    def accepts(text: str) -> bool:
        matcher = xgr.GrammarMatcher(compiled)
        return all(matcher.accept_token(token) for token in [*tokenizer.encode(text), END])

    return accepts


@pytest.mark.parametrize("tokens", [(), TOKENS], ids=["arrow in pieces", "arrow in one token"])
@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("no call, c.35G->A, x[1]->y", True),
        ("see [https://ncbi/a]-> and [https://ncbi/b?term=X[sym]]->\nAnswer", True),
        ("[http://anything]->", True),
        ("[https://ncbi/c]->", False),
        ("[https://ncbi/a", False),
        ("[https://ncbi/a] ->", False),
        ("[https://ncbi/b?term=]->", False),
    ],
)
def test_text_is_free_and_calls_are_not(tokens: tuple[str, ...], text: str, admitted: bool) -> None:
    """Any text may be written, but what begins with the opener must be one whole call."""
    assert make_matcher(call_grammar, tokens)(text) is admitted


@pytest.mark.parametrize(("text", "admitted"), [("[https://ncbi/a]-> ok [https://ncbi/a]->", True), ("ok", False)])
def test_a_forced_call_comes_first(text: str, admitted: bool) -> None:
    """The output begins with a call and is free text with calls behind it."""
    assert make_matcher(forced_call_grammar, TOKENS)(text) is admitted


def test_a_call_ends_exactly_at_the_arrow() -> None:
    """With the arrow as a token no larger token can run beyond it; without it one can."""
    with_token, without = make_matcher(call_grammar, TOKENS), make_matcher(call_grammar, TOKENS[:-1])

    assert with_token("[https://ncbi/a]-> [r]")
    assert not with_token("[https://ncbi/a]->[r]")
    assert without("[https://ncbi/a]->[r]")


@pytest.mark.parametrize(
    "calls",
    [
        "https://a|https://b",
        "(https://a|https://b)",
        "(?:https://(a|b))",
        r"https:\/\/[ab|(]",
        "(https://a)|https://(b)",
    ],
)
def test_the_opener_is_taken_from_every_alternative(calls: str) -> None:
    """However the expression is written, what it matches is admitted, and its prefix is not asked for twice."""
    accepts = make_matcher(call_grammar, (), calls)
    matching = [text for text in ("https://a", "https://b", "https://c") if re.fullmatch(calls, text)]

    assert matching == ["https://a", "https://b"]
    assert [accepts(f"[https://{x}]->") for x in "abc"] == [True, True, False]
    assert not accepts("[https://https://a]->")


@pytest.mark.parametrize(
    "calls", ["http://a", "https://a|b", "(https://a|b)c", "https:/{2}a", "https:/+a", "", "(https://)?a"]
)
def test_an_expression_that_does_not_begin_with_the_opener_is_refused(calls: str) -> None:
    """The trigger would let through what the expression never matched."""
    with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of) as refused:
        call_grammar(calls, ByteTokenizer())

    assert refused.value.param == "call_regex"
