"""The server is watched: requests wait while it does not answer, and it is checked before it is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from waiting import until

from models.engines.base import RemoteOptions
from models.engines.remote_engine.connection import Connection, Reply
from models.engines.remote_engine.model_server import ModelServer
from models.engines.remote_engine.wire import AddressNotPrivate, Dialect, ReplicaLost
from models.errors import EngineUnavailable

from .conftest import Start

DIALECT = Dialect(model="m", max_model_len=9)
OPTIONS = RemoteOptions(url="http://replica-1:8000", probe_every_s=0.1, probe_timeout_s=0.5, wait_s=0.5, start_s=1.0)
Check = Callable[[Connection], Awaitable[Dialect]]


async def good(_: Connection) -> Dialect:
    return DIALECT


def server_at(url: str, check: Check = good, **changes: float) -> ModelServer:
    options = replace(OPTIONS, url=url, **changes)  # type: ignore[arg-type]  # numbers alone
    return ModelServer(Connection(options), options, check)


async def until_down(server: ModelServer) -> None:
    await until(lambda: server.seconds_without)


async def test_an_unhealthy_server_is_not_asked_and_comes_back(start: Start) -> None:
    """The stand-in has no /readiness, as vLLM; its health counts."""
    stand_in = await start()
    server = server_at(stand_in.url)
    await server.start()
    assert await server.ready() == DIALECT
    stand_in.behaviour.health = 503
    await until_down(server)
    with pytest.raises(EngineUnavailable, match=r"no replica answered in 0\.5 s"):
        await server.ready()
    stand_in.behaviour.health = 200
    await until(lambda: not server.seconds_without)
    await server.close()


async def test_a_suspect_waits_until_it_is_found_well(start: Start) -> None:
    """It is healthy, so it need not be checked again."""
    checks = 0

    async def counted(_: Connection) -> Dialect:
        nonlocal checks
        checks += 1
        return DIALECT

    stand_in = await start()
    server = server_at(stand_in.url, counted, probe_every_s=30.0, wait_s=60.0)
    await server.start()
    server.suspect()
    assert server.seconds_without > 0
    async with asyncio.timeout(20):
        await server.ready()
    assert checks == 1
    await server.close()
    with pytest.raises(EngineUnavailable, match="the engine was stopped"):
        await server.ready()


async def test_a_server_that_was_away_is_checked_again(start: Start) -> None:
    """It may serve another model; one that does is not used."""
    stand_in = await start()
    is_another = False

    async def check(connection: Connection) -> Dialect:
        if is_another:
            raise EngineUnavailable(f"model.url: {connection.url}: another model")
        return DIALECT

    server = server_at(stand_in.url, check)
    await server.start()
    await stand_in.stop()
    await until_down(server)
    is_another = True
    await stand_in.start()
    with pytest.raises(EngineUnavailable, match="no replica answered"):
        await server.ready()
    is_another = False
    await until(lambda: not server.seconds_without)
    await server.close()


async def test_the_start_ends_by_name_where_nothing_answers() -> None:
    """With the cause."""

    async def check(_: Connection) -> Dialect:
        raise ReplicaLost("the name is not known")

    server = server_at("http://replica-1:8000", check)
    with pytest.raises(EngineUnavailable, match=r"replica-1:8000 does not answer after 1 s: the name is not known"):
        await server.start()
    await server.close()


async def test_a_public_address_stops_the_start_and_is_not_used_later(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that changes to one while the server runs takes it out, and the log says so once."""
    stand_in = await start()

    async def refused(_: Connection) -> Dialect:
        raise AddressNotPrivate("model.url: would send prompts unencrypted to 8.8.8.8")

    server = server_at(stand_in.url, refused)
    with pytest.raises(EngineUnavailable, match=r"model\.url: would send prompts unencrypted"):
        await server.start()
    await server.close()
    server = server_at(stand_in.url)
    await server.start()

    async def ask(path: str, timeout_s: float, body: object = None) -> Reply:
        raise AddressNotPrivate("model.url: would send prompts unencrypted to 8.8.8.8")

    server.connection.ask = ask  # type: ignore[method-assign]
    await until_down(server)
    await asyncio.sleep(0.3)
    assert caplog.text.count("model server refused: model.url: would send prompts unencrypted") == 1
    await server.close()
