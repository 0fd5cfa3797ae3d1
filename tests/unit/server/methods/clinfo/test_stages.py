"""Stages end in time, and events are told while a review works."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from server.methods.base import Event, Step
from server.methods.clinfo.stages import Deadline, as_they_come


async def test_a_stage_has_its_share_of_the_time() -> None:
    """One without a share has all that is left, and none has less than a moment."""
    deadline = Deadline(10)
    assert deadline.share("search") == pytest.approx(3, abs=0.1) and deadline.share("x") == pytest.approx(10, abs=0.1)
    assert Deadline(0).share("search") == 0.05


async def test_events_come_before_the_work_has_ended() -> None:
    """Closing the iterator cancels the work."""
    told: asyncio.Queue[Event | None] = asyncio.Queue()
    ends: list[str] = []

    async def work() -> None:
        told.put_nowait(Step("first"))
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("ended")

    async with asyncio.timeout(120), aclosing(as_they_come(work, told)) as events:
        assert await anext(events) == Step("first")
    assert ends == ["ended"]


async def test_what_the_work_raises_comes_behind_its_events() -> None:
    told: asyncio.Queue[Event | None] = asyncio.Queue()

    async def work() -> None:
        told.put_nowait(Step("first"))
        raise ValueError("no")

    events = as_they_come(work, told)
    assert await anext(events) == Step("first")
    with pytest.raises(ValueError, match="no"):
        await anext(events)
