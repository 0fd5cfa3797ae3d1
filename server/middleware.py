"""Log and secure every request, as pure ASGI layers, so that streams pass through unbuffered.

``AccessLogMiddleware`` counts, times and logs. ``SecurityMiddleware`` has ``AccessControl`` check page, key and rate,
on the request's headers alone, before any of the body is read; it bounds the body's time, sets the request's id and
replies with a plain 500 to unhandled exceptions. It denies by default: a route needs a key unless ``OPEN_PATHS`` names
it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from models.errors import ArrowheadError
from server.auth.authentication import OPERATOR, ApiKeyLookup, Principal
from server.auth.first_key import FirstKey
from server.auth.rate_limits import RateLimiter
from server.error_mapping import ANTHROPIC_PATHS, ErrorReply, error_reply
from server.errors import BODY_TOO_SLOW, FORBIDDEN_ORIGIN, HEAD_TOO_LARGE, HOST_INVALID, UNAUTHORIZED, RequestError
from server.observability.metrics import Observability
from server.observability.observer import HTTP_METHODS, HttpRequest, log_event, request_id
from server.settings.server import DEFAULT_PORTS, ServerSettings, is_loopback, origin_of

log = logging.getLogger(__name__)
# Monitoring polls these routes so often that their lines would hide the others.
_QUIET_ROUTES: Final = frozenset(("/health", "/ready", "/metrics"))
# Status that proxies log for a client that disconnected before the reply.
_CLIENT_CLOSED_REQUEST: Final = 499


class AccessLogMiddleware:
    """Report each HTTP request as a metric, a log line and, with tracing, a span."""

    def __init__(self, app: ASGIApp, observability: Observability) -> None:
        self._app = app
        self._observer = observability.observer
        self._spans = observability.spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def send_with_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        # Every layer handles only a reply's start, so a stream's chunks may bypass them all.
        scope.setdefault("state", {})["send_piece"] = send
        span = self._begin(scope)
        try:
            await self._app(scope, receive, send_with_status)
        finally:
            self._end(scope, span, status or _CLIENT_CLOSED_REQUEST, time.monotonic() - began)

    def _begin(self, scope: Scope) -> object:
        if self._spans is None:
            return None
        headers = Headers(scope=scope)
        return self._spans.begin_request(headers.get("traceparent", ""), headers.get("tracestate", ""))

    def _end(self, scope: Scope, span: object, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "")
        code = scope.get("state", {}).get("error_code", "")
        # A client may send any word as its method.
        method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
        request = HttpRequest(route=route, method=method, status=status, code=code, seconds=seconds)
        self._observer.replied(request)
        if self._spans is not None:
            self._spans.end_request(span, request)
        is_quiet = route in _QUIET_ROUTES and status < 500
        # "Not ready" is what a poll of /ready asks for, not a failure.
        is_quiet = is_quiet or (route == "/ready" and status == 503)
        level = logging.DEBUG if is_quiet else logging.INFO
        fields = {"method": method, "route": route or "-", "status": status, "seconds": round(seconds, 4)}
        log_event(log, level, "request", fields | ({"code": code} if code else {}))


_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def host_name(host: str) -> str:
    """Return the name in a Host header, in lower case, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and port.isascii() else host).lower()


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether the page is one of this server.

    The scheme is ignored, since a proxy may have terminated TLS.
    """
    try:
        page = urlsplit(origin_of(origin))
        own_origin = urlsplit(origin_of(f"{page.scheme}://{host}"))
    except ValueError:
        return False
    return page.scheme in DEFAULT_PORTS and page.netloc == own_origin.netloc


def is_subresource(site: str, mode: str, destination: str) -> bool:
    """Return whether a page of another origin loads this as a subresource, by the Sec-Fetch headers.

    Following a link to it does not count. False if the headers are missing, as from clients other than browsers.
    """
    return site in _OTHER_SITES and (mode, destination) != ("navigate", "document")


def is_local_name(name: str, further: Collection[str]) -> bool:
    return name in LOCAL_NAMES or name in further


_WEB_NAMES: Final = (
    "admin.js app.js answer.js api.js articles.js chat.js composer.js corpora.js details.js documents.js dom.js "
    "evidence.js export.js fetching.js graph.js instead.js keys.js library.js literature.js reader.js review_table.js "
    "run.js search.js setup.js share.js sources.js status.js store.js support.js texts.js theme.js uploads.js work.js "
    "texts.json icon.svg inter-latin.woff2 inter-greek.woff2 inter-LICENSE.txt"
)
WEB_FILES: Final = frozenset(_WEB_NAMES.split())
# All but /health are pages without data, for which a browser cannot send a key; the data that they show needs one.
OPEN_PATHS: Final = frozenset(
    {"/", "/health", "/docs", *(f"/docs/{name}" for name in ("page.js", "page.svg", "swagger-ui.js", "swagger-ui.css"))}
    | {f"/web/{name}" for name in WEB_FILES}
)
# Needs the code of the first key in place of a key, as long as there is none.
SETUP_PATH: Final = "/v1/setup"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKENS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}", re.ASCII)
_EXPOSED_HEADERS: Final = "x-request-id, retry-after, location, " + ", ".join(
    f"x-ratelimit-{what}-{unit}" for unit in ("requests", "tokens") for what in ("limit", "remaining", "reset")
)


class AccessControl:
    """Check hosts, origins, API keys and rates.

    One instance per process, used from its event loop.
    """

    def __init__(
        self, settings: ServerSettings, key_lookup: ApiKeyLookup, rates: RateLimiter, first_key: FirstKey | None = None
    ) -> None:
        self._key_lookup = key_lookup
        self._first_key = first_key
        self._rates = rates
        self._is_local = is_loopback(settings.host)
        self._hosts = frozenset(name.lower() for name in (*settings.allowed_hosts, settings.host))
        self._pages = frozenset(settings.cors_origins)

    def check_page(self, method: str, headers: Headers) -> None:
        """Check the Host and Origin headers of a request.

        On a loopback address, no page of another, unlisted origin is answered at all: the server may be without keys,
        and then every site opened on this machine could use it.

        Raises:
            RequestError: a loopback address was requested under another name, or
                a page of this origin may not use the server.
        """
        host = headers.get("host", "")
        if self._is_local and not is_local_name(host_name(host), self._hosts):
            raise RequestError("this server answers to its own address only", HOST_INVALID)
        origins = headers.getlist("origin")
        if not origins:
            if self._is_local and is_subresource(
                *(headers.get(f"sec-fetch-{n}", "") for n in ("site", "mode", "dest"))
            ):
                raise RequestError("a page of another origin may not load this as a part of itself", FORBIDDEN_ORIGIN)
            return
        if len(origins) == 1 and (self._listed(origins[0]) or is_same_origin(origins[0], host)):
            return
        if self._is_local or method not in _READING:
            raise RequestError("a page of this origin may not use the server", FORBIDDEN_ORIGIN)

    def cors_headers(self, method: str, headers: Headers) -> dict[str, str]:
        """Return the CORS headers of a reply to a listed page; at most ``vary`` for others.

        Keys travel in a header and cookies are not used, so credentials are never allowed.
        """
        origin = headers.get("origin", "")
        if not self._pages or not self._listed(origin):
            return {"vary": "Origin"} if self._pages else {}
        cors = {
            "vary": "Origin",
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED_HEADERS,
        }
        if self.is_preflight(method, headers):
            requested_headers = headers.get("access-control-request-headers", "")
            cors["access-control-allow-methods"] = "GET, HEAD, POST, PUT, DELETE"
            cors["access-control-allow-headers"] = (
                requested_headers if _TOKENS.fullmatch(requested_headers) else "authorization"
            )
            cors["access-control-max-age"] = "600"
            if headers.get("access-control-request-private-network") == "true":
                cors["access-control-allow-private-network"] = "true"
        return cors

    def is_preflight(self, method: str, headers: Headers) -> bool:
        """Return whether the request is a listed page's CORS preflight, which carries no key."""
        asks = method == "OPTIONS" and "access-control-request-method" in headers
        return asks and len(headers.getlist("origin")) == 1 and self._listed(headers["origin"])

    def admit(self, path: str, headers: Headers) -> Principal:
        """Return the permissions of the request.

        A public path gets permissions too, but only for itself.

        Raises:
            UNAUTHORIZED: there is no valid key, or no key at all yet.
            KeyStoreError: the file of keys cannot be read.
        """
        if path in OPEN_PATHS or (self._is_local and not self._key_lookup.requires_key):
            return OPERATOR
        if self._first_key is not None and self._first_key.is_needed:
            if path == SETUP_PATH and self._first_key.is_open:
                return OPERATOR
            raise self._first_key.refusal()
        key = _key_of(path, headers)
        if not key:
            raise RequestError("a valid API key is required", UNAUTHORIZED)
        return self._key_lookup.find(key)

    async def take(self, principal: Principal) -> None:
        """Charge the request to its key's rate limit.

        Raises:
            QUEUE_FULL: the limit is reached.
        """
        if not principal.is_operator:
            await self._rates.take(principal)

    def rate_headers(self, principal: Principal) -> dict[str, str]:
        return {} if principal.is_operator else self._rates.headers(principal)

    def _listed(self, origin: str) -> bool:
        try:
            return origin_of(origin) in self._pages
        except ValueError:
            return False


def _key_of(path: str, headers: Headers) -> str:
    """Return the request's API key, "" where it has none or more than one."""
    authorizations = headers.getlist("authorization")
    # Anthropic's clients send their key in a header of its own.
    api_keys = headers.getlist("x-api-key") if path in ANTHROPIC_PATHS or "anthropic-version" in headers else []
    if len(authorizations) + len(api_keys) != 1:
        return ""
    if api_keys:
        return api_keys[0].strip()
    scheme, _, key = authorizations[0].partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


MAX_HEAD_BYTES: Final = 65_536
_MAX_HEADERS: Final = 256
# Bytes per second; a faster start leaves more time for the rest.
_MIN_BYTES_PER_S: Final = 16_384
_LINGER_BYTES: Final = 16 * 2**20
_LINGER_S: Final = 2.0


def check_head(scope: Scope) -> None:
    """Check the number and size of the headers, with the address.

    Raises:
        RequestError: a limit is exceeded.
    """
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers) + len(scope.get("query_string", b""))
    if len(headers) > _MAX_HEADERS or size + len(scope.get("raw_path") or b"") > MAX_HEAD_BYTES:
        raise RequestError(
            f"at most {_MAX_HEADERS} headers, and {MAX_HEAD_BYTES} bytes with the address, are taken", HEAD_TOO_LARGE
        )


def check_host(scope: Scope, headers: Headers) -> None:
    """Check that the request names one host: by one header, and by the same name in its first line, where it has one.

    Proxies and servers differ in which of several they believe, so that one would check another than the next uses.

    Raises:
        RequestError: it names several, none or something else.
    """
    hosts = headers.getlist("host")
    if len(hosts) > 1 or (not hosts and scope.get("http_version") == "1.1"):
        raise RequestError("a request has one Host header", HOST_INVALID)
    target = scope.get("state", {}).get("target", b"") or scope.get("raw_path") or b"/"
    if target.startswith(b"/") or b"://" not in target:
        return
    address = urlsplit(target.decode("latin-1"))
    if (
        address.scheme not in DEFAULT_PORTS
        or not hosts
        or not is_same_origin(f"{address.scheme}://{address.netloc}", hosts[0])
    ):
        raise RequestError("the address in the request's first line is not that of its Host header", HOST_INVALID)


class DecodedHeaders(Headers):
    """Decode the headers once, since a request looks up a dozen names, most of which are absent."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def __getitem__(self, key: str) -> str:
        return self._values[key.lower()][0]

    def get(self, key: str, default: Any = None) -> Any:
        values = self._values.get(key.lower())
        return values[0] if values else default

    def getlist(self, key: str) -> list[str]:
        return list(self._values.get(key.lower(), ()))

    def __contains__(self, key: Any) -> bool:
        return isinstance(key, str) and key.lower() in self._values


class TimedBody:
    """Read the body of one request under a time limit, in place of ``receive``.

    ``timeout_s`` is the time for an empty body; each byte extends it at the minimum rate.
    """

    def __init__(self, headers: Headers, receive: Receive, timeout_s: float) -> None:
        self._receive = receive
        self._timeout_s = timeout_s
        self._began = asyncio.get_running_loop().time()
        self._size = 0
        self._timed_out = False
        content_length = headers.get("content-length", "0")
        self._is_complete = content_length == "0" and "transfer-encoding" not in headers
        self._expects_continue = headers.get("expect", "").lower() == "100-continue"

    async def __call__(self) -> Message:
        """Return the next message of the body.

        Raises:
            RequestError: the time is over and the body is incomplete.
        """
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._began + self._timeout_s + self._size / _MIN_BYTES_PER_S):
                return self._count(await self._receive())
        except TimeoutError:
            self._timed_out = True
            raise RequestError("the body did not come in time", BODY_TOO_SLOW) from None

    async def drain(self) -> bool:
        """Return whether the connection can carry another request after this reply, which begins now."""
        is_complete = self._is_complete
        if is_complete or self._timed_out or (self._expects_continue and not self._size):
            return is_complete
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while not self._is_complete and self._size <= _LINGER_BYTES:
                    self._count(await self._receive())
        return self._is_complete

    def _count(self, message: Any) -> Message:
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return dict(message)


# Covers UUIDs, trace ids and ids of proxies. Any wider alphabet would let words into the logs.
_SAFE_ID: Final = re.compile(r"[0-9A-Fa-f](?:-?[0-9A-Fa-f]){15,63}", re.ASCII)


def request_id_for(header: str) -> str:
    """Return the given id if it is safe to log, else a new one.

    ``header``: the ``x-request-id`` header, "" for none.
    """
    return header if _SAFE_ID.fullmatch(header) else new_id()


def new_id() -> str:
    """Return 32 random hexadecimal digits."""
    return secrets.token_hex(16)


class SecurityMiddleware:
    """Admit or refuse each HTTP request; refuse websockets."""

    def __init__(self, app: ASGIApp, access_control: AccessControl, body_timeout_s: float) -> None:
        self._app = app
        self._access_control = access_control
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._secured(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _secured(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = DecodedHeaders(scope)
        rid = request_id_for(headers.get("x-request-id", ""))
        request_id.set(rid)
        started = False
        reply_headers = {"x-request-id": rid}
        body = TimedBody(headers, receive, self._body_timeout_s)

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add(
                    MutableHeaders(scope=message),
                    reply_headers | ({} if await body.drain() else {"connection": "close"}),
                )
            await send(message)

        try:
            check_head(scope)
            check_host(scope, headers)
            reply_headers |= self._access_control.cors_headers(scope["method"], headers)
            self._access_control.check_page(scope["method"], headers)
            if self._access_control.is_preflight(scope["method"], headers):
                await _send(204, b"", {}, send_with_headers)
                return
            principal = self._access_control.admit(scope["path"], headers)
            scope.setdefault("state", {}).update(owner=principal.owner, principal=principal)
            try:
                await self._access_control.take(principal)
            finally:
                reply_headers |= self._access_control.rate_headers(principal)
            await self._app(scope, body, send_with_headers)
        except Exception as error:
            log_failure(error)
            reply = error_reply(error)
            scope.setdefault("state", {})["error_code"] = reply.code
            if not started:
                await send_error(reply, scope["path"], send_with_headers)


def _add(headers: MutableHeaders, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if name == "vary":
            headers.add_vary_header(value)
        else:
            headers[name] = value


async def send_error(reply: ErrorReply, path: str, send: Send) -> None:
    headers = {"content-type": "application/json"}
    headers |= {name.lower(): value for name, value in reply.headers.items()}
    headers |= {"www-authenticate": "Bearer"} if reply.status == 401 else {}
    await _send(reply.status, json.dumps(reply.body_at(path)).encode(), headers, send)


async def _send(status: int, body: bytes, headers: dict[str, str], send: Send) -> None:
    headers |= {"content-length": str(len(body))} if status != 204 else {}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def log_failure(error: BaseException) -> None:
    """Log our errors at INFO by name, and others as errors with their traceback.

    Their texts and the names of fields are left out, since they may quote what a client wrote.
    """
    if isinstance(error, ArrowheadError):
        log.info("refused: kind=%s", error.fault.kind or error.fault.code)
        return
    log.error("unexpected %s", type(error).__name__, exc_info=error)
