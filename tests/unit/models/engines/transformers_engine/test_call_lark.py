"""The call grammar as Lark: the same texts as under xgrammar, and the tokens that it forces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from models.decoding.grammar import call_grammar, forced_call_grammar, json_grammar
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.call_lark import calls_as_lark
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, LarkMatcher, Matcher
from models.types import Grammar

CALLS = r"https://ncbi\.gov/(a|b\?term=[A-Za-z\[\]/+.]{1,9})"
START = "[https://ncbi.gov/"


@pytest.fixture(scope="module", params=["arrow in one token", "arrow in pieces"])
def tokenizer(
    request: pytest.FixtureRequest, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> HfTokenizer:
    if request.param == "arrow in one token":
        return HfTokenizer.load(str(tiny_llama), local_only=True)
    folder = tmp_path_factory.mktemp("pieces")
    files = {name: json.loads((tiny_llama / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json")}
    files["tokenizer.json"]["added_tokens"] = [
        one for one in files["tokenizer.json"]["added_tokens"] if one["content"] != "]->"
    ]
    files["tokenizer_config.json"].pop("added_tokens_decoder", None)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return HfTokenizer.load(str(folder), local_only=True)


def start(tokenizer: HfTokenizer, grammar: Grammar) -> Matcher:
    matcher = GrammarCompiler(tokenizer, tokenizer.vocab_size).compile(grammar).start()
    assert isinstance(matcher, LarkMatcher)
    return matcher


def takes(tokenizer: HfTokenizer, grammar: Grammar, text: str) -> bool:
    matcher = start(tokenizer, grammar)
    return all(matcher.accept(token) for token in [*tokenizer.encode(text), min(tokenizer.eos_token_ids)])


@pytest.mark.parametrize(
    ("text", "free", "forced"),
    [
        ("no call, c.35G->A, x[1] ->y", True, False),
        ("see [https://ncbi.gov/a]-> and [https://ncbi.gov/b?term=X/[sym]]->\nAnswer", True, False),
        ("[https://ncbi.gov/a]-> ok [https://ncbi.gov/a]->", True, True),
        ("[http://anything] ->", True, False),
        ("[h [[https:/[ht [https:x é[https", True, False),
        ("[[https://ncbi.gov/a]-> [", True, False),
        ("[https[https://ncbi.gov/a", False, False),
        ("[https://ncbi.gov/c]->", False, False),
        ("[https://ncbixgov/a]->", False, False),
        ("[https://ncbi.gov/a", False, False),
        ("[https://ncbi.gov/a] ->", False, False),
        ("[https://ncbi.gov/b?term=]->", False, False),
    ],
)
def test_text_is_free_and_calls_are_not(tokenizer: HfTokenizer, text: str, free: bool, forced: bool) -> None:
    assert takes(tokenizer, call_grammar(CALLS, tokenizer), text) is free
    assert takes(tokenizer, forced_call_grammar(CALLS, tokenizer), text) is forced


@pytest.mark.parametrize("text", ["a[[h é[https", "]-> [https:x", f"x {START}b?term=LMP[", f"{START}a]-> ["])
def test_a_mask_has_the_tokens_that_may_follow(tokenizer: HfTokenizer, text: str) -> None:
    """All that surely may, those too that the library takes in as a slice of the vocabulary, and no other."""
    matcher, size = start(tokenizer, call_grammar(CALLS, tokenizer)), tokenizer.vocab_size
    words = torch.zeros((1, -(-size // 32)), dtype=torch.int32)
    for token in tokenizer.encode(text):
        matcher.fill(words)
        bits = np.unpackbits(words[0].numpy().view(np.uint8), bitorder="little")[:size]
        ordinary = set(range(size)) - tokenizer.control_ids - tokenizer.eos_token_ids
        masked = {i for i in ordinary if bits[i]}
        assert {i for i in ordinary if matcher.surely_allows(i)} <= masked
        assert masked <= {i for i in ordinary if matcher.count_allowed([i])}
        assert matcher.accept(token)


def written(matcher: Matcher, tokenizer: HfTokenizer, choose: Callable[[str], str]) -> tuple[str, int]:
    """Write a call of canonical tokens; ``choose`` gives the rest of the text where nothing is forced."""
    text, decoded = "", 0
    while not text.endswith("]->"):
        token = tokenizer.encode(choose(text))[0]
        assert matcher.accept(token)
        text, decoded = text + tokenizer.decode([token]), decoded + 1
        for forced in matcher.forced():
            assert matcher.accept(forced)
            text += tokenizer.decode([forced])
    return text, decoded


@pytest.mark.parametrize("call", [f"{START}a]->", f"{START}b?term=LMP]->"])
def test_what_is_forced_is_what_the_model_would_write(tokenizer: HfTokenizer, call: str) -> None:
    """The text is the call, and fewer tokens are decoded than it has."""
    matcher = start(tokenizer, call_grammar(CALLS, tokenizer))
    text, decoded = written(matcher, tokenizer, lambda text: call[len(text) :])

    assert text == call
    assert decoded < len(tokenizer.encode(call))


def test_a_token_that_could_go_on_is_not_forced(tokenizer: HfTokenizer) -> None:
    """Of a forced text, no token is given at its end that a longer one with what may follow would replace."""
    longer = next(i for i in range(256, tokenizer.vocab_size) if tokenizer.decode([i]) == "gene")
    grammar = forced_call_grammar(r"https://x/db=g(ene|[a-z]{2})", tokenizer)
    matcher = start(tokenizer, grammar)
    for token in tokenizer.encode("[https://x/d"):
        assert matcher.accept(token)
    forced = list(matcher.forced())

    assert "b=".startswith(tokenizer.decode(forced))
    for token in [*forced, *tokenizer.encode("b="[len(tokenizer.decode(forced)) :]), longer]:
        assert matcher.accept(token)


@pytest.mark.parametrize("form", [{"type": "regex", "pattern": "a"}, {"type": "sequence", "elements": []}])
def test_other_tags_are_left_to_xgrammar(form: dict[str, object]) -> None:
    assert calls_as_lark(json.dumps({"type": "structural_tag", "format": form})) is None
    assert calls_as_lark(json_grammar({"type": "object"}, "x").spec) is None


def test_another_opener_is_left_to_xgrammar(tokenizer: HfTokenizer) -> None:
    assert calls_as_lark(call_grammar("<<a", tokenizer, opener="<<").spec) is None


@pytest.mark.parametrize("spec", ["{", "[]", "{}", '{"format": 1}', '{"format": {"type": "triggered_tags"}}'])
def test_a_broken_tag_is_left_to_xgrammar_to_refuse(spec: str) -> None:
    assert calls_as_lark(spec) is None
