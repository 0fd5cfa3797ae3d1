"""Calls the endpoints of vLLM's OpenAI layer as its web application would, without that application in between.

FastAPI would read a body that was read before, search it for parameters, and listen for a client that our server
listens for: half of the time from our server's code to vLLM's (docs/benchmarks.md). What is kept is what a client can
see: the body's type, the route's other checks, and the replies to errors.
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
    """``handler`` is vLLM's function below the decorators that listen for the client and count for its own metrics."""

    body: type[BaseModel]
    handler: Callable[[BaseModel, Request], Awaitable[Response]]
    checks: tuple[Callable[[Request], Awaitable[None]], ...]

    @classmethod
    def of(cls, route: Any) -> Endpoint:
        """Raises EngineUnavailable for a route of another form than those of the release that this was written for."""
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
    """Those of ``app``, a FastAPI application of vLLM's, which answer a POST at a path without parameters."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._by_path = {
            route.path: Endpoint.of(route)
            for route in app.routes
            if getattr(route, "methods", None) == {"POST"} and "{" not in route.path
        }

    async def __call__(self, call: LayerCall, send: AsgiSend) -> None:
        """As ``OpenAiLayer`` says. Raises KeyError for a path that vLLM does not have."""
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
                raise  # nobody expected it, so the log must have it
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
    """vLLM takes a cancellation for its client's leaving, keeps it to itself and words a reply that is for nobody."""
    if _cancels() > before:
        raise asyncio.CancelledError


async def _answer(endpoint: Endpoint, call: LayerCall, request: Request) -> Response:
    for check in endpoint.checks:
        await check(request)
    try:
        body = endpoint.body.model_validate(call.body)
    except ValidationError as error:
        # As FastAPI names what is wrong with a body.
        told = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(told, body=call.body) from None
    return await endpoint.handler(body, request)


async def _send(response: Response, request: Request, send: AsgiSend) -> None:
    if isinstance(response, StreamingResponse):
        # Called as a whole it would listen for the client besides.
        pieces: Any = response.body_iterator
        async with aclosing(pieces):
            await response.stream_response(send)
    else:
        await response(request.scope, request.receive, send)
