"""Read a request's JSON body within its limits, and stream a reply, both until the client disconnects.

A stream has chunks as they are produced, comments while idle, and an error chunk after the first byte. Chat and
completions have unnamed chunks and end with ``[DONE]``. Responses have named events, the last of which states how the
response ended, so nothing follows it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from models.errors import ArrowheadError
from server.error_mapping import ErrorReply, error_reply
from server.errors import BODY_TOO_LARGE, CLIENT_GONE, FORM_OF_ANOTHER_SITE, RequestError
from server.middleware import log_failure
from server.wiring.services import Services

log = logging.getLogger(__name__)


@asynccontextmanager
async def cancel_on_disconnect(receive: Receive, is_served: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
    """Cancel the block when the client disconnects.

    The request's body must be read before. ``is_served`` returns whether the whole reply was sent already, since a
    server signals the end of the reply in the same way as a disconnect.

    Raises:
        CLIENT_GONE: the client disconnected.
    """
    task = asyncio.current_task()
    before, is_disconnected = 0 if task is None else task.cancelling(), False

    async def listen() -> None:
        nonlocal is_disconnected
        while (await receive())["type"] != "http.disconnect":
            pass
        if task is not None and not is_served():
            is_disconnected = True
            task.cancel()

    listening = asyncio.create_task(listen(), name="client")
    try:
        yield
    except asyncio.CancelledError:
        if is_disconnected and task is not None and task.uncancel() <= before:
            raise RequestError("the client went away before its answer was complete", CLIENT_GONE) from None
        raise
    finally:
        listening.cancel()


# An escaped surrogate, paired or not.
# Choices of one request.
MAX_CHOICES: Final = 8
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# One shared decoder: ``json.loads`` creates a new one at each call with options.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


async def read_json(request: Request) -> Any:
    """Return the parsed JSON body.

    Raises:
        RequestError: the body is longer than the settings allow, or the body did not arrive in time.
        RequestError: the body is not valid JSON.
        CLIENT_GONE: the client disconnected.
        RequestError: a web form of another site could send this content type.
    """
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise RequestError("the body must be sent as application/json", FORM_OF_ANOTHER_SITE)
    services: Services = request.app.state.services
    sent = await _whole(request, services.settings.server.max_body_bytes)
    try:
        value = _DECODER.decode(sent.decode(json.detect_encoding(sent), "surrogatepass"))
    except (ValueError, RecursionError):
        raise RequestError("the body is not valid JSON") from None
    if _SURROGATE.search(sent):
        _refuse_lone_surrogates(value)
    return value


async def _whole(request: Request, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                raise RequestError(f"the body is longer than {max_bytes} bytes", BODY_TOO_LARGE)
            chunks.append(chunk)
    except ClientDisconnect:
        raise RequestError("the client went away before its request was here", CLIENT_GONE) from None
    return b"".join(chunks)


def _refuse_lone_surrogates(value: Any) -> None:
    """Check that all texts can be encoded.

    Raises:
        RequestError: a text has a lone surrogate; ``param`` is the top-level field.
    """
    fields = value.items() if isinstance(value, dict) else ((None, value),)
    for name, part in fields:
        try:
            json.dumps([name, part], ensure_ascii=False).encode()
        except (UnicodeEncodeError, RecursionError):
            field = name if isinstance(name, str) and name.isascii() else None
            text = f"{field or 'the body'}: a text has half of a character (a lone surrogate)"
            raise RequestError(text, param=field) from None


class RawRoute(APIRoute):
    """Call the handler without FastAPI's parameter resolution, which takes half of such a route's time.

    The handler must be ``async`` with ``request`` as its only parameter.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


# pydantic's name of a union's branch: list[constrained-str].
_BRANCH = re.compile(r"\[")
_PLAIN = frozenset({"str", "constrained-str", "float", "int"})
# The types of errors that say that a branch of a union does not take such a value at all.
_MISMATCHES = frozenset(
    {"string_type", "list_type", "dict_type", "model_type", "int_type", "float_type", "literal_error"}
)
# Fields behind which it puts the branch's own name.
_TAGGED = frozenset({"response_format"})


class Body(BaseModel):
    """Refuse unknown fields and type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Model = TypeVar("_Model", bound=BaseModel)


def parse_body(kind: type[_Model], body: object, place: str = "") -> _Model:
    """Parse the body of an endpoint other than chat and completions, or the part of one at ``place``.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise first_error(error, place) from None


async def read_body(request: Request, kind: type[_Model]) -> _Model:
    """Return the body of a request, as ``read_json`` and ``parse_body`` do."""
    return parse_body(kind, await read_json(request))


def _is_branch(part: int | str) -> bool:
    return isinstance(part, str) and (part in _PLAIN or part[:1].isupper() or _BRANCH.search(part) is not None)


def first_error(error: ValidationError, place: str = "") -> ArrowheadError:
    """Return the first validation error with its field's name.

    ``place`` is the path of the checked part in the body (``input[2]``).
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    detail, head = details[0], details[0]["loc"][:-1]
    # A union reports every branch it tried; that which takes what was sent says what is wrong with it, and the branch
    # names mean nothing to a client.
    if detail["type"] in _MISMATCHES and _is_branch(detail["loc"][-1]):
        rest = [one for one in details if one["loc"][: len(head)] == head]
        inner = (one for one in rest if len(one["loc"]) - 1 > len(head) or one["type"] not in _MISMATCHES)
        detail = min(inner, key=lambda one: one["type"] in _MISMATCHES, default=detail)
    loc = [part for part, before in zip(detail["loc"], ("", *detail["loc"]), strict=False) if before not in _TAGGED]
    is_unknown = detail["type"] == "extra_forbidden"
    words = [str(part) for at, part in enumerate(loc, 1) if (is_unknown and at == len(loc)) or not _is_branch(part)]
    param = re.sub(r"\.(\d+)", r"[\1]", ".".join([place, *words] if place else words)) or None
    if is_unknown:
        return RequestError(f"{param}: there is no such field", param=param)
    # What our own validators say is a sentence; pydantic puts a prefix before it.
    message = str(detail["msg"])
    own = message.removeprefix("Value error, ")
    return RequestError(f"{param}: {message.lower() if own == message else own}", param=param)


class KeepAlive:
    """Replace ``send`` for one reply, each piece of which must consist of whole lines.

    Within ``async with``, a stream that has begun and not ended sends a comment after each ``every_s`` seconds of
    silence. ``send_piece`` is a faster path for the messages after the start. ``observe`` is called with each message
    before it is sent.
    """

    def __init__(
        self, send: Send, every_s: float, send_piece: Send | None = None, observe: Callable[[Any], None] | None = None
    ) -> None:
        self._send = send
        self._send_piece = send_piece or send
        self._every_s = every_s
        self._observe = observe
        self._is_stream = False
        self._is_busy = False
        self.has_ended = False
        self._last = 0.0
        self._clock: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None

    async def __call__(self, message: Any) -> None:
        self._is_busy = True
        if self._observe is not None:
            self._observe(message)
        try:
            if message["type"] == "http.response.start":
                await self._send(message)
                self._is_stream = is_stream(message)
            else:
                # Before the send: the server tells of the reply's end as it does of a disconnect.
                self.has_ended = not message.get("more_body", False)
                await self._send_piece(message)
                self._is_stream = self._is_stream and message.get("more_body", False)
        finally:
            self._is_busy = False
            self._last = time.monotonic()

    async def __aenter__(self) -> None:
        self._last = time.monotonic()
        self._clock = asyncio.get_running_loop().call_later(self._every_s, self._on_timer)

    async def __aexit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.cancel()
        if self._comment is not None:
            self._comment.cancel()
            await asyncio.gather(self._comment, return_exceptions=True)

    def _on_timer(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._last + self._every_s - time.monotonic()
        if wait_s <= 0:
            if self._is_stream and not self._is_busy:
                message = {"type": "http.response.body", "body": KEEPALIVE, "more_body": True}
                self._comment = loop.create_task(self(message), name="keep-alive")
            wait_s = self._every_s
        self._clock = loop.call_later(wait_s, self._on_timer)


DONE = b"data: [DONE]\n\n"
# A comment line: SSE clients ignore it, and it prevents idle timeouts of proxies.
KEEPALIVE = b": waiting\n\n"
# Proxies close connections that are silent for longer.
KEEPALIVE_S: Final = 10.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def is_stream(start: Mapping[str, Any]) -> bool:
    """Return whether the ``http.response.start`` message begins an event stream."""
    return bool(dict(start["headers"]).get(b"content-type", b"").startswith(b"text/event-stream"))


def event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named_event(chunk: Mapping[str, Any]) -> bytes:
    """Encode a chunk as an event with its ``type`` as the name, as in the Responses API."""
    return b"event: " + str(chunk["type"]).encode() + b"\n" + event(chunk)


def error_event(reply: ErrorReply) -> bytes:
    """Encode an error after the first byte as an error object: the status line was sent already."""
    return event(reply.body)


Chunk = Mapping[str, Any]
_Chunks = AsyncGenerator[Chunk, None]
# The first chunk, perhaps still pending when the reply begins; None where there are no chunks.
_Opening = asyncio.Future[Chunk | None]


class AdmissionState(Protocol):
    """Tell whether the answers of a request have been admitted; ``Answers`` implements it."""

    @property
    def is_admitted(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Framing:
    """Define the encoding of chunks, and the bytes after the last one."""

    chunk: Callable[[Chunk], bytes]
    end: bytes


CHUNKS: Final = Framing(event, DONE)
EVENTS: Final = Framing(named_event, b"")


class _EventStream(StreamingResponse):
    """Close the chunks however the stream ends, also where the client disconnects before the first one."""

    def __init__(self, opening: _Opening, chunks: _Chunks, framing: Framing, keepalive_s: float) -> None:
        super().__init__(_body(opening, chunks, framing), media_type="text/event-stream", headers=HEADERS)
        self._opening = opening
        self._chunks = chunks
        self._keepalive_s = keepalive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until its end or the client's.

        The base class would cancel it by an anyio scope, which only cancels a task that it finds waiting: an answer
        whose next piece is always ready would run on to its end, faster than before, as nobody takes its pieces.
        """
        keepalive = KeepAlive(send, self._keepalive_s, scope["state"].get("send_piece"))
        try:
            async with keepalive, cancel_on_disconnect(receive, lambda: keepalive.has_ended):
                await self.stream_response(keepalive)
        except RequestError as error:
            if not CLIENT_GONE.is_of(error):
                raise
        finally:
            await _close(self._opening, self._chunks)


async def stream_reply(
    request: Request,
    answers: AdmissionState,
    chunks: _Chunks,
    framing: Framing = CHUNKS,
    keepalive_s: float = KEEPALIVE_S,
) -> StreamingResponse:
    """Return the streaming reply; errors before the first chunk are raised, so that they get their HTTP status.

    The reply begins after admission of the answers, with the first chunk or after one keep-alive interval without it.

    Raises:
        CLIENT_GONE: the client disconnected while waiting.
    """
    opening = asyncio.ensure_future(_first(chunks))
    try:
        async with cancel_on_disconnect(request.receive):
            await _begins(opening, answers, keepalive_s)
    except BaseException:
        await _close(opening, chunks)
        raise
    return _EventStream(opening, chunks, framing, keepalive_s)


async def _first(chunks: _Chunks) -> Chunk | None:
    return await anext(chunks, None)


async def _begins(opening: _Opening, answers: AdmissionState, patience_s: float) -> None:
    """Wait for the first chunk, or until the reply begins without it.

    Raises:
        Exception: whatever the chunks raise.
    """
    while not opening.done():
        await asyncio.wait({opening}, timeout=patience_s)
        if answers.is_admitted:
            break
    if opening.done():
        opening.result()


async def _close(opening: _Opening, chunks: _Chunks) -> None:
    """Cancel the pending first chunk, then close the chunks: a running generator cannot be closed."""
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    await chunks.aclose()


async def _body(opening: _Opening, chunks: _Chunks, framing: Framing) -> AsyncIterator[bytes]:
    try:
        if not opening.done():
            yield KEEPALIVE
        if (first := await opening) is not None:
            yield framing.chunk(first)
            async for chunk in chunks:
                yield framing.chunk(chunk)
    except Exception as error:
        log_failure(error)
        yield error_event(error_reply(error))
    if framing.end:
        yield framing.end
