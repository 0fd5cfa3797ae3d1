"""What ends an answer before it is complete: its deadline, or the end of the server. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from models.errors import ArrowheadError
from server.errors import AnswerTimeout

_Item = TypeVar("_Item")


class Leash:
    """Of one answer, for one task at a time. ``deadline`` is of the event loop's clock; None is never."""

    def __init__(self, deadline: float | None = None) -> None:
        self._deadline = deadline
        self._error: ArrowheadError | None = None
        self._timer: asyncio.Timeout | None = None

    def end(self, error: ArrowheadError) -> None:
        """``error`` is raised in the work on the leash: now, or where it next waits. The first one counts."""
        self._error = self._error or error
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def bound(self) -> AsyncIterator[None]:
        """The block is cancelled at the deadline and by ``end``.

        Raises:
            AnswerTimeout, or what ``end`` was given.
        """
        if self._error is not None:
            raise self._error
        timer = asyncio.timeout_at(self._deadline)
        try:
            async with timer:
                self._timer = timer
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise self._reason() from None
        finally:
            self._timer = None

    def _reason(self) -> ArrowheadError:
        return self._error or AnswerTimeout("the answer was not complete at its deadline")

    async def over(self, items: AsyncGenerator[_Item, None]) -> AsyncGenerator[_Item, None]:
        """The items, each waited for on the leash. No time runs while the reader holds one."""
        async with aclosing(items):
            while True:
                # No yield inside: it would cancel the reader instead of the work.
                async with self.bound():
                    item = await anext(items, None)
                if item is None:
                    return
                yield item
