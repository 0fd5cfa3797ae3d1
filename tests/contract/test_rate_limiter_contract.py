"""Every rate limiter keeps the promises of ``RateLimiter`` in ``server/auth/rate_limits.py``.

To add an implementation, add its name to ``IMPLEMENTATIONS`` and to ``limiter`` how one with full buckets on the given
clock, in seconds, is opened. One whose state is shared between servers needs tests of that in addition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from moved_clock import Clock

from server.auth.authentication import OPERATOR, Principal
from server.auth.keys import Scopes
from server.auth.rate_limits import LocalRateLimiter, RateLimiter
from server.errors import KEY_FULL, RequestError
from server.state.database import Database
from server.state.keys import PostgresRateLimiter

IMPLEMENTATIONS = ("local", "postgres")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(params=IMPLEMENTATIONS)
async def limiter(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[RateLimiter]:
    if request.param == "local":
        yield LocalRateLimiter(clock)
        return
    database = Database(request.getfixturevalue("postgres").new_database())
    limiter = PostgresRateLimiter(database, clock)
    yield limiter
    await limiter.close()
    await database.close()


def key(name: str = "a", requests: int | None = None, tokens: int | None = None) -> Principal:
    return Principal(owner=name * 64, scopes=Scopes(requests_per_minute=requests, tokens_per_minute=tokens))


async def admitted(limiter: RateLimiter, principal: Principal, tries: int) -> int:
    """Return how many of so many requests were admitted."""
    number = 0
    for _ in range(tries):
        try:
            await limiter.take(principal)
        except RequestError:
            continue
        number += 1
    return number


async def test_a_key_may_use_a_minutes_quota_at_once(limiter: RateLimiter) -> None:
    """The next request is refused and told when to return."""
    principal = key(requests=30)
    assert await admitted(limiter, principal, 30) == 30
    with pytest.raises(RequestError, match="30 requests a minute", check=KEY_FULL.is_of) as refused:
        await limiter.take(principal)
    assert refused.value.retry_after_s == 2


async def test_the_bucket_fills_evenly_and_never_beyond_the_quota(limiter: RateLimiter, clock: Clock) -> None:
    """Two seconds give one request of thirty a minute; an hour gives thirty."""
    principal = key(requests=30)
    await admitted(limiter, principal, 30)
    clock.now += 2.01
    assert await admitted(limiter, principal, 5) == 1
    clock.now += 3600
    assert await admitted(limiter, principal, 50) == 30


async def test_a_refused_request_costs_nothing(limiter: RateLimiter, clock: Clock) -> None:
    """A client that repeats too early does not delay its next request."""
    principal = key(requests=30)
    await admitted(limiter, principal, 100)
    clock.now += 2.01
    await limiter.take(principal)


async def test_tokens_are_charged_after_the_answer(limiter: RateLimiter, clock: Clock) -> None:
    """An answer may exceed the quota; the key waits until the bucket holds one token again."""
    principal = key(tokens=600)
    await limiter.take(principal)
    limiter.spend(principal, 1200)
    with pytest.raises(RequestError, match="600 tokens a minute", check=KEY_FULL.is_of) as refused:
        await limiter.take(principal)
    assert refused.value.retry_after_s == 61
    clock.now += 60
    assert await admitted(limiter, principal, 1) == 0
    clock.now += 0.2
    assert await admitted(limiter, principal, 1) == 1


async def test_a_request_without_tokens_left_is_not_counted(limiter: RateLimiter) -> None:
    """The bucket of requests stays as it is where the bucket of tokens refuses."""
    principal = key(requests=10, tokens=600)
    await limiter.take(principal)
    limiter.spend(principal, 600)
    assert await admitted(limiter, principal, 3) == 0
    assert limiter.headers(principal)["x-ratelimit-remaining-requests"] == "9"


async def test_keys_do_not_share_a_bucket(limiter: RateLimiter) -> None:
    """An exhausted key leaves another one its quota."""
    assert await admitted(limiter, key("a", requests=2), 5) == 2
    assert await admitted(limiter, key("b", requests=2), 5) == 2
    limiter.spend(key("c", tokens=10), 100)
    assert await admitted(limiter, key("d", tokens=10), 3) == 3


async def test_a_key_without_limits_is_never_refused(limiter: RateLimiter) -> None:
    """It has no headers either."""
    for principal in (key(), OPERATOR):
        assert await admitted(limiter, principal, 200) == 200
        limiter.spend(principal, 10**9)
        assert await admitted(limiter, principal, 1) == 1
        assert limiter.headers(principal) == {}


async def test_the_headers_describe_both_buckets(limiter: RateLimiter) -> None:
    """The names and the forms of times are OpenAI's; a debt is shown as nothing left."""
    principal = key(requests=30, tokens=600)
    await limiter.take(principal)
    limiter.spend(principal, 900)
    assert limiter.headers(principal) == {
        "x-ratelimit-limit-requests": "30",
        "x-ratelimit-remaining-requests": "29",
        "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m30s",
    }


async def test_refused_requests_are_counted_by_their_bucket(limiter: RateLimiter) -> None:
    """Both counts exist from the start."""
    assert dict(limiter.refused) == {"requests": 0, "tokens": 0}
    await admitted(limiter, key("a", requests=1), 3)
    tokens = key("b", tokens=1)
    await limiter.take(tokens)
    limiter.spend(tokens, 5)
    await admitted(limiter, tokens, 1)
    assert dict(limiter.refused) == {"requests": 2, "tokens": 1}


async def test_concurrent_requests_cannot_exceed_the_quota(limiter: RateLimiter) -> None:
    """Of sixty tasks at the same moment, six are admitted."""
    principal = key(requests=6)
    counts = await asyncio.gather(*(admitted(limiter, principal, 1) for _ in range(60)))
    assert sum(counts) == 6
