"""Run what a request makes the server compute, beside its searches and answers: pages of PDFs, HTML, exports, tokens.

Each pool has few threads of its own and one place for each key, so that no content, however slow, holds back the
searches, the answers or another key's requests. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from server.admission import Admission, AdmissionLimits, Ticket

_AT_ONCE: Final = 2
_WAITING: Final = 64
_MAX_WAIT_S: Final = 30.0
_T = TypeVar("_T")


class OnDemand:
    """Run work on threads of its own: two at once, of one key one at a time, the keys in turn."""

    def __init__(self, name: str) -> None:
        limits = AdmissionLimits(running=_AT_ONCE, running_per_key=1, waiting=_WAITING, max_wait_s=_MAX_WAIT_S)
        self._admission = Admission(limits)
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=name)

    async def run(self, key_id: str, work: Callable[[], _T]) -> _T:
        """Return the result of ``work``, in the turn of the key.

        Work that has begun keeps its place until it ends, also where nobody waits for it any more.

        Raises:
            QUEUE_FULL: too much waits, or no place became free in time.
        """
        begun = asyncio.Event()

        async def in_turn() -> _T:
            async with self._admission.place(Ticket(key_id)):
                begun.set()
                return await asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)

        task = asyncio.create_task(in_turn())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if begun.is_set():
                task.add_done_callback(_ignore)
            else:
                task.cancel()
            raise

    async def hold(self, key_id: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of ``work``, which computes elsewhere, in the turn of the key; raises as ``run`` does."""
        async with self._admission.place(Ticket(key_id)):
            return await work()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _ignore(task: asyncio.Task[_T]) -> None:
    """Take the outcome of work that nobody waits for, which asyncio would log as lost."""
    if not task.cancelled():
        task.exception()
