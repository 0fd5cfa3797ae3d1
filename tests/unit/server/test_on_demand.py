"""Small pools for what requests have computed: few at once, of one key one, and no key waits for another's queue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.errors import KEY_FULL, RequestError
from server.on_demand import OnDemand


class Work:
    """Work that ends when it is told to; counts how often it runs at once."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.lock = threading.Lock()
        self.running = 0
        self.most = 0

    def __call__(self) -> str:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.release()
        self.go.wait(60)
        with self.lock:
            self.running -= 1
        return "done"

    async def has_begun(self) -> bool:
        return await asyncio.to_thread(self.begun.acquire, timeout=60)


async def test_one_key_has_one_place() -> None:
    """However much it asks for; another key's work runs meanwhile."""
    pool, slow, quick = OnDemand("test"), Work(), Work()
    quick.go.set()
    asked = [asyncio.create_task(pool.run("greedy", slow)) for _ in range(20)]
    assert await slow.has_begun()

    assert await pool.run("other", quick) == "done"
    assert slow.running == 1
    slow.go.set()
    assert await asyncio.gather(*asked) == ["done"] * 20
    assert slow.most == 1
    await pool.close()


async def test_two_run_at_once() -> None:
    """Of two keys; a third waits."""
    pool, work = OnDemand("test"), Work()
    asked = [asyncio.create_task(pool.run(key, work)) for key in "abc"]
    assert await work.has_begun() and await work.has_begun()
    work.go.set()
    await asyncio.gather(*asked)

    assert work.most == 2
    await pool.close()


async def test_what_nobody_waits_for_keeps_its_place() -> None:
    """Else a client that goes away again and again would have as many threads as it likes."""
    pool, slow, next_one = OnDemand("test"), Work(), Work()
    next_one.go.set()
    first = asyncio.create_task(pool.run("k", slow))
    assert await slow.has_begun()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(pool.run("k", next_one))
    for _ in range(20):
        await asyncio.sleep(0)

    assert next_one.most == 0
    slow.go.set()
    assert await second == "done"
    await pool.close()


async def test_what_waits_and_is_given_up_never_runs() -> None:
    """Its turn goes to the next."""
    pool, slow, given_up = OnDemand("test"), Work(), Work()
    first = asyncio.create_task(pool.run("k", slow))
    assert await slow.has_begun()
    waiting = asyncio.create_task(pool.run("k", given_up))
    await asyncio.sleep(0)
    waiting.cancel()
    slow.go.set()
    await asyncio.gather(first, waiting, return_exceptions=True)

    assert await pool.run("k", lambda: "next") == "next"
    assert given_up.most == 0
    await pool.close()


async def test_the_queue_is_bounded() -> None:
    """What finds no room is refused at once; what has a place is answered."""
    pool, slow = OnDemand("test"), Work()
    asked = [asyncio.create_task(pool.run("k", slow)) for _ in range(80)]
    assert await slow.has_begun()
    with pytest.raises(RequestError, check=KEY_FULL.is_of):
        await pool.run("k", slow)
    slow.go.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)

    assert outcomes.count("done") == 65
    await pool.close()


async def test_an_error_of_the_work_is_raised() -> None:
    """In the one who asked; the place is free again."""
    pool = OnDemand("test")
    with pytest.raises(ZeroDivisionError):
        await pool.run("k", lambda: 1 // 0)

    assert await pool.run("k", lambda: 2) == 2
    await pool.close()


async def test_work_that_computes_elsewhere_has_one_place_for_each_key() -> None:
    """And gives it up when its caller goes away, as it keeps no thread."""
    pool, may_go, running, most = OnDemand("test"), asyncio.Event(), 0, 0

    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await may_go.wait()
        finally:
            running -= 1
        return "done"

    asked = [asyncio.create_task(pool.hold("greedy", work)) for _ in range(5)]
    other = asyncio.create_task(pool.hold("other", work))
    for _ in range(20):
        await asyncio.sleep(0)
    assert running == 2
    asked[0].cancel()
    may_go.set()

    assert await other == "done"
    assert await asyncio.gather(*asked[1:]) == ["done"] * 4
    assert most == 2
    await pool.close()
