"""Provide the gateway as an ASGI application and as a standalone server.

Owns paths, methods, size limits and start-up. Query text never reaches a log: a line holds the endpoint, the
database, the status, the size and the time.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from retrieval.formats.records import DATABASES
from retrieval.gateway.blast.requests.request import known_taxid
from retrieval.gateway.blast.service import BlastOptions, BlastService, open_blast
from retrieval.gateway.errors import GatewayBindError, GatewayDataError, GatewayPortError
from retrieval.gateway.eutils.dispatch import ENDPOINTS, answer
from retrieval.gateway.eutils.history import History
from retrieval.gateway.http_reply import PLAIN, REPEATED, Reply
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore

log = logging.getLogger(__name__)
DEFAULT_PORT: Final = 8765
_MAX_QUERY_STRING: Final = 32 * 1024
_MAX_BODY: Final = 256 * 1024
_GRACE_S: Final = 4  # graceful shutdown: time for requests in progress
_MAX_FIELDS: Final = 1_000  # elink takes an id parameter for each link set
Answerer = Callable[[Mapping[str, str]], Awaitable[Reply]]


def default_data_dir() -> Path:
    """Return ``$XDG_DATA_HOME/arrowhead/gateway``, by default under ~/.local/share."""
    home = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(home) if home else Path.home() / ".local" / "share") / "arrowhead" / "gateway"


def create_gateway_app(store: GatewayStore, blast_options: BlastOptions | None = None) -> Starlette:
    """Create the application with the E-utilities and BLAST endpoints, GET and POST.

    E-utilities are under /entrez/eutils/*.fcgi, BLAST under /blast/Blast.cgi and /Blast.cgi. The BLAST database is
    stored beside the store's file. The application can be mounted in another one or called over an in-process
    transport: it needs no lifespan events, though its lifespan shutdown cancels running searches.
    """
    blast_dir = store.path.parent / f"blast-{store.fingerprint[:16]}"

    def taxid_of(name: str) -> int | None:
        """Return the taxonomy ID of a name: that of a well-known organism first, else one of the store's."""
        return known_taxid(name) or next(iter(store.tax_ids(name)), None)

    blast = open_blast(store.segments(), blast_dir, blast_options, taxid_of)
    history = History()
    routes = [
        Route(f"/entrez/eutils/{name}.fcgi", _eutils_route(store, name, history), methods=["GET", "POST"])
        for name in ENDPOINTS
    ]
    blast_route = _blast_route(blast)
    routes += [Route(path, blast_route, methods=["GET", "POST"]) for path in ("/blast/Blast.cgi", "/Blast.cgi")]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await blast.aclose()

    return Starlette(routes=routes, lifespan=lifespan)


def _eutils_route(store: GatewayStore, endpoint: str, history: History) -> Callable[[Request], Awaitable[Response]]:
    async def reply(params: Mapping[str, str]) -> Reply:
        try:
            return await run_in_threadpool(answer, store, endpoint, params, history)
        except GatewayDataError as error:
            reason = error.message
        except sqlite3.Error:
            reason = "the store cannot be read"
        log.error("%s: a record or the store cannot be read", endpoint)
        return Reply(500, PLAIN, f"Error: {reason}\n")

    async def route(request: Request) -> Response:
        return await _respond(request, endpoint, reply, str.lower)

    return route


def _blast_route(blast: BlastService) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        return await _respond(request, "blast", blast.answer, str.upper)

    return route


async def _respond(request: Request, endpoint: str, reply: Answerer, case: Callable[[str], str]) -> Response:
    started = time.perf_counter()
    try:
        params = await _params(request, case)
    except _RefusedError as refused:
        result, params = Reply(refused.status, PLAIN, f"{refused.reason}\n"), {}
    else:
        result = await reply(params)
    body = result.content
    elapsed_ms = 1000 * (time.perf_counter() - started)
    log.info(
        "%s db=%s status=%d bytes=%d ms=%.1f", endpoint, _loggable_db(params), result.status, len(body), elapsed_ms
    )
    return Response(body, status_code=result.status, headers={"content-type": result.content_type})


def _loggable_db(params: Mapping[str, str]) -> str:
    """Return the database for the log, "?" unless it is one of E-utilities', as clients may send any text."""
    name = params.get("db", "").lower()
    return name if name in DATABASES else "?"


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


async def _params(request: Request, case: Callable[[str], str]) -> dict[str, str]:
    """Return the parameters with names in one case.

    The values of a repeated ``id`` are joined with ``REPEATED``; of other repeated parameters the last value counts.
    """
    query = request.scope.get("query_string", b"")
    if len(query) > _MAX_QUERY_STRING:
        raise _RefusedError(414, "Request-URI Too Long")
    texts = [query, await _body(request)] if request.method == "POST" else [query]
    params: dict[str, str] = {}
    for name, value in _fields(texts):
        key = case(name)
        params[key] = f"{params[key]}{REPEATED}{value}" if key == "id" and key in params else value
    return params


def _fields(texts: Iterable[bytes]) -> list[tuple[str, str]]:
    try:
        return [
            pair
            for text in texts
            for pair in parse_qsl(text.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        ]
    except ValueError as error:
        raise _RefusedError(400, "Bad Request: the parameters cannot be read") from error


async def _body(request: Request) -> bytes:
    """Read the form's bytes, up to the size limit."""
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded").split(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", ""):
        raise _RefusedError(415, "Unsupported Media Type: send application/x-www-form-urlencoded")
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > _MAX_BODY:
                raise _RefusedError(413, "Request Entity Too Large")
    except ClientDisconnect as error:
        raise _RefusedError(400, "Bad Request: the body broke off") from error
    return bytes(chunks)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    data_dir: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    allow_remote: bool = False,
    blast_options: BlastOptions | None = None,
) -> None:
    """Serve until interrupted.

    Raises:
        GatewayBindError: ``host`` is not a loopback address and ``allow_remote`` is false.
        GatewayPortError: the port is out of range or cannot be bound.
    """
    if not is_loopback(host) and not allow_remote:
        raise GatewayBindError(f"{host} is not a loopback address; the gateway has no access control")
    app = create_gateway_app(open_store(data_dir), blast_options)
    try:
        listener = socket.create_server((host.strip("[]"), port), family=_family(host))
    except OSError as error:
        raise GatewayPortError(f"{host}:{port}: {error.strerror}") from error
    except OverflowError as error:
        raise GatewayPortError(f"{host}:{port}: a port is a number from 0 to 65535") from error
    with listener:
        config = uvicorn.Config(
            app, access_log=False, log_config=None, server_header=False, timeout_graceful_shutdown=_GRACE_S
        )
        log.info("gateway listens on %s port %d", host, listener.getsockname()[1])
        with contextlib.suppress(KeyboardInterrupt):  # regular stop by Ctrl-C; uvicorn has shut down by then
            uvicorn.Server(config).run(sockets=[listener])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
