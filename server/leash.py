"""What ends an answer before it is complete: its deadline, or the end of the server. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from models.errors import ArrowheadError
from server.errors import AnswerTimeout

_Item = TypeVar("_Item")


class Leash:
    """Of one answer, for one task at a time: ``with leash`` is work that it can end. One timer for all of it, as an
    answer has thousands of steps; ``close`` ends that. ``deadline`` is of the event loop's clock; None is never."""

    def __init__(self, deadline: float | None = None) -> None:
        self._error: ArrowheadError | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancels = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None
        if deadline is not None:
            overdue = AnswerTimeout("the answer was not complete at its deadline")
            self._timer = asyncio.get_running_loop().call_at(deadline, self.end, overdue)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def end(self, error: ArrowheadError) -> None:
        """``error`` is raised in the work on the leash: now, or where it next waits. The first one counts."""
        self._error = self._error or error
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def __enter__(self) -> None:
        """The block is cancelled at the deadline and by ``end``.

        Raises:
            AnswerTimeout, or what ``end`` was given.
        """
        if self._error is not None:
            raise self._error
        self._task = asyncio.current_task()
        self._cancels = 0 if self._task is None else self._task.cancelling()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: object) -> None:
        error = self._release()
        if kind is asyncio.CancelledError and error is not None:
            raise error from None

    async def over(self, items: AsyncGenerator[_Item, None]) -> AsyncGenerator[_Item, None]:
        """The items, each waited for on the leash. Nothing is thrown into the reader: an end that comes while it holds
        an item is raised at the next."""
        async with aclosing(items):
            while True:
                with self:
                    item = await anext(items, None)
                if item is None:
                    return
                yield item

    def _release(self) -> ArrowheadError | None:
        """The reason, where the work was cancelled by the leash and by nobody else."""
        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return None
        self._cancelled = False
        return self._error if task.uncancel() <= self._cancels else None
