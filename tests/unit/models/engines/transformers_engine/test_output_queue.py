"""What a slow reader makes an engine hold."""

from __future__ import annotations

import asyncio

import pytest

from models.engines.transformers_engine.engine import OutputQueue, joined
from models.errors import EngineUnavailable
from models.types import Delta, TokenLogprob


def _delta(number: int, *, last: bool = False) -> Delta:
    return Delta(
        text=f"{number} ",
        token_ids=(number,),
        logprobs=(TokenLogprob(number, -0.1),),
        finish_reason="stop" if last else None,
        num_prompt_tokens=7 if last else 0,
    )


async def test_a_long_backlog_is_one_delta_of_the_same_content() -> None:
    """Text, ids, logprobs and the end are those of the single steps; the number of objects is bounded."""
    backlog = OutputQueue(most=8)
    for number in range(100):
        backlog.put(_delta(number, last=number == 99))
        assert len(backlog) <= 8
    read = [await backlog.get()]
    while read[-1].finish_reason is None:
        read.append(await backlog.get())

    assert joined(read) == joined([_delta(number, last=number == 99) for number in range(100)])
    assert joined(read).num_prompt_tokens == 7


async def test_a_reader_waits_for_the_next_delta() -> None:
    """One that keeps up gets every step by itself."""
    backlog = OutputQueue()
    waiting = asyncio.create_task(backlog.get())
    await asyncio.sleep(0)
    backlog.put(_delta(1))

    assert await waiting == _delta(1)


async def test_an_error_comes_after_what_was_written() -> None:
    """Nothing of the answer is lost by it."""
    backlog = OutputQueue()
    backlog.put(_delta(1))
    backlog.put(EngineUnavailable("dead"))

    assert await backlog.get() == _delta(1)
    with pytest.raises(EngineUnavailable):
        await backlog.get()
