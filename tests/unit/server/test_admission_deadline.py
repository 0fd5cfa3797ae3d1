"""Answers that end before they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from server.admission import CancelScope
from server.errors import ANSWER_TIMEOUT, SERVER_STOPPING, RequestError


class _Source:
    """Yields 1, waits for ever, and notes that it was closed."""

    def __init__(self) -> None:
        self.closed = False

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_a_deadline_ends_the_work_not_the_reader() -> None:
    """The generator has ended when the reader hears of it."""
    source, seen = _Source(), list[int]()
    cancel_scope = CancelScope(asyncio.get_running_loop().time() + 0.02)

    with pytest.raises(RequestError, check=ANSWER_TIMEOUT.is_of):
        async for item in cancel_scope.iterate(source.items()):
            seen.append(item)

    assert (seen, source.closed) == ([1], True)


async def test_an_end_from_outside_is_raised_where_the_work_waits() -> None:
    """With its own error, the first one where there are several."""
    source, cancel_scope = _Source(), CancelScope()
    asyncio.get_running_loop().call_soon(cancel_scope.end, RequestError("first", SERVER_STOPPING))
    asyncio.get_running_loop().call_soon(cancel_scope.end, RequestError("second", SERVER_STOPPING))

    with pytest.raises(RequestError, match="first", check=SERVER_STOPPING.is_of):
        async for _ in cancel_scope.iterate(source.items()):
            await asyncio.sleep(0)

    assert source.closed


async def test_an_end_while_the_reader_holds_an_item_comes_at_the_next() -> None:
    """Nothing is thrown into the reader."""
    source, cancel_scope, seen = _Source(), CancelScope(), list[int]()

    with pytest.raises(RequestError, check=SERVER_STOPPING.is_of):
        async for item in cancel_scope.iterate(source.items()):
            cancel_scope.end(RequestError("now", SERVER_STOPPING))
            await asyncio.sleep(0)
            seen.append(item)

    assert (seen, source.closed) == ([1], True)


async def test_a_cancellation_by_another_stays_one() -> None:
    """A client that leaves in the moment of the deadline is a client that left."""
    cancel_scope = CancelScope()

    async def work() -> None:
        with cancel_scope:
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    cancel_scope.end(RequestError("now", SERVER_STOPPING))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()


async def test_a_task_goes_on_after_its_leash_has_ended_something() -> None:
    """Its later waits are not cancelled, and a closed leash ends nothing."""
    cancel_scope = CancelScope(asyncio.get_running_loop().time() + 0.01)
    with pytest.raises(RequestError, check=ANSWER_TIMEOUT.is_of), cancel_scope:
        await asyncio.Event().wait()
    await asyncio.sleep(0)
    late = CancelScope(asyncio.get_running_loop().time() + 0.01)
    late.close()
    with late:
        await asyncio.sleep(0.05)

    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
