"""Keep replies that their clients asked to keep: the answer goes on without its client, which reads it again later.

An ASGI layer around the routes, so that it keeps whatever they send: a stream, an error, or what vLLM's own layer
writes. A reply is in memory only, under an id that its client chose, for the same key alone. Bounded in number for
each key and in all, in bytes, and in the time for which nobody reads it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ANSWER_UNKNOWN, RequestError
from server.middleware import log_failure

KEEP_HEADER: Final = "X-Keep-Answer"
_PATH: Final = "/v1/chat/completions"
_ID: Final = re.compile(r"[0-9a-f-]{32,36}", re.ASCII)
_MAX_BYTES: Final = 4 * 2**20
MAX_OF_KEY: Final = 8
_MAX_OF_ALL: Final = 32
# An answer that nobody reads for so long is stopped, and its reply forgotten.
UNREAD_S: Final = 600.0


class KeptReply:
    """Hold one reply while it comes and afterwards: its start, and the newest 4 MiB of its body.

    ``forget`` is called when nobody has read it for ``unread_s`` seconds.
    """

    def __init__(self, unread_s: float, forget: Callable[[], None]) -> None:
        self.is_ended = False
        self._is_complete = False
        self._unread_s = unread_s
        self._forget = forget
        self._start: Message | None = None
        self._pieces: deque[bytes] = deque()
        self._dropped = 0
        self._size = 0
        self._error: Exception | None = None
        self._readers = 0
        self._news = asyncio.Event()
        self._asked = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the reply can still be read from its beginning."""
        return not self._dropped

    def begin(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """Run the request in a task of its own, for which the client stays until ``stop``."""
        scope["state"]["send_piece"] = self._take
        self._task = asyncio.create_task(self._run(app, scope, receive), name="kept-answer")

    def stop(self) -> None:
        """Tell the request that its client has left."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    async def end(self) -> None:
        """Stop the request and wait until it has ended."""
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def follow(self, receive: Receive, send: Send) -> None:
        """Send the reply from its beginning to its end, or until this reader leaves.

        Raises:
            Exception: what the request raised.
        """
        self._readers += 1
        if self._timer is not None:
            self._timer.cancel()
        both = asyncio.create_task(self._send_all(send)), asyncio.create_task(self._left(receive))
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if both[0].done():
                both[0].result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            self._readers -= 1
            if not self._readers and not self._stopped.is_set():
                self._timer = asyncio.get_running_loop().call_later(self._unread_s, self._forget)

    async def _run(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        async def receive_once() -> Message:
            if self._asked.is_set():
                await self._stopped.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if not message.get("more_body", False):
                self._asked.set()
            return message

        try:
            await app(scope, receive_once, self._take)
        except Exception as error:
            self._error = error
            if not self._readers:
                log_failure(error)
        finally:
            self.is_ended = True
            self._tell()

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._pieces.append(message.get("body", b""))
            self._size += len(self._pieces[-1])
            self._is_complete = not message.get("more_body", False)
        while self._size > _MAX_BYTES and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())
            self._dropped += 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _send_all(self, send: Send) -> None:
        while self._start is None and not self.is_ended:
            await self._news.wait()
        if self._start is not None:
            # The layers around add their headers to the message.
            await send({**self._start, "headers": list(self._start["headers"])})
        at = 0
        while at < self._dropped + len(self._pieces) or not self.is_ended:
            if at < self._dropped:
                return  # a reader that is 4 MiB behind: its connection is cut
            if at == self._dropped + len(self._pieces):
                await self._news.wait()
                continue
            body, at = self._pieces[at - self._dropped], at + 1
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if self._error is not None:
            raise self._error
        if self._is_complete:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _left(self, receive: Receive) -> None:
        await self._asked.wait()
        while (await receive())["type"] != "http.disconnect":
            pass


class KeptReplies:
    """Hold the replies that are kept, each under its key's digest and its id; ``unread_s`` bounds each."""

    def __init__(self, *, is_off: bool = False, unread_s: float = UNREAD_S) -> None:
        self._is_off = is_off
        self._unread_s = unread_s
        self._replies: dict[tuple[str, str], KeptReply] = {}

    def open(self, owner: str, name: str) -> KeptReply | None:
        """Return a place for a reply, None where none is free: it is not kept then.

        Replies that have ended give way to it, the oldest first.

        Raises:
            RequestError: the name is not valid, or that of another reply.
        """
        if not _ID.fullmatch(name):
            raise RequestError(f"{KEEP_HEADER}: a random id of 32 hexadecimal digits", param=KEEP_HEADER)
        if (owner, name) in self._replies:
            raise RequestError(f"{KEEP_HEADER}: another answer has this id; make a new one", param=KEEP_HEADER)
        if self._is_off or not (self._has_room(owner, MAX_OF_KEY) and self._has_room(None, _MAX_OF_ALL)):
            return None
        kept = KeptReply(self._unread_s, lambda: self._forget(owner, name))
        self._replies[owner, name] = kept
        return kept

    def find(self, owner: str, name: str) -> KeptReply:
        """Return the reply of a key.

        Raises:
            RequestError: there is none of this name that can be read from its beginning.
        """
        kept = self._replies.get((owner, name))
        if kept is None or not kept.is_whole:
            raise _unknown()
        return kept

    def stop(self, owner: str, name: str) -> None:
        """Stop an answer, where it still runs, and forget it; also one that can no longer be read from its beginning.

        Raises:
            RequestError: there is none of this name.
        """
        if (owner, name) not in self._replies:
            raise _unknown()
        self._forget(owner, name)

    async def close(self) -> None:
        await asyncio.gather(*(kept.end() for kept in self._replies.values()))

    def _forget(self, owner: str, name: str) -> None:
        self._replies.pop((owner, name)).stop()

    def _has_room(self, owner: str | None, most: int) -> bool:
        mine = [key for key in self._replies if owner in (None, key[0])]
        ended = (key for key in mine if self._replies[key].is_ended)
        if len(mine) >= most and (oldest := next(ended, None)) is not None:
            self._forget(*oldest)
            return True
        return len(mine) < most


def _unknown() -> RequestError:
    return RequestError("there is no such answer, or it is no longer kept", ANSWER_UNKNOWN)


class KeepAnswers:
    """Keep the replies to chats that have the header ``X-Keep-Answer``; every other request passes through."""

    def __init__(self, app: ASGIApp, replies: KeptReplies) -> None:
        self._app = app
        self._replies = replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_chat = scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", _PATH)
        name = Headers(scope=scope).get(KEEP_HEADER) if is_chat else None
        kept = None if name is None else self._replies.open(scope["state"]["owner"], name)
        if kept is None:
            await self._app(scope, receive, send)
            return
        kept.begin(self._app, scope, receive)
        await kept.follow(receive, send)
