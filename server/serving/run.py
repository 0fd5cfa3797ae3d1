"""Implement ``arrowhead serve``: run one process, report loading progress, print its address."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Final

import uvicorn

from models.engines.base import Engine
from server.app import create_app
from server.auth.authentication import access_lines, named_keys
from server.egress.policy import EgressPolicy
from server.printable import unescaped
from server.serving.connections import configure_listener, with_slow_client_limits
from server.settings.loading import SettingsInvalid, namespaces_dir, variable_name
from server.settings.schema import Settings
from server.settings.server import ServerSettings
from server.wiring.bootstrap import Opened, build_services
from server.wiring.data_folder import DataFolder, protect_data
from server.wiring.ncbi import fill_gateway
from server.wiring.services import Services
from server.wiring.state import open_database, open_key_lookup

log = logging.getLogger(__name__)
# Time to send the last chunks of ended answers.
FLUSH_S: Final = 2.0


class DrainingServer(uvicorn.Server):
    """Drain requests before uvicorn's own shutdown.

    ``config`` must allow ``graceful_s`` for that shutdown.
    """

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Schedule the shutdown on the event loop.

        Runs between any two instructions of the main thread, so it does nothing else.
        """
        self._signals += 1
        if self._signals > 2 or self._loop is None:
            os._exit(128 + sig)
        self._loop.call_soon_threadsafe(self._on_signal, sig, self._signals > 1)

    def stop(self, notice_s: float = 0.0) -> None:
        """Begin to drain; the listener closes after ``notice_s`` seconds.

        Does not block; further calls have no effect.
        """
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(notice_s), name="drain")

    def _on_signal(self, sig: int, again: bool) -> None:
        if not again:
            self.stop(self._services.settings.server.drain_notice_s if sig == signal.SIGTERM else 0.0)
            return
        log.warning("told again to stop: ending now")
        self._services.end_answers()
        self.should_exit = True
        assert self._loop is not None
        self._loop.call_later(FLUSH_S, os._exit, 128 + sig)

    async def _drain(self, notice_s: float) -> None:
        services = self._services
        log.info("draining: in_flight=%d waiting=%d", services.in_flight, services.admission.waiting)
        services.drain()
        grace_s = services.settings.server.shutdown_grace_s
        asyncio.get_running_loop().call_later(grace_s, services.end_answers)
        await asyncio.sleep(notice_s)
        self.should_exit = True


def graceful_s(settings: ServerSettings) -> int:
    """Return how long uvicorn must wait for connections, in whole seconds."""
    return math.ceil(settings.shutdown_grace_s + FLUSH_S)


_TICK_S = 0.5
# A forward pass gives the interpreter's lock back at each operation, and waits this long for it each time where another
# thread computes in Python. At the usual 5 ms a question of 9 ms takes a second to encode, at this a tenth of that.
_SWITCH_S = 0.0005
_EGRESS = {
    "off": "nothing leaves this machine",
    "local-first": "calls go out only for what the gateway lacks, as far as their values may",
    "ncbi": "calls go to the configured NCBI addresses, as far as their values may",
}


def run_server(settings: Settings) -> int:
    """Serve until a signal or the loss of the engine, and return the exit status.

    It is 1 where the model could not be loaded or its restarts were exhausted.

    Raises:
        SettingsInvalid: the address cannot be bound, or another server uses the data folder.
        ArrowheadError: another error at start-up.
    """
    sys.setswitchinterval(_SWITCH_S)
    database = open_database(settings)
    key_lookup = open_key_lookup(settings, database)
    protect_data(settings)  # after the check of the key file, which says whether others could write it
    listener = listen(settings.server)
    try:
        folder = DataFolder(namespaces_dir(settings))
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                return runner.run(_serve(settings, Opened(key_lookup, database, folder.name), listener))
        except KeyboardInterrupt:
            return 0
        finally:
            folder.close()
    finally:
        listener.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory, or None, for Python's own loop, where uvloop is not installed.

    uvloop takes less time for each chunk of a stream.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def listen(server: ServerSettings) -> socket.socket:
    """Bind the address before anything is loaded, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        listener = socket.create_server((server.host.strip("[]"), server.port), family=family, backlog=2048)
    except OSError as error:
        name = variable_name("server", "port")
        message = f"{name} (--port): cannot listen on {server.host}:{server.port}: {error.strerror}"
        raise SettingsInvalid(message) from error
    configure_listener(listener, server.slow_client_s)
    return listener


async def _serve(settings: Settings, opened: Opened, listener: socket.socket) -> int:
    services = build_services(settings, opened)
    services.lifecycle.when_loaded(_freeze_heap)
    # Beside the weights; requests wait for both, as a gene that is not there yet would be said not to exist.
    genes = asyncio.create_task(fill_gateway(settings))
    services.lifecycle.when_loaded(lambda _: genes)
    server = DrainingServer(http_config(services), services)
    announcer = asyncio.create_task(_announce(services, address_of(listener)))
    engine_watcher = asyncio.create_task(_end_without_engine(services, server))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in (announcer, engine_watcher, genes):
            task.cancel()
        await asyncio.gather(announcer, engine_watcher, genes, return_exceptions=True)
    return 1 if services.lifecycle.permanently_failed.is_set() else 0


def http_config(services: Services) -> uvicorn.Config:
    """Return the uvicorn configuration that serves ``services``."""
    server = services.settings.server
    config = uvicorn.Config(
        create_app(services),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=graceful_s(server),
    )
    config.load()
    config.http_protocol_class = with_slow_client_limits(
        config.http_protocol_class, server.slow_client_s, server.slow_client_s
    )
    return config


async def _end_without_engine(services: Services, server: DrainingServer) -> None:
    """Stop a process whose engine is lost for good, so that its supervisor can start a new one."""
    await services.lifecycle.permanently_failed.wait()
    # Leave probes time to read the reason from /ready.
    await asyncio.sleep(_TICK_S)
    server.stop()


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _announce(services: Services, address: str) -> None:
    """Print progress on one line of a terminal, then the address, or why there is none."""
    lifecycle, on_terminal = services.lifecycle, sys.stderr.isatty()
    _say(egress_lines(services))
    _say(f"loading {lifecycle.card.name} ...{chr(13) if on_terminal else chr(10)}")
    while lifecycle.state == "loading":
        if on_terminal:
            _say(f"\rloading {lifecycle.card.name} ... {lifecycle.seconds:.0f} s ")
        await asyncio.sleep(_TICK_S)
    if lifecycle.failure is not None:
        _say(f"\n{lifecycle.card.name} could not be loaded: {lifecycle.failure.message}\n")
        if lifecycle.failure.hint:
            _say(f"{lifecycle.failure.hint}\n")
        return
    _say(f"{chr(10) if on_terminal else ''}ready after {lifecycle.seconds:.1f} s: {address}/v1\n")


async def _freeze_heap(_: Engine) -> None:
    """Exclude the loaded model's objects from garbage collection.

    They live as long as the model does, and a full collection that traverses them stops every stream for half a second
    with vLLM and torch in the process. The objects of a replaced engine are collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def egress_lines(services: Services) -> str:
    """Return lines on the egress mode, what may leave, the key ids, and who may send requests."""
    policy = EgressPolicy.of(services.settings.egress)
    lines = [f"egress {policy.mode}: {_EGRESS[policy.mode]}"]
    if policy.mode != "off":
        if service := services.settings.egress.service_host:
            lines.append(f"calls to NCBI go through the egress service {service}")
        lines.append(f"may leave ({policy.profile}): {', '.join(policy.allowed) or 'nothing'}")
    key_lookup = services.key_lookup
    policy = replace(policy, mode_of_key=key_lookup.mode_of)
    lines += [f"keys: {key_summary}"] if (key_summary := named_keys(key_lookup, policy.ceiling)) else []
    lines += access_lines(services.settings, key_lookup)
    lines += [] if services.first_key is None else [services.first_key.invitation]
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    stream = unescaped(sys.stderr)
    stream.write(text)
    stream.flush()
