"""Spacing of requests by the rate limiter."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from step_clock import StepClock

from retrieval.ncbi.client.transport import RateLimiter, interval_for


async def test_turns_are_spaced_and_first_come_first_served() -> None:
    """Five callers at once go out in order, one interval apart, a little more than 1/rate."""
    clock, turns = StepClock(), []
    limiter = RateLimiter(interval_for(3), clock)

    async def caller(number: int) -> None:
        await limiter.acquire()
        turns.append((number, clock.now()))

    await asyncio.gather(*map(caller, range(5)))

    assert [number for number, _ in turns] == [0, 1, 2, 3, 4]
    gaps = [b - a for (_, a), (_, b) in itertools.pairwise(turns)]
    assert all(gap == pytest.approx(1.1 / 3) for gap in gaps)


async def test_a_cancelled_caller_uses_no_turn() -> None:
    """The caller after a cancelled one goes in its place."""
    clock = StepClock()
    limiter = RateLimiter(10.0, clock)
    await limiter.acquire()
    gone, next_one = asyncio.create_task(limiter.acquire()), asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    gone.cancel()
    await next_one

    assert gone.cancelled() and clock.now() == 10.0


async def test_a_pause_holds_also_the_one_already_waiting() -> None:
    """delay moves the gate while somebody sleeps before it."""
    clock = StepClock()
    limiter = RateLimiter(1.0, clock)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    limiter.delay(30.0)
    await waiting

    assert clock.now() == 30.0
