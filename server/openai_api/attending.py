"""Cancel work when the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import Receive

from server.errors import ClientGone


@asynccontextmanager
async def attended(receive: Receive, is_served: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
    """Cancel the block when the client disconnects.

    The request's body must be read before. ``is_served`` returns whether the whole reply was sent already, since a
    server signals the end of the reply in the same way as a disconnect.

    Raises:
        ClientGone: the client disconnected.
    """
    task = asyncio.current_task()
    before, has_left = 0 if task is None else task.cancelling(), False

    async def listen() -> None:
        nonlocal has_left
        while (await receive())["type"] != "http.disconnect":
            pass
        if task is not None and not is_served():
            has_left = True
            task.cancel()

    listening = asyncio.create_task(listen(), name="client")
    try:
        yield
    except asyncio.CancelledError:
        if has_left and task is not None and task.uncancel() <= before:
            raise ClientGone("the client went away before its answer was complete") from None
        raise
    finally:
        listening.cancel()
