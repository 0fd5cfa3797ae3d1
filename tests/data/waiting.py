"""Waiting for what will be so, with a bound that a busy machine keeps too."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

Item = TypeVar("Item")
PATIENCE_S: Final = 120.0


def wait_until(holds: Callable[[], object], what: str = "") -> None:
    """Return when it holds; AssertionError after ``PATIENCE_S`` seconds."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.05)


async def until(holds: Callable[[], object], what: str = "") -> None:
    """Do the same on an event loop, which goes on meanwhile."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"not within {PATIENCE_S:.0f} s: {what}"
        await asyncio.sleep(0.01)


def in_threads(work: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Return when the work of each item, in a thread of its own, has ended."""
    threads = [threading.Thread(target=work, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
