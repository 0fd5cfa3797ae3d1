"""Implement ``arrowhead egress serve``: the one process of an institution that sends calls to NCBI.

It listens on a Unix socket, on a loopback address, or with TLS. On an address it asks for certificates, the shared key,
or both; on a socket its permissions decide who may ask. One route takes the calls of servers, others tell its state;
all but ``/health`` ask for the shared key where one is set. A call that is refused here, by key or by number, was not
sent to NCBI. What may leave is left to the router.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import signal
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from retrieval.errors import EGRESS_REFUSED, NCBI_THROTTLED, NCBI_TIMEOUT, NcbiError
from retrieval.ncbi.calls.table import DROPPED
from retrieval.ncbi.client.service import CALLS_PATH, encode_error, encode_reply
from retrieval.storage.files import FileLock, make_folder
from retrieval.types import Endpoint, NcbiCall, RawReply
from server.egress.policy import EgressContext
from server.observability.metrics import Metrics, watch_service
from server.printable import unescaped
from server.serving.connections import configure_listener, with_slow_client_limits
from server.settings.egress import EgressServiceSettings
from server.settings.loading import SettingsInvalid, audit_path, variable_name
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.wiring.data_folder import protect_data
from server.wiring.ncbi import Ncbi, build_egress_service

log = logging.getLogger(__name__)
_LOCK: Final = ".egress-service.lock"
_GROUP_MAY_CONNECT: Final = 0o660
_SLOW_HEAD_S: Final = 10.0
_MAX_BODY: Final = 64 * 1024
_BODY_TIMEOUT_S: Final = 10.0
_MAX_PARAMS: Final = 40
_PARAM: Final = re.compile(r"[A-Za-z_]{1,40}")
_NO_CLIENT: Final = 499
REFUSALS: Final = ("key", "busy", "body")
_SLOW_READER_S: Final = 30.0
# Calls at once, those that wait for the rate too; and how long calls under way may take to end.
_MAX_WAITING: Final = 256
_SHUTDOWN_GRACE_S: Final = 10


def run_egress_service(settings: Settings) -> int:
    """Serve until a signal, and return the exit status.

    Raises:
        SettingsInvalid: the settings are those of no egress service, the address cannot be bound or is open without
            key and certificates, or another service uses the audit log's folder.
        ArrowheadError: another error at start-up.
    """
    service = settings.egress_service
    require_protection(settings)
    protect_data(settings)
    with _only_one(audit_path(settings).parent), listener_of(service) as listener:
        metrics = Metrics()
        ncbi = build_egress_service(settings, metrics)
        key = settings.egress.service_key
        state = ServiceState(ncbi, metrics, key.get_secret_value() if key else "")
        watch_service(metrics, state)
        ncbi.begin()
        try:
            asyncio.run(ServiceServer(service_config(state, service), state).serve(sockets=[listener]))
        except KeyboardInterrupt:
            return 0
    return 0


class ServiceServer(uvicorn.Server):
    """Refuse new calls from the first signal on, and say where the service listens."""

    def __init__(self, config: uvicorn.Config, state: ServiceState) -> None:
        super().__init__(config)
        self._state = state

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            policy = self._state.ncbi.egress.policy
            _say(f"may leave ({policy.profile}): {', '.join(policy.allowed) or 'nothing'}\n")
            _say(f"egress service ready: {_address(sockets[0], tls=self.config.is_ssl)}\n")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._state.is_draining = True
        if sig == signal.SIGINT or self.should_exit:
            super().handle_exit(sig, frame)
        self.should_exit = True


def service_config(state: ServiceState, service: EgressServiceSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        create_egress_app(state),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        loop="asyncio",
        # Longer than clients keep an idle connection, so that none is closed while a request is on its way.
        timeout_keep_alive=60,
        timeout_graceful_shutdown=_SHUTDOWN_GRACE_S,
        ssl_certfile=service.certificate,
        ssl_keyfile=service.certificate_key,
        ssl_ca_certs=None if service.client_ca_file is None else str(service.client_ca_file),
        ssl_cert_reqs=ssl.CERT_NONE if service.client_ca_file is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except OSError as error:
        name = variable_name("egress_service", "certificate")
        raise SettingsInvalid(f"{name}: a certificate or key cannot be read: {error.strerror or error}") from error
    config.http_protocol_class = with_slow_client_limits(config.http_protocol_class, _SLOW_READER_S, _SLOW_HEAD_S)
    return config


def require_protection(settings: Settings) -> None:
    """Refuse an address that anyone could use.

    Raises:
        SettingsInvalid: names what is missing.
    """
    service = settings.egress_service
    if service.socket is not None:
        return
    if service.certificate is None and not is_loopback(service.host):
        raise SettingsInvalid(
            f"{variable_name('egress_service', 'certificate')}: {service.host} is not a loopback address: calls and "
            "the key would pass the network unencrypted; set egress_service.certificate, or egress_service.socket"
        )
    if service.client_ca_file is None and settings.egress.service_key is None:
        raise SettingsInvalid(
            f"{variable_name('egress', 'service_key')}: anyone could use the service: set egress.service_key, "
            "egress_service.client_ca_file, or egress_service.socket"
        )


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold the folder of the audit log, as two services would send twice as often as NCBI allows."""
    make_folder(folder)
    try:
        lock = FileLock(folder / _LOCK)
    except BlockingIOError:
        name = variable_name("audit", "path")
        raise SettingsInvalid(f"{name}: another egress service uses {folder}: an institution needs one") from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def listener_of(service: EgressServiceSettings) -> Iterator[socket.socket]:
    listener = _bound(service) if service.socket is None else _bound_socket(service.socket)
    try:
        yield listener
    finally:
        listener.close()
        if service.socket is not None:
            service.socket.unlink(missing_ok=True)


def _bound(service: EgressServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in service.host else socket.AF_INET
    try:
        listener = socket.create_server((service.host.strip("[]"), service.port), family=family, backlog=2048)
    except OSError as error:
        name = variable_name("egress_service", "port")
        raise SettingsInvalid(f"{name}: cannot listen on {service.host}:{service.port}: {error.strerror}") from error
    configure_listener(listener, _SLOW_READER_S)
    return listener


def _bound_socket(path: Path) -> socket.socket:
    """Bind a Unix socket that the owner and the group may connect to; one that a killed process left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        listener.bind(str(draft))
        draft.chmod(_GROUP_MAY_CONNECT)
        listener.listen(2048)
        draft.rename(path)
    except OSError as error:
        listener.close()
        name = variable_name("egress_service", "socket")
        raise SettingsInvalid(f"{name}: cannot listen on {path}: {error.strerror or error}") from error
    return listener


def _address(listener: socket.socket, *, tls: bool) -> str:
    if listener.family == socket.AF_UNIX:
        return "on its Unix socket"
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _say(text: str) -> None:
    stream = unescaped(sys.stderr)
    stream.write(text)
    stream.flush()


class CallRequest(BaseModel):
    """Hold one call and what the audit log needs of its caller."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    endpoint: Endpoint
    params: Annotated[dict[str, str], Field(max_length=_MAX_PARAMS)]
    request_id: str = Field(default="", pattern=r"^[!-~]{0,200}$")
    key_id: str = Field(default="", pattern=r"^([0-9a-f]{8})?$")
    cached_only: bool = False

    @field_validator("params")
    @classmethod
    def _are_a_calls(cls, params: dict[str, str]) -> dict[str, str]:
        for name in params:
            if not _PARAM.fullmatch(name) or name.lower() in DROPPED or name.upper() == "CMD":
                raise ValueError("a parameter of this name cannot be sent")
        return params

    @property
    def call(self) -> NcbiCall:
        database = self.params.get("DATABASE" if self.endpoint == "blast_put" else "db", "")
        return NcbiCall(self.endpoint, database, self.params)


@dataclass(slots=True)
class ServiceState:
    """Hold what the routes share; ``key`` is "" where certificates alone decide who may ask."""

    ncbi: Ncbi
    metrics: Metrics
    key: str = field(repr=False)
    max_waiting: int = _MAX_WAITING
    in_flight: int = 0
    is_draining: bool = False
    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSALS, 0)))

    @property
    def kept(self) -> Mapping[str, int]:
        """Return how many calls were kept on this machine, by reason."""
        return {str(reason): number for reason, number in self.ncbi.egress.refusals.items()}

    def is_key(self, sent: str) -> bool:
        """Return whether a request has the shared key, in a time that does not depend on how much of it is right."""
        scheme, _, token = sent.partition(" ")
        if not self.key:
            return True
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.key.encode())


def create_egress_app(state: ServiceState) -> Starlette:
    """Create the application; its shutdown closes the audit log and the connections to NCBI."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for closer in reversed(state.ncbi.closers):
                await closer()

    app = Starlette(
        routes=[
            Route("/health", _health),
            Route("/ready", _with_key(_ready)),
            Route("/metrics", _with_key(_metrics)),
            Route(CALLS_PATH, _with_key(_call), methods=["POST"]),
        ],
        lifespan=lifespan,
    )
    app.state.service = state
    return app


Handler = Callable[[Request], Awaitable[Response]]


def _with_key(handler: Handler) -> Handler:
    async def route(request: Request) -> Response:
        state: ServiceState = request.app.state.service
        if not state.is_key(request.headers.get("authorization", "")):
            state.refused["key"] += 1
            log.warning("refused: a request without the shared key, or with another one")
            return _refused(403, "the shared key is missing or wrong")
        return await handler(request)

    return route


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _ready(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    policy = state.ncbi.egress.policy
    body: dict[str, Any] = {
        "status": "draining" if state.is_draining else "ready",
        "egress": policy.mode,
        "egress_profile": policy.profile,
        "egress_allows": list(policy.allowed),
        "in_flight": state.in_flight,
    }
    return JSONResponse(body, status_code=503 if state.is_draining else 200)


async def _metrics(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    body, content_type = state.metrics.expose(request.headers.get("accept", ""))
    return Response(body, media_type=content_type)


async def _call(request: Request) -> Response:
    state: ServiceState = request.app.state.service
    if state.is_draining or state.in_flight >= state.max_waiting:
        state.refused["busy"] += 1
        return _refused(503, "too many calls wait, or the service stops", {"Retry-After": "1"})
    state.in_flight += 1
    try:
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                asked = CallRequest.model_validate_json(await _body(request))
        except (ValidationError, ClientDisconnect, TimeoutError, _TooLongError):
            state.refused["body"] += 1
            return _refused(400, "the body is no call")
        return await _answered(state, request, asked)
    finally:
        state.in_flight -= 1


async def _answered(state: ServiceState, request: Request, asked: CallRequest) -> Response:
    work = asyncio.create_task(_reply_to(state, asked))
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Response(status_code=_NO_CLIENT)
        reply = work.result()
    except NcbiError as error:
        return Response(encode_error(error), status_code=_status_of(error), media_type="application/json")
    finally:
        gone.cancel()
        # A call that no server waits for is not sent, or its reply not read.
        work.cancel()
        await asyncio.wait({work})
    if reply is None:
        return Response(status_code=204)
    return Response(encode_reply(reply), media_type="application/json")


async def _reply_to(state: ServiceState, asked: CallRequest) -> RawReply | None:
    egress = state.ncbi.egress
    context: EgressContext = egress.admit(asked.request_id, asked.key_id, None)
    if asked.cached_only:
        return await egress.find_cached(asked.call, context)
    return await egress.fetch(asked.call, context)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _TooLongError(Exception):
    """Signal a body that is longer than any call."""


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY:
            raise _TooLongError
    return bytes(body)


def _status_of(error: NcbiError) -> int:
    if EGRESS_REFUSED.is_of(error):
        return 403
    if NCBI_THROTTLED.is_of(error):
        return 429
    return 504 if NCBI_TIMEOUT.is_of(error) else 502


def _refused(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": reason}}, status_code=status, headers=headers)
