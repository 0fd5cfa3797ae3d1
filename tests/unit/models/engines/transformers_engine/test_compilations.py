"""Compilations of grammars: in turn, bounded in time, and each once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from waiting import until

from models.engines.transformers_engine.compilations import BoundedCompilations
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, ModelError
from models.types import Grammar

SLOW = Grammar("regex", "slow", param="structured_outputs")


class Compiler:
    """Compiles everything at once, but ``slow`` ones after ``go``."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.calls: list[str] = []

    async def begins(self, many: int) -> None:
        await until(lambda: len(self.calls) >= many, "nothing was compiled")

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
            with pytest.raises(ModelError, match="smaller or simpler", check=GRAMMAR_INVALID.is_of) as refused:
                await bounded.compiled(SLOW)
            assert refused.value.param == "structured_outputs"
        assert compiler.calls == ["slow"]
    finally:
        compiler.go.set()


async def test_the_first_questions_of_many_clients_wait_for_their_turn() -> None:
    """None is refused, and only so many are compiled at a time."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30, most=2)
    waiting = [asyncio.create_task(bounded.compiled(Grammar("regex", f"slow {number}"))) for number in range(8)]
    await compiler.begins(2)
    assert len(compiler.calls) == 2
    compiler.go.set()
    assert [str(found) for found in await asyncio.gather(*waiting)] == [f"slow {number}" for number in range(8)]


async def test_more_than_may_wait_are_refused_as_overload() -> None:
    """And one is taken when a place is free again."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30, most=1, waiting=1)
    waiting = [asyncio.create_task(bounded.compiled(Grammar("regex", f"slow {number}"))) for number in range(2)]
    await compiler.begins(1)
    try:
        with pytest.raises(ModelError, check=ENGINE_FULL.is_of):
            await bounded.compiled(Grammar("regex", "quick"))
    finally:
        compiler.go.set()
    await asyncio.gather(*waiting)
    await asyncio.sleep(0)
    assert str(await bounded.compiled(Grammar("regex", "quick"))) == "quick"


async def test_a_turn_that_does_not_come_in_time_is_an_overload() -> None:
    """It is no fault of the grammar that waited."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=0.05, most=1)
    try:
        with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
            await bounded.compiled(SLOW)
        with pytest.raises(ModelError, check=ENGINE_FULL.is_of):
            await bounded.compiled(Grammar("regex", "quick"))
    finally:
        compiler.go.set()


async def test_a_grammar_that_nobody_waits_for_any_more_is_not_compiled() -> None:
    """A request that reached its deadline in the queue gives its turn to the next."""
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30, most=1)
    first = asyncio.create_task(bounded.compiled(SLOW))
    await compiler.begins(1)
    gone = asyncio.create_task(bounded.compiled(Grammar("regex", "gone")))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    compiler.go.set()
    await first
    assert str(await bounded.compiled(Grammar("regex", "quick"))) == "quick"
    assert compiler.calls == ["slow", "quick"]


async def test_a_cancelled_request_does_not_cancel_the_compilation_for_others() -> None:
    compiler = Compiler()
    bounded = BoundedCompilations(compiler.compile, seconds=30)
    first, second = (asyncio.create_task(bounded.compiled(SLOW)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    compiler.go.set()

    assert str(await second) == "slow"
