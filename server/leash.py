"""Cancel an answer before it is complete, at its deadline or when the server stops; knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from models.errors import ArrowheadError
from server.errors import AnswerTimeout

_Item = TypeVar("_Item")


class Leash:
    """Cancel the work of one answer at a deadline or on demand.

    A cancellation scope for one task at a time: ``with leash`` encloses work that it can cancel. One timer serves all
    blocks, as an answer has thousands of steps; ``close`` stops it. ``deadline`` is a time of the event loop's clock,
    None for no deadline.
    """

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
        """Raise ``error`` in the enclosed work at its current ``await``, or else when the next block starts.

        Only the first error counts.
        """
        self._error = self._error or error
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def __enter__(self) -> None:
        """Start a block that the deadline and ``end`` cancel.

        Raises:
            AnswerTimeout: the deadline has passed.
            ArrowheadError: the one that ``end`` was called with.
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
        """Yield the items, each awaited inside the scope.

        Nothing is raised in the consumer: an error that comes while it processes an item is raised at the next item.
        """
        async with aclosing(items):
            while True:
                with self:
                    item = await anext(items, None)
                if item is None:
                    return
                yield item

    def _release(self) -> ArrowheadError | None:
        """Return the error if this scope alone has cancelled the task, else None."""
        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return None
        self._cancelled = False
        return self._error if task.uncancel() <= self._cancels else None
