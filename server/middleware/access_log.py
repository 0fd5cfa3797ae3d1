"""Count, time and log each HTTP request in the outermost middleware.

Pure ASGI, so that streams pass through unbuffered. A log line holds the route's template, not its path: a path can hold
the name of a namespace, and a query string anything.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.observability.logging_setup import log_event
from server.observability.observer import HttpRequest
from server.observability.setup import Observability

log = logging.getLogger(__name__)
# Monitoring polls these routes so often that their lines would hide the others.
_QUIET: Final = frozenset(("/health", "/ready", "/metrics"))
# Status that proxies log for a client that disconnected before the reply.
_GONE: Final = 499


class AccessLogMiddleware:
    """Report each HTTP request as a metric, a log line and, with tracing, a span."""

    def __init__(self, app: ASGIApp, observing: Observability) -> None:
        self._app = app
        self._observer = observing.observer
        self._spans = observing.spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        span = self._begin(scope)
        try:
            await self._app(scope, receive, watched)
        finally:
            self._end(scope, span, status or _GONE, time.monotonic() - began)

    def _begin(self, scope: Scope) -> object:
        if self._spans is None:
            return None
        headers = Headers(scope=scope)
        return self._spans.begin_request(headers.get("traceparent", ""), headers.get("tracestate", ""))

    def _end(self, scope: Scope, span: object, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "")
        code = scope.get("state", {}).get("error_code", "")
        request = HttpRequest(route=route, method=scope["method"], status=status, code=code, seconds=seconds)
        self._observer.replied(request)
        if self._spans is not None:
            self._spans.end_request(span, request)
        level = logging.DEBUG if route in _QUIET and status < 500 else logging.INFO
        fields = {"method": scope["method"], "route": route or "-", "status": status, "seconds": round(seconds, 4)}
        log_event(log, level, "request", fields | ({"code": code} if code else {}))
