"""Read a request's JSON body within its limits."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from models.errors import ArrowheadError
from server.errors import BodyTooLarge, ClientDisconnected, ForbiddenHost, InvalidRequest


@asynccontextmanager
async def cancel_on_disconnect(receive: Receive, is_served: Callable[[], bool] = lambda: False) -> AsyncIterator[None]:
    """Cancel the block when the client disconnects.

    The request's body must be read before. ``is_served`` returns whether the whole reply was sent already, since a
    server signals the end of the reply in the same way as a disconnect.

    Raises:
        ClientDisconnected: the client disconnected.
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
            raise ClientDisconnected("the client went away before its answer was complete") from None
        raise
    finally:
        listening.cancel()


# An escaped surrogate, paired or not.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# One shared decoder: ``json.loads`` creates a new one at each call with options.
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


async def read_json(request: Request, max_bytes: int) -> Any:
    """Return the parsed JSON body.

    Raises:
        BodyTooLarge: the body is longer than ``max_bytes``.
        BodyTooSlow: the body did not arrive in time.
        InvalidRequest: the body is not valid JSON.
        ClientDisconnected: the client disconnected.
        ForbiddenHost: a web form of another site could send this content type.
    """
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise ForbiddenHost("the body must be sent as application/json")
    sent = await _whole(request, max_bytes)
    try:
        value = _DECODER.decode(sent.decode(json.detect_encoding(sent), "surrogatepass"))
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not valid JSON") from None
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
                raise BodyTooLarge(f"the body is longer than {max_bytes} bytes")
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientDisconnected("the client went away before its request was here") from None
    return b"".join(chunks)


def _refuse_lone_surrogates(value: Any) -> None:
    """Check that all texts can be encoded.

    Raises:
        InvalidRequest: a text has a lone surrogate; ``param`` is the top-level field.
    """
    fields = value.items() if isinstance(value, dict) else ((None, value),)
    for name, part in fields:
        try:
            json.dumps([name, part], ensure_ascii=False).encode()
        except (UnicodeEncodeError, RecursionError):
            field = name if isinstance(name, str) and name.isascii() else None
            text = f"{field or 'the body'}: a text has half of a character (a lone surrogate)"
            raise InvalidRequest(text, param=field) from None


class RawRoute(APIRoute):
    """Call the handler without FastAPI's parameter resolution, which takes half of such a route's time.

    The handler must be ``async`` with ``request`` as its only parameter.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


# pydantic's name of a union's branch: list[constrained-str].
_BRANCH = re.compile(r"\[")


class Body(BaseModel):
    """Refuse unknown fields and type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Model = TypeVar("_Model", bound=BaseModel)


def parse_body(kind: type[_Model], body: object) -> _Model:
    """Parse the body of an endpoint other than chat and completions.

    Raises:
        InvalidRequest: a value is not valid; ``param`` names the field.
    """
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise first_error(error) from None


def first_error(error: ValidationError, place: str = "") -> ArrowheadError:
    """Return the first validation error with its field's name.

    ``place`` is the path of the checked part in the body (``input[2]``).
    """
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    # A union reports every branch it tried; the branch names mean nothing to a client.
    path = [str(part) for part in detail["loc"] if not (isinstance(part, str) and _BRANCH.search(part))]
    words = [part for part in path if part not in {"str", "float", "int"}]
    param = re.sub(r"\.(\d+)", r"[\1]", ".".join([place, *words] if place else words)) or None
    if detail["type"] == "extra_forbidden":
        return InvalidRequest(f"{param}: there is no such field", param=param)
    return InvalidRequest(f"{param}: {detail['msg'].lower()}", param=param)
