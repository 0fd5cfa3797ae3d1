"""Masks and compilations of grammars."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import torch

from models.engines.transformers_engine.grammar_mask import BoundedCompilations, apply_bitmask
from models.errors import EngineOverloaded, GrammarInvalid
from models.types import Grammar

SLOW = Grammar("regex", "slow", param="structured_outputs")


@pytest.mark.parametrize("size", [31, 32, 374, 383, 384])
@pytest.mark.parametrize("word", [0, -1, 0x55555555, 1])
def test_a_mask_writes_to_its_row_alone(size: int, word: int) -> None:
    """Rows of any length, also those that end inside a word: the numbers behind the row stay."""
    around = torch.zeros(size + 128)
    bitmask = torch.full((1, -(-size // 32)), word, dtype=torch.int32)
    bitmask[0, -1] &= 0x0FFF0FFF  # the bits of padding are 0
    apply_bitmask(around[64 : 64 + size], bitmask)

    bits = [bool((int(bitmask[0, i // 32]) >> (i % 32)) & 1) for i in range(size)]
    assert around[64 : 64 + size].isfinite().tolist() == bits
    assert around[:64].isfinite().all() and around[64 + size :].isfinite().all()


class Compiler:
    """Compiles everything at once, but ``slow`` ones after ``go``."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.calls: list[str] = []

    def compile(self, grammar: Grammar) -> Any:
        self.calls.append(grammar.spec)
        if grammar.spec.startswith("slow"):
            self.go.wait(30)
        return grammar.spec


async def test_a_slow_grammar_is_given_up_and_named_and_others_go_on() -> None:
    """The request ends with the field's name; the same grammar, asked for again, is not compiled twice."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=0.05)
    try:
        for _ in range(2):
            with pytest.raises(GrammarInvalid, match="smaller or simpler") as refused:
                await bounded.compiled(SLOW)
            assert refused.value.param == "structured_outputs"
        assert compiler.calls == ["slow"]
    finally:
        compiler.go.set()


async def test_only_so_many_are_compiled_at_once() -> None:
    """One more is refused as overload, and taken when a place is free again."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30, most=1)
    waiting = asyncio.create_task(bounded.compiled(SLOW))
    await asyncio.sleep(0)
    try:
        with pytest.raises(EngineOverloaded):
            await bounded.compiled(Grammar("regex", "quick"))
    finally:
        compiler.go.set()
    assert str(await waiting) == "slow"
    await asyncio.sleep(0)
    assert str(await bounded.compiled(Grammar("regex", "quick"))) == "quick"


async def test_a_cancelled_request_does_not_cancel_the_compilation_for_others() -> None:
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30)
    first, second = (asyncio.create_task(bounded.compiled(SLOW)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    compiler.go.set()

    assert str(await second) == "slow"
