"""Run the n answers of one request concurrently and merge their events; knows no wire format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from server.methods.base import Ask, Event, Method

# Distance between the seeds of choices: the segments of one answer use consecutive seeds from its own.
_SEED_STRIDE = 1000


class Indexed(NamedTuple):
    """Pair an event with the index of its choice."""

    choice: int
    event: Event


def fan_out(ask: Ask, n: int) -> list[Ask]:
    """Return ``n`` copies of the request with distinct ids and, where the client set a seed, distinct seeds."""
    seed = ask.sampling.seed
    return [
        replace(
            ask,
            request_id=f"{ask.request_id}-{i}",
            sampling=replace(ask.sampling, seed=None if seed is None else seed + _SEED_STRIDE * i),
        )
        for i in range(n)
    ]


def prompt_of(ask: Ask) -> str:
    """Return the id that all copies of one ``fan_out`` share; they have the same prompt."""
    return ask.request_id.rpartition("-")[0]


async def run_all(method: Method, asks: Sequence[Ask]) -> AsyncGenerator[Indexed, None]:
    """Yield the events of all answers as they occur.

    The first failure of an answer cancels the others and is raised.
    """
    queue: asyncio.Queue[Indexed | BaseException | None] = asyncio.Queue(maxsize=64)

    async def pump(index: int, ask: Ask) -> None:
        try:
            async with aclosing(method.answer(ask)) as events:
                async for event in events:
                    await queue.put(Indexed(index, event))
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)

    tasks = [asyncio.create_task(pump(i, ask)) for i, ask in enumerate(asks)]
    try:
        running = len(tasks)
        while running:
            item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        # The cancelled tasks free engine slots and pending calls; callers must not continue before that.
        await asyncio.gather(*tasks, return_exceptions=True)
