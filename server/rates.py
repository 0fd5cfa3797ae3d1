"""Requests and sampled tokens of a key by the minute: two buckets that fill evenly. Pure but for its clock.

A bucket holds a minute's worth, so a key that has been quiet may send that much at once. Tokens are known only when an
answer has ended: its bucket can then be in debt, and the next request waits until that is paid.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Literal

from server.errors import RateExceeded
from server.grants import Grant

_MINUTE_S: Final = 60.0
_MAX_BUCKETS: Final = 4096
Unit = Literal["requests", "tokens"]


class _Bucket:
    def __init__(self, per_minute: int, now: float) -> None:
        self.per_minute = per_minute
        self.level = float(per_minute)
        self._at = now

    def fill(self, now: float) -> None:
        self.level = min(float(self.per_minute), self.level + (now - self._at) * self.per_minute / _MINUTE_S)
        self._at = now

    def seconds_to(self, level: float) -> float:
        return max(0.0, level - self.level) * _MINUTE_S / self.per_minute


class Rates:
    """For one thread. In memory: a server that is started anew has full buckets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, Unit], _Bucket] = OrderedDict()
        # Requests since the start, by what there was none left of.
        self.refused: dict[Unit, int] = {"requests": 0, "tokens": 0}

    def take(self, grant: Grant) -> None:
        """One request. Raises RateExceeded, and takes nothing."""
        buckets = self._of(grant)
        for unit, bucket in buckets.items():
            if bucket.level < 1:
                self.refused[unit] += 1
                wait = bucket.seconds_to(1)
                message = f"this key has {bucket.per_minute} {unit} a minute; the next in {_span(wait)}"
                raise RateExceeded(message, retry_after_s=max(1, math.ceil(wait)))
        if (requests := buckets.get("requests")) is not None:
            requests.level -= 1

    def spend(self, grant: Grant, tokens: int) -> None:
        """What an answer has cost."""
        if (bucket := self._of(grant).get("tokens")) is not None:
            bucket.level -= tokens

    def headers(self, grant: Grant) -> dict[str, str]:
        """As OpenAI names them. ``reset``: when the whole minute's worth is there again."""
        told: dict[str, str] = {}
        for unit, bucket in self._of(grant).items():
            told[f"x-ratelimit-limit-{unit}"] = str(bucket.per_minute)
            told[f"x-ratelimit-remaining-{unit}"] = str(max(0, math.floor(bucket.level)))
            told[f"x-ratelimit-reset-{unit}"] = _span(bucket.seconds_to(bucket.per_minute))
        return told

    def _of(self, grant: Grant) -> Mapping[Unit, _Bucket]:
        limits: dict[Unit, int | None] = {
            "requests": grant.scopes.requests_per_minute,
            "tokens": grant.scopes.tokens_per_minute,
        }
        if not any(limits.values()):
            return {}
        now = self._clock()
        found: dict[Unit, _Bucket] = {}
        for unit, limit in limits.items():
            if limit is not None:
                found[unit] = self._buckets.setdefault((grant.owner, unit), _Bucket(limit, now))
                found[unit].fill(now)
                self._buckets.move_to_end((grant.owner, unit))
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return found


def _span(seconds: float) -> str:
    """As 250ms, 7s or 1m30s, rounded up."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
