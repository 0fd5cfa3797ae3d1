"""A route whose handler takes the request and makes the reply itself, body included."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute


class RawRoute(APIRoute):
    """Without FastAPI's search for parameters, which such a handler does not have and which takes half of a route's
    time. Its handler is ``async`` and has the parameter ``request`` alone."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler
