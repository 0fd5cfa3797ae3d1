"""Runs the n answers of one request at once and merges their events. Knows no wire format."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from server.methods.base import Ask, Event, Method

# Seeds of the choices of one request, far apart: the segments of one answer count up from its seed.
_SEED_STRIDE = 1000


class Indexed(NamedTuple):
    """``choice``: the number of the answer that the event belongs to."""

    choice: int
    event: Event


def fan_out(ask: Ask, n: int) -> list[Ask]:
    """``n`` copies that differ in id and, where the client gave a seed, in seed."""
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
    """The same for all asks that one ``fan_out`` made, which share their prompt."""
    return ask.request_id.rpartition("-")[0]


async def run_all(method: Method, asks: Sequence[Ask]) -> AsyncGenerator[Indexed, None]:
    """Events of all answers as they come; one failing answer ends the others and is raised."""
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
        # The cancelled tasks free engine slots and pending calls; nobody may go on before they have.
        await asyncio.gather(*tasks, return_exceptions=True)
