"""Each session prefers one replica, and only the sessions of a lost one move."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from models.engines.base import RemoteOptions
from models.engines.remote_engine.connection import Connection, Reply
from models.engines.remote_engine.replicas import Replica, ReplicaPool, ranked
from models.engines.remote_engine.wire import AddressNotPrivate, Dialect, ReplicaLost
from models.errors import EngineUnavailable

from .conftest import Start

DIALECT = Dialect(model="m", max_model_len=9, block_size=1)
OPTIONS = RemoteOptions(urls=(), probe_every_s=0.1, probe_timeout_s=0.5, wait_s=0.5, start_s=1.0)


def replicas(number: int) -> list[Replica]:
    return [Replica(Connection(f"http://10.0.0.{i}:8000", OPTIONS)) for i in range(number)]


def test_sessions_spread_evenly_and_stay() -> None:
    """4,000 sessions over four replicas: each has its share, and without one only its own move, to all others."""
    four = replicas(4)
    sessions = [f"s{i}" for i in range(4000)]
    chosen = {one: ranked(one, four)[0].url for one in sessions}
    counts = Counter(chosen.values())
    assert min(counts.values()) > 900
    left = [one for one in four if one.url != four[0].url]
    after = {one: ranked(one, left)[0].url for one in sessions}
    moved = [one for one in sessions if after[one] != chosen[one]]

    assert {chosen[one] for one in moved} == {four[0].url}
    assert len(moved) == counts[four[0].url]
    assert min(Counter(after[one] for one in moved).values()) > 250


def test_the_order_of_the_addresses_does_not_matter() -> None:
    """Several servers with the same replicas choose alike."""
    four = replicas(4)
    assert [one.url for one in ranked("s", four)] == [one.url for one in ranked("s", four[::-1])]


async def test_a_router_is_asked_for_its_readiness_and_vllm_for_its_health(start: Start) -> None:
    """The stand-in has no /readiness, as vLLM; a 503 counts from the second time on."""
    stand_in = await start()
    replica = Replica(Connection(stand_in.url, OPTIONS))
    assert await replica.is_healthy(1.0)
    stand_in.behaviour.health = 503
    assert [await replica.is_healthy(1.0) for _ in range(2)] == [True, False]
    stand_in.behaviour.health = 200
    assert await replica.is_healthy(1.0)
    await stand_in.stop()
    assert not await replica.is_healthy(1.0)
    await replica.connection.close()


async def test_a_suspect_is_avoided_until_it_is_found_well(start: Start) -> None:
    """Its sessions go elsewhere meanwhile; where there is no other, they wait for it."""
    stand_ins = [await start(), await start()]

    async def check(_: Connection) -> Dialect:
        return DIALECT

    pool = ReplicaPool([Connection(one.url, OPTIONS) for one in stand_ins], OPTIONS, check)
    await pool.start()
    first = await pool.choose("s")
    assert (await pool.choose("s", {first.url})).url != first.url
    pool.suspect(first)
    assert (await pool.choose("s")).url != first.url
    async with asyncio.timeout(120):
        while (await pool.choose("s")).url != first.url:  # noqa: ASYNC110 - the pool's own state
            await asyncio.sleep(0.02)
    await pool.close()
    with pytest.raises(EngineUnavailable):
        await pool.choose("s")


async def test_who_waits_for_a_lost_replica_is_called(start: Start) -> None:
    """A replica that hangs keeps its connections open."""
    stand_in = await start()

    async def check(_: Connection) -> Dialect:
        if stand_in.behaviour.hangs:
            raise ReplicaLost("hangs")
        return DIALECT

    pool = ReplicaPool([Connection(stand_in.url, OPTIONS)], OPTIONS, check)
    await pool.start()
    called = asyncio.Event()
    (await pool.choose("s")).watchers.add(called.set)
    stand_in.behaviour.hangs = True
    async with asyncio.timeout(120):
        await called.wait()
    with pytest.raises(EngineUnavailable, match=r"no replica answered in 0\.5 s"):
        await pool.choose("s")
    assert pool.seconds_without > 0
    await pool.close()


async def test_a_replica_whose_name_is_not_known_comes_later(start: Start) -> None:
    """The other one is used meanwhile, as with a replica that refuses connections."""
    stand_ins = [await start(), await start()]
    unknown = {stand_ins[0].url}

    async def check(connection: Connection) -> Dialect:
        if connection.url in unknown:
            raise ReplicaLost("ConnectError: the name is not known")
        return DIALECT

    pool = ReplicaPool([Connection(one.url, OPTIONS) for one in stand_ins], OPTIONS, check)
    await pool.start()
    assert {(await pool.choose(f"s{i}")).url for i in range(20)} == {stand_ins[1].url}
    unknown.clear()
    async with asyncio.timeout(120):
        while not all(one.is_up for one in pool.replicas):  # noqa: ASYNC110 - the pool's own state
            await asyncio.sleep(0.02)
    await pool.close()


async def test_the_start_ends_by_name_where_no_replica_is_known() -> None:
    """With the cause for each address."""

    async def check(connection: Connection) -> Dialect:
        raise ReplicaLost("the name is not known")

    pool = ReplicaPool([Connection("http://replica-1:8000", OPTIONS)], OPTIONS, check)
    with pytest.raises(EngineUnavailable, match=r"none of http://replica-1:8000 .* 1 s: the name is not known"):
        await pool.start()
    await pool.close()


async def test_a_public_address_stops_the_start_and_is_not_used_later(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that changes to one while the server runs takes its replica out, and the log says so once."""
    stand_ins = [await start(), await start()]

    async def refused(connection: Connection) -> Dialect:
        raise AddressNotPrivate("model.urls: would send prompts unencrypted to 8.8.8.8")

    async def check(_: Connection) -> Dialect:
        return DIALECT

    pool = ReplicaPool([Connection(one.url, OPTIONS) for one in stand_ins], OPTIONS, refused)
    with pytest.raises(EngineUnavailable, match=r"model\.urls: would send prompts unencrypted"):
        await pool.start()
    await pool.close()
    pool = ReplicaPool([Connection(one.url, OPTIONS) for one in stand_ins], OPTIONS, check)
    await pool.start()
    moved = pool.replicas[0]

    async def get(path: str, timeout_s: float) -> Reply:
        raise AddressNotPrivate("model.urls: would send prompts unencrypted to 8.8.8.8")

    moved.connection.get = get  # type: ignore[method-assign]
    async with asyncio.timeout(120):
        while moved.is_up:  # noqa: ASYNC110 - the pool's own state
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert {(await pool.choose(f"s{i}")).url for i in range(20)} == {stand_ins[1].url}
    assert caplog.text.count("replica refused: model.urls: would send prompts unencrypted") == 1
    await pool.close()
