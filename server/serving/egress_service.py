"""Implement ``arrowhead egress serve``: the one process of an institution that sends calls to NCBI.

It listens on a Unix socket, on a loopback address, or with TLS. On an address it asks for certificates, the shared key,
or both; on a socket its permissions decide who may ask.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from retrieval.storage.files import FileLock, make_folder
from server.observability.egress_service import watch_service
from server.observability.metrics import Metrics
from server.printable import unescaped
from server.serving.connections import configure_listener, with_slow_client_limits
from server.serving.egress_app import ServiceState, create_egress_app
from server.settings.egress import EgressServiceSettings
from server.settings.loading import SettingsInvalid, audit_path, variable_name
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.wiring.data_folder import protect_data
from server.wiring.ncbi import build_egress_service

log = logging.getLogger(__name__)
_LOCK: Final = ".egress-service.lock"
_GROUP_MAY_CONNECT: Final = 0o660
_SLOW_READER_S: Final = 30.0
_SLOW_HEAD_S: Final = 10.0


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
        state = ServiceState(ncbi, metrics, key.get_secret_value() if key else "", service.max_waiting)
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
        timeout_graceful_shutdown=math.ceil(service.shutdown_grace_s),
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
