"""Take the place of uvloop in a watched process, whose connections would pass by Python and so by the hook."""

from __future__ import annotations

import asyncio
from asyncio import DefaultEventLoopPolicy as EventLoopPolicy
from asyncio import SelectorEventLoop as Loop
from asyncio import new_event_loop, run


def install() -> None:
    asyncio.set_event_loop_policy(EventLoopPolicy())


__all__ = ["EventLoopPolicy", "Loop", "install", "new_event_loop", "run"]
