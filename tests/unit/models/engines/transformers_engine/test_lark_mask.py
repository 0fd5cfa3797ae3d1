"""Lark grammars in the transformers engine: compiled once, by content, and a copy for each sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, GrammarState
from models.errors import GRAMMAR_INVALID, ModelError
from models.types import Grammar

ABC = Grammar("lark", 'start: "abc" | "abd" "e"?')


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> HfTokenizer:
    return HfTokenizer.load(str(tiny_llama), local_only=True)


def allowed(state: GrammarState, size: int) -> set[int]:
    logits = torch.zeros(size)
    state.mask(logits)
    return set(logits.isfinite().nonzero().flatten().tolist())


def test_each_sequence_has_its_own_place(tokenizer: HfTokenizer) -> None:
    """An end token completes the grammar, also where nothing else can follow."""
    size = tokenizer.vocab_size + 5
    compiler = GrammarCompiler(tokenizer, size)
    first, second = (GrammarState(compiler.compile(ABC), size) for _ in range(2))
    (a, b, c), (*_, d), (*_, e) = tokenizer.encode("abc"), tokenizer.encode("abd"), tokenizer.encode("abe")
    ends = set(tokenizer.eos_token_ids)
    for token in (a, b, c):
        assert not first.is_complete
        first.accept(token)
    assert allowed(first, size) == ends and not first.is_complete
    assert a in allowed(second, size)
    for token in (a, b, d):
        second.accept(token)
    assert allowed(second, size) == ends | {e}
    for state in (first, second):
        state.accept(min(ends))
        assert state.is_complete
    with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
        GrammarState(compiler.compile(ABC), size).accept(c)


@pytest.mark.parametrize("spec", [ABC.spec, "start: TEXT\nTEXT: /[a-z ]{1,7}b?/"])
def test_the_best_token_is_that_of_the_mask(tokenizer: HfTokenizer, spec: str) -> None:
    """Whichever token is best, at each place of a text: it is taken without a mask only where the mask has it."""
    size = tokenizer.vocab_size
    compiled = GrammarCompiler(tokenizer, size).compile(Grammar("lark", spec))
    state, taken = GrammarState(compiled, size), 0
    for token in tokenizer.encode("abd"):
        masked = torch.arange(size, dtype=torch.float32)
        state.mask(masked)
        for best in range(size):
            logits = torch.arange(size, dtype=torch.float32)
            logits[best] = size
            state.mask(logits, only_best=True)
            taken += bool(logits.isfinite().all())
            assert logits.argmax() == (best if masked[best].isfinite() else masked.argmax())
        state.accept(token)
    assert taken or spec == ABC.spec


def test_a_grammar_is_compiled_once_and_dropped_when_others_are_used(tokenizer: HfTokenizer) -> None:
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    first = compiler.compile(ABC)
    assert compiler.compile(Grammar("lark", ABC.spec)) is first
    for number in range(40):
        compiler.compile(Grammar("lark", f'start: "text {number}"'))
    assert compiler.compile(ABC) is not first


@pytest.mark.parametrize("spec", ['start: "open', "no start", "", 'start: other\nelse: "x"'])
def test_a_broken_grammar_is_refused_by_its_field(tokenizer: HfTokenizer, spec: str) -> None:
    with pytest.raises(ModelError, match="synthesis", check=GRAMMAR_INVALID.is_of) as refused:
        GrammarCompiler(tokenizer, tokenizer.vocab_size).compile(Grammar("lark", spec, param="synthesis"))
    assert refused.value.param == "synthesis"
