"""Work that takes minutes, in a thread for whose end a process that stops does not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

_T = TypeVar("_T")


async def run_in_daemon_thread(work: Callable[[], _T], name: str) -> _T:
    """Run ``work`` in a thread of this name, and return its result or raise its error.

    Unlike with ``asyncio.to_thread``, the process may end before it; a cancelled caller does not stop it.
    """
    ended: Future[_T] = Future()
    ended.set_running_or_notify_cancel()  # from here on it can only end by itself
    context = copy_context()

    def run() -> None:
        try:
            ended.set_result(context.run(work))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(ended)
