"""Work that is attended ends when its client leaves, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server.api.http_io import cancel_on_disconnect
from server.errors import CLIENT_GONE, RequestError


class _Client:
    """Sends its body's end, and leaves when told."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.listened = 0
        self._messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop()
        self.listened += 1
        try:
            await self.gone.wait()
        finally:
            self.listened -= 1
        return {"type": "http.disconnect"}


async def test_a_client_that_leaves_ends_the_work() -> None:
    """The work is cancelled in its own task, which then can go on."""
    client, ended = _Client(), 0
    asyncio.get_running_loop().call_later(0.01, client.gone.set)
    with pytest.raises(RequestError, check=CLIENT_GONE.is_of):
        async with cancel_on_disconnect(client.receive):
            try:
                await asyncio.sleep(30)
            finally:
                ended += 1

    task = asyncio.current_task()
    await asyncio.sleep(0)
    assert ended == 1 and task is not None and task.cancelling() == 0


async def test_nobody_listens_after_the_work() -> None:
    """What the work returned or raised goes on as it is."""
    client = _Client()
    with pytest.raises(ValueError, match="of the work"):
        async with cancel_on_disconnect(client.receive):
            await asyncio.sleep(0)
            assert client.listened == 1
            raise ValueError("of the work")
    await asyncio.sleep(0)

    assert client.listened == 0


async def test_a_reply_that_was_whole_has_no_client_that_left() -> None:
    """A server tells of a reply's end as of a client's."""
    client = _Client()
    client.gone.set()
    async with cancel_on_disconnect(client.receive, lambda: True):
        await asyncio.sleep(0.01)


async def test_a_stranger_who_cancels_is_no_client() -> None:
    """Also where the client leaves in the same moment."""
    client, begun = _Client(), asyncio.Event()

    async def work() -> None:
        async with cancel_on_disconnect(client.receive):
            begun.set()
            await asyncio.sleep(30)

    for leaves in (False, True):
        begun.clear()
        working = asyncio.create_task(work())
        await begun.wait()
        await asyncio.sleep(0)
        if leaves:
            client.gone.set()
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
