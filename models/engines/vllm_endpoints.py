"""Call the endpoints of vLLM's OpenAI layer directly, without its web application in between.

FastAPI would read a parsed body again, search it for parameters, and listen for a disconnect that our server already
listens for: half of the time from our server's code to vLLM's (docs/benchmarks.md). Everything visible to a client
stays: the body's type, the route's other checks, and the replies to errors.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from models.engines.base import AsgiSend, LayerCall
from models.errors import EngineUnavailable

_PARAMETERS = {"request", "raw_request"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Describe one endpoint of vLLM.

    ``handler`` is vLLM's function without the decorators that listen for a disconnect and count for its own metrics.
    """

    body: type[BaseModel]
    handler: Callable[[BaseModel, Request], Awaitable[Response]]
    checks: tuple[Callable[[Request], Awaitable[None]], ...]

    @classmethod
    def of(cls, route: Any) -> Endpoint:
        """Build the endpoint of a route.

        Raises:
            EngineUnavailable: the route does not have the form of the supported release.
        """
        handler = inspect.unwrap(route.endpoint)
        body = get_type_hints(handler).get("request")
        checks = tuple(one.dependency for one in route.dependencies)
        fits = isinstance(body, type) and issubclass(body, BaseModel)
        fits = fits and set(inspect.signature(handler).parameters) == _PARAMETERS
        fits = fits and all(list(inspect.signature(check).parameters) == ["raw_request"] for check in checks)
        if not fits or body is None:
            raise EngineUnavailable(f"vLLM's endpoint of {route.path} is not of the form that this release knows")
        return cls(body, handler, checks)


class Endpoints:
    """Call the endpoints of a FastAPI application of vLLM's that answer a POST at a path without parameters."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._by_path = {
            route.path: Endpoint.of(route)
            for route in app.routes
            if getattr(route, "methods", None) == {"POST"} and "{" not in route.path
        }

    async def __call__(self, call: LayerCall, send: AsgiSend) -> None:
        """Answer one call, as ``OpenAiLayer`` specifies.

        Raises:
            KeyError: vLLM does not have the path.
        """
        endpoint = self._by_path[call.path]
        request = Request(self._scope(call))
        cancels = _cancels()
        try:
            response = await _answer(endpoint, call, request)
            _go_on_unless_cancelled(cancels)
        except Exception as error:
            _go_on_unless_cancelled(cancels)
            kind = next(kind for kind in type(error).__mro__ if kind in self._app.exception_handlers)
            response = await self._app.exception_handlers[kind](request, error)
            await _send(response, request, send)
            if kind is Exception:
                raise  # unexpected, so it must reach the log
            return
        await _send(response, request, send)

    def _scope(self, call: LayerCall) -> dict[str, Any]:
        return {
            "type": "http",
            "app": self._app,
            "method": "POST",
            "path": call.path,
            "headers": list(call.headers),
            "query_string": b"",
            "state": {},
        }


def _cancels() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _go_on_unless_cancelled(before: int) -> None:
    """Raise CancelledError if the task was cancelled since ``before``.

    vLLM takes a cancellation for a disconnect of its client, swallows it and builds a reply that is never sent.
    """
    if _cancels() > before:
        raise asyncio.CancelledError


async def _answer(endpoint: Endpoint, call: LayerCall, request: Request) -> Response:
    for check in endpoint.checks:
        await check(request)
    try:
        body = endpoint.body.model_validate(call.body)
    except ValidationError as error:
        # The same locations that FastAPI reports for errors in a body.
        told = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(told, body=call.body) from None
    return await endpoint.handler(body, request)


async def _send(response: Response, request: Request, send: AsgiSend) -> None:
    if isinstance(response, StreamingResponse):
        # Calling the response itself would also listen for a client disconnect.
        pieces: Any = response.body_iterator
        async with aclosing(pieces):
            await response.stream_response(send)
    else:
        await response(request.scope, request.receive, send)
