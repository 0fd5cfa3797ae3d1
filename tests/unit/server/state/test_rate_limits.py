"""Rate limits of one database: exact over several servers, and closed while it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.auth.authentication import Principal
from server.auth.keys import Scopes
from server.errors import RequestError
from server.state.database import Database
from server.state.keys import PostgresRateLimiter

if TYPE_CHECKING:
    from postgres_server import Postgres


class Server:
    """Stand for one server: a limiter with a pool of connections of its own."""

    def __init__(self, url: str) -> None:
        self.database = Database(url, timeout_s=2)
        self.rates = PostgresRateLimiter(self.database)

    async def admits(self, principal: Principal) -> bool:
        try:
            await self.rates.take(principal)
        except RequestError:
            return False
        return True

    async def close(self) -> None:
        await self.rates.close()
        await self.database.close()


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest_asyncio.fixture
async def servers(url: str) -> AsyncIterator[list[Server]]:
    servers = [Server(url) for _ in range(4)]
    yield servers
    for server in servers:
        await server.close()


async def answering(server: Server) -> None:
    """Wait until the server has a connection again."""
    for _ in range(1200):
        try:
            async with server.database.pooled():
                return
        except DatabaseUnavailable:
            await asyncio.sleep(0.1)
    raise AssertionError("no connection")


def key(requests: int | None = None, tokens: int | None = None) -> Principal:
    return Principal(owner="a" * 64, scopes=Scopes(requests_per_minute=requests, tokens_per_minute=tokens))


async def test_servers_share_a_bucket_exactly(servers: list[Server]) -> None:
    """Of eighty requests at once to four servers, six are admitted."""
    principal = key(requests=6)
    admitted = await asyncio.gather(*(server.admits(principal) for server in servers for _ in range(20)))
    assert sum(admitted) == 6
    assert sum(server.rates.refused["requests"] for server in servers) == 74


async def test_tokens_that_one_server_sampled_count_at_the_others(servers: list[Server]) -> None:
    """The charge is sent without a further request of the key."""
    principal = key(tokens=100)
    assert await servers[0].admits(principal)
    servers[0].rates.spend(principal, 500)
    await servers[0].rates.close()
    assert not await servers[1].admits(principal)


async def test_a_dead_database_admits_no_limited_key(servers: list[Server], postgres: Postgres, url: str) -> None:
    """A key without limits goes on; what was sampled meanwhile is charged when the database is back."""
    server, principal = servers[0], key(requests=50, tokens=100)
    assert await server.admits(principal)
    with postgres.unreachable(url):
        with pytest.raises(DatabaseUnavailable, check=STATE_UNAVAILABLE.is_of):
            await server.rates.take(principal)
        await server.rates.take(key())
        server.rates.spend(principal, 500)
        await server.rates.close()
    await answering(server)
    assert not await server.admits(principal)


async def test_headers_follow_without_asking_the_database(servers: list[Server], postgres: Postgres, url: str) -> None:
    """They are those of this server's last request, less what it sampled since."""
    server, principal = servers[0], key(requests=30, tokens=600)
    assert server.rates.headers(principal)["x-ratelimit-remaining-tokens"] == "600"
    assert await server.admits(principal)
    with postgres.unreachable(url):
        server.rates.spend(principal, 400)
        headers = server.rates.headers(principal)
        await server.rates.close()
    assert (headers["x-ratelimit-remaining-requests"], headers["x-ratelimit-remaining-tokens"]) == ("29", "200")
