"""The server of ``arrowhead serve`` in a thread of the tests' own process: real sockets, no start of a process.

For tests that speak HTTP and look at replies alone; those of signals, kills, logs and files take ``server_process``.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import uvicorn
import uvloop
from own_folders import models_folder, own_environment
from server_process import Served, own_data_folders

from server.serving.run import DrainingServer, address_of, http_config, listen
from server.settings.loading import load_settings, namespaces_dir
from server.settings.schema import Settings
from server.wiring.bootstrap import Opened, build_services
from server.wiring.data_folder import DataFolder
from server.wiring.services import Services
from server.wiring.state import open_database, open_key_lookup

_PATIENCE_S = 240.0


@contextmanager
def host(environment: Mapping[str, str]) -> Iterator[Served]:
    """Serve with these settings on a free port until the block ends."""
    with tempfile.TemporaryDirectory(prefix="arrowhead-hosted-") as own:
        clean = own_environment(Path(own)) | {"ARROWHEAD_MODEL__DATA_DIR": str(models_folder())}
        variables = {"ARROWHEAD_SERVER__PORT": "0"} | dict(environment) | own_data_folders(environment, own)
        with _Host(clean | variables) as url:
            yield Served(url)


class _Server(DrainingServer):
    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config, services)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class _Host:
    """Run the server's event loop in a thread, from its first request to the close of its services."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._up: Future[tuple[str, DrainingServer, asyncio.AbstractEventLoop]] = Future()
        self._thread = threading.Thread(target=self._run, name="hosted server", daemon=True)

    def __enter__(self) -> str:
        # Settings and folders are read from the environment while the services are built, and not later.
        with mock.patch.dict("os.environ", self._environment, clear=True):
            self._thread.start()
            url, self._server, self._loop = self._up.result(_PATIENCE_S)
        return url

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive(), "the hosted server did not end"

    def _end(self) -> None:
        self._server.stop()
        self._server.should_exit = self._server.force_exit = True

    def _run(self) -> None:
        try:
            settings = load_settings()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(settings))
        except BaseException as error:
            if self._up.done():
                raise
            self._up.set_exception(error)

    async def _serve(self, settings: Settings) -> None:
        database = open_database(settings)
        listener = listen(settings.server)
        folder = DataFolder(namespaces_dir(settings))
        try:
            opened = Opened(open_key_lookup(settings, database), database, folder.name)
            services = build_services(settings, opened)
            server = _Server(http_config(services), services)
            serving = asyncio.create_task(server.serve([listener]))
            await asyncio.wait({serving, asyncio.create_task(server.up.wait())}, return_when=asyncio.FIRST_COMPLETED)
            await services.loaded()
            if services.lifecycle.failure is not None:
                raise services.lifecycle.failure
            self._up.set_result((address_of(listener), server, asyncio.get_running_loop()))
            await serving
        finally:
            folder.close()
            listener.close()
