"""Queue requests until a place is free, and hold the place while they run.

``fair_queue`` decides who gets a place. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from models.errors import ArrowheadError
from server.admission.fair_queue import AdmissionLimits, FairQueue, Ticket
from server.errors import (
    MAX_RETRY_AFTER_S,
    AnswerTimeout,
    KeyOverloaded,
    RequestError,
    ServerOverloaded,
    ServerStopping,
)

_Item = TypeVar("_Item")


class CancelScope:
    """Cancel the work of one answer at a deadline or on demand.

    A cancellation scope for one task at a time: ``with cancel_scope`` encloses work that it can cancel. One timer
    serves all blocks, as an answer has thousands of steps; ``close`` stops it. ``deadline`` is a time of the event
    loop's clock, None for no deadline.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self._error: ArrowheadError | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancels = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        self.end(AnswerTimeout("the answer was not complete at its deadline"))

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

    async def iterate(self, items: AsyncGenerator[_Item, None]) -> AsyncGenerator[_Item, None]:
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


MIN_RETRY_S: Final = 1
# Weight of the newest sample in the moving average of the service time.
_NEWEST: Final = 0.1
_GUESS_S: Final = 2.0


@dataclass(slots=True)
class AdmissionCounts:
    """Count the outcomes of admission since the start.

    ``left`` counts the clients that disconnected while they waited.
    """

    admitted: int = 0
    refused: int = 0
    pushed_out: int = 0
    waited_too_long: int = 0
    left: int = 0


class Admission:
    """Admit requests to a bounded number of places; one instance per process.

    ``counts`` and the properties serve monitoring.
    """

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.counts = AdmissionCounts()
        self.draining = False
        self._queue = FairQueue(limits)
        self._turns: dict[Ticket, asyncio.Future[None]] = {}
        self._scopes: set[CancelScope] = set()
        self._mean_s = _GUESS_S

    @property
    def in_flight(self) -> int:
        return self._queue.num_running

    @property
    def waiting(self) -> int:
        return self._queue.num_waiting

    @property
    def tokens(self) -> int:
        return self._queue.tokens

    def check(self) -> None:
        """Check that new requests are accepted.

        Raises:
            ServerStopping: the server is draining.
        """
        if self.draining:
            raise ServerStopping("the server is about to stop")

    @asynccontextmanager
    async def place(self, ticket: Ticket, deadline: float | None = None) -> AsyncIterator[CancelScope]:
        """Hold a place for the block, after a wait where none is free.

        ``deadline`` is on the event loop's clock and applies from here on, the wait included.

        Raises:
            ServerOverloaded, KeyOverloaded: no place is free and the queue is full, or the wait took too long.
            AnswerTimeout: the deadline passed first.
            ServerStopping: the server is draining or ended the request.
        """
        self.check()
        cancel_scope = self._in_scope(deadline)
        try:
            await self._enter(ticket, cancel_scope)
            self.counts.admitted += 1
            began = asyncio.get_running_loop().time()
            try:
                yield cancel_scope
            finally:
                self._mean_s += _NEWEST * (asyncio.get_running_loop().time() - began - self._mean_s)
                self._leave(ticket)
        finally:
            self._unregister(cancel_scope)

    @asynccontextmanager
    async def held(self, deadline: float | None = None) -> AsyncIterator[CancelScope]:
        """Apply the deadline and the server's end to a block that only waits and so needs no place."""
        cancel_scope = self._in_scope(deadline)
        try:
            yield cancel_scope
        finally:
            self._unregister(cancel_scope)

    def end_all(self) -> None:
        """End all running and waiting requests with ServerStopping."""
        for cancel_scope in list(self._scopes):
            cancel_scope.end(ServerStopping("the server stopped before the answer was complete"))

    def retry_after_s(self, places: int) -> int:
        """Estimate the seconds until one of ``places`` is free for a request behind all that wait now."""
        turns = (self.waiting + 1) / max(1, places)
        return max(MIN_RETRY_S, min(MAX_RETRY_AFTER_S, math.ceil(self._mean_s * turns)))

    def _in_scope(self, deadline: float | None) -> CancelScope:
        cancel_scope = CancelScope(deadline)
        self._scopes.add(cancel_scope)
        return cancel_scope

    def _unregister(self, cancel_scope: CancelScope) -> None:
        self._scopes.discard(cancel_scope)
        cancel_scope.close()

    async def _enter(self, ticket: Ticket, cancel_scope: CancelScope) -> None:
        verdict = self._queue.enter(ticket)
        for victim in verdict.pushed_out:
            self.counts.pushed_out += 1
            turn = self._turns[victim]
            if not turn.done():
                turn.set_exception(self._refusal(key_is_full=True))
        if verdict.state in ("full", "key_full"):
            self.counts.refused += 1
            raise self._refusal(key_is_full=verdict.state == "key_full")
        if verdict.state == "waits":
            await self._wait(ticket, cancel_scope)

    async def _wait(self, ticket: Ticket, cancel_scope: CancelScope) -> None:
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        try:
            with cancel_scope:
                async with asyncio.timeout(self.limits.max_wait_s) as patience:
                    await turn
        except TimeoutError:
            self._leave(ticket)
            if not patience.expired():
                raise
            self.counts.waited_too_long += 1
            raise self._refusal(key_is_full=False, waited=True) from None
        except BaseException as error:
            self.counts.left += isinstance(error, asyncio.CancelledError)
            self._leave(ticket)  # also where a place was assigned at the same moment
            raise
        finally:
            del self._turns[ticket]

    def _leave(self, ticket: Ticket) -> None:
        self._queue.leave(ticket)
        for begun in self._queue.begin_next():
            turn = self._turns[begun]
            if not turn.done():
                turn.set_result(None)

    def _refusal(self, *, key_is_full: bool, waited: bool = False) -> RequestError:
        limits = self.limits
        if key_is_full:
            places = min(limits.running, limits.running_per_key or limits.running)
            retry = self.retry_after_s(places)
            return KeyOverloaded("this key has more requests here than its share", retry_after_s=retry)
        retry = self.retry_after_s(limits.running)
        if waited:
            return ServerOverloaded(f"no place became free within {limits.max_wait_s:g} s", retry_after_s=retry)
        text = f"{self.in_flight} requests are being answered and {self.waiting} wait: there is no room for more"
        return ServerOverloaded(text, retry_after_s=retry)
