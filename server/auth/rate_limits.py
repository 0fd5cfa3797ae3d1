"""Limit requests and sampled tokens per minute and key, with two token buckets that fill evenly.

A bucket holds the quota of one minute, so a key that was idle may spend that much at once. Tokens are known only when
an answer has ended: the bucket may then be negative, and requests are refused until it holds at least one token again.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

from server.auth.authentication import Principal
from server.errors import KEY_FULL, RequestError

MINUTE_S: Final = 60.0
_MAX_BUCKETS: Final = 4096
Unit = Literal["requests", "tokens"]


class RateLimiter(Protocol):
    """Apply the rate limits of keys; a key without limits is never refused and costs nothing.

    Called by the tasks of one event loop. Servers that share their state share the buckets of a key.
    """

    @property
    def refused(self) -> Mapping[Unit, int]:
        """Return the number of requests that this process refused, by the bucket that was empty."""

    async def take(self, principal: Principal) -> None:
        """Count one request.

        The check and the count are one step: of concurrent requests, as many are admitted as the bucket holds.

        Raises:
            QUEUE_FULL: a bucket is empty; the request is not counted.
        """

    def spend(self, principal: Principal, tokens: int) -> None:
        """Charge the sampled tokens of an ended answer.

        Returns at once, as it is called where an answer is closed and nothing may be awaited. A limiter with its state
        elsewhere sends the charge later, at the latest with the key's next ``take`` in this process.
        """

    def headers(self, principal: Principal) -> dict[str, str]:
        """Return the rate-limit headers as OpenAI names them; ``reset`` is the time until the bucket is full.

        Returns at once. A limiter with its state elsewhere computes them from the reply to this process' last ``take``.
        """


class _Bucket:
    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self.level = float(per_minute)
        self._at = now

    def fill(self, now: float) -> None:
        self.level = min(float(self.per_minute), self.level + (now - self._at) * self.per_minute / MINUTE_S)
        self._at = now


class LocalRateLimiter:
    """Apply the rate limits within one process; not thread-safe.

    The state is in memory: after a restart, all buckets are full. Of more than 4,096 buckets, the longest unused are
    dropped.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, Unit], _Bucket] = OrderedDict()
        self.refused: dict[Unit, int] = {"requests": 0, "tokens": 0}

    async def take(self, principal: Principal) -> None:
        # Nothing is awaited between check and count, so no other task comes in between.
        buckets = self._of(principal)
        for unit, bucket in buckets.items():
            if bucket.level < 1:
                self.refused[unit] += 1
                raise refusal(unit, bucket.per_minute, bucket.level)
        if (requests := buckets.get("requests")) is not None:
            requests.level -= 1

    def spend(self, principal: Principal, tokens: int) -> None:
        if (bucket := self._of(principal).get("tokens")) is not None:
            bucket.level -= tokens

    def headers(self, principal: Principal) -> dict[str, str]:
        return rate_headers({unit: (bucket.per_minute, bucket.level) for unit, bucket in self._of(principal).items()})

    def _of(self, principal: Principal) -> Mapping[Unit, _Bucket]:
        limits: dict[Unit, int | None] = {
            "requests": principal.scopes.requests_per_minute,
            "tokens": principal.scopes.tokens_per_minute,
        }
        if not any(limits.values()):
            return {}
        now = self._clock()
        buckets: dict[Unit, _Bucket] = {}
        for unit, limit in limits.items():
            if limit is not None:
                buckets[unit] = self._buckets.setdefault((principal.owner, unit), _Bucket(limit, now))
                buckets[unit].fill(now)
                self._buckets.move_to_end((principal.owner, unit))
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return buckets


def refusal(unit: Unit, per_minute: int, level: float) -> RequestError:
    """Return the error of a request that finds less than one in a bucket at ``level``."""
    wait = _seconds(per_minute, level, 1)
    message = f"this key has {per_minute} {unit} a minute; the next in {_span(wait)}"
    return RequestError(message, KEY_FULL, retry_after_s=max(1, math.ceil(wait)))


def rate_headers(buckets: Mapping[Unit, tuple[int, float]]) -> dict[str, str]:
    """Return the headers of buckets, given as (quota of a minute, level)."""
    headers: dict[str, str] = {}
    for unit, (per_minute, level) in buckets.items():
        headers[f"x-ratelimit-limit-{unit}"] = str(per_minute)
        headers[f"x-ratelimit-remaining-{unit}"] = str(max(0, math.floor(level)))
        headers[f"x-ratelimit-reset-{unit}"] = _span(_seconds(per_minute, level, per_minute))
    return headers


def _seconds(per_minute: int, level: float, requested: float) -> float:
    return max(0.0, requested - level) * MINUTE_S / per_minute


def _span(seconds: float) -> str:
    """Format a duration as 250ms, 7s or 1m30s, rounded up."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
