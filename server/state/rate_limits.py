"""Limit requests and sampled tokens of keys across all servers of one database.

The buckets are those of ``server.auth.rate_limits``: one row for a key, locked for the moment of a request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from server.auth.authentication import Principal
from server.auth.rate_limits import MINUTE_S, Unit, rate_headers, refusal
from server.errors import StateUnavailable
from server.state.database import Database

log = logging.getLogger(__name__)
# Of more keys than this, the levels shown in the headers of the longest unused are forgotten.
_MAX_KEYS: Final = 4096
_FILL: Final = """
INSERT INTO arrowhead_buckets AS b (owner, requests, tokens, filled)
VALUES (
    %(owner)s,
    %(requests)s,
    %(tokens)s::float8 - %(spent)s,
    coalesce(%(now)s, extract(epoch FROM clock_timestamp()))
)
ON CONFLICT (owner) DO UPDATE SET
    requests = least(excluded.requests, coalesce(b.requests, excluded.requests)
        + greatest(0, excluded.filled - b.filled) * excluded.requests / 60),
    tokens = least(%(tokens)s::float8, coalesce(b.tokens, %(tokens)s::float8)
        + greatest(0, excluded.filled - b.filled) * %(tokens)s::float8 / 60) - %(spent)s,
    filled = greatest(excluded.filled, b.filled)
RETURNING requests, tokens
"""
_COUNT: Final = "UPDATE arrowhead_buckets SET requests = requests - 1 WHERE owner = %(owner)s"


@dataclass(slots=True)
class _Seen:
    """Hold the levels of a key as this process saw them last, at ``at`` of its own clock."""

    levels: dict[Unit, float]
    limits: dict[Unit, int]
    at: float

    def now(self, now: float) -> dict[Unit, float]:
        gone = max(0.0, now - self.at)
        return {unit: min(limit, self.levels[unit] + gone * limit / MINUTE_S) for unit, limit in self.limits.items()}


class PostgresRateLimiter:
    """Apply the rate limits of keys over all servers of the database.

    ``clock`` None takes the time of the database, so that the servers' clocks need not agree. A key with limits is
    refused while the database does not answer; what answers cost meanwhile is charged once it does.
    """

    def __init__(self, database: Database, clock: Callable[[], float] | None = None) -> None:
        self._database = database
        self._clock = clock
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._unpaid: dict[str, tuple[Principal, int]] = {}
        self._payments: set[asyncio.Task[None]] = set()
        self.refused: dict[Unit, int] = {"requests": 0, "tokens": 0}

    async def take(self, principal: Principal) -> None:
        limits = _limits(principal)
        if not limits:
            return
        levels = await self._fill(principal, count=True)
        for unit, limit in limits.items():
            if levels[unit] < 1:
                self.refused[unit] += 1
                raise refusal(unit, limit, levels[unit])

    def spend(self, principal: Principal, tokens: int) -> None:
        if principal.scopes.tokens_per_minute is None:
            return
        owner = principal.owner
        self._unpaid[owner] = (principal, self._unpaid.get(owner, (principal, 0))[1] + tokens)
        if (seen := self._seen.get(owner)) is not None and "tokens" in seen.levels:
            seen.levels = {unit: level - tokens * (unit == "tokens") for unit, level in seen.now(self._local()).items()}
            seen.at = self._local()
        task = asyncio.get_running_loop().create_task(self._pay(principal))
        self._payments.add(task)
        task.add_done_callback(self._payments.discard)

    def headers(self, principal: Principal) -> dict[str, str]:
        limits = _limits(principal)
        if not limits:
            return {}
        seen = self._seen.get(principal.owner)
        levels = seen.now(self._local()) if seen else {unit: float(limit) for unit, limit in limits.items()}
        return rate_headers({unit: (limit, levels.get(unit, float(limit))) for unit, limit in limits.items()})

    async def close(self) -> None:
        """Charge what is not yet charged; what the database does not take now is lost."""
        await asyncio.gather(*self._payments)

    async def _pay(self, principal: Principal) -> None:
        """Charge the answers of a key; a ``take`` may have done so before."""
        if principal.owner not in self._unpaid:
            return
        try:
            await self._fill(principal, count=False)
        except StateUnavailable:
            log.warning("tokens of a key are charged later")

    async def _fill(self, principal: Principal, *, count: bool) -> dict[Unit, float]:
        """Fill the buckets up to now, charge what is unpaid, count a request where the levels admit one."""
        limits, owner = _limits(principal), principal.owner
        _, spent = self._unpaid.pop(owner, (principal, 0))
        values: dict[str, Any] = {
            "owner": owner,
            "requests": limits.get("requests"),
            "tokens": limits.get("tokens"),
            "spent": spent,
            "now": self._clock() if self._clock else None,
        }
        try:
            async with self._database.pooled() as connection:
                row = await (await connection.execute(_FILL, values)).fetchone()
                assert row is not None
                levels: dict[Unit, float] = {
                    unit: level for unit, level in zip(_UNITS, row, strict=True) if unit in limits
                }
                is_admitted = all(level >= 1 for level in levels.values())
                if count and is_admitted and "requests" in limits:
                    await connection.execute(_COUNT, values)
        except BaseException:
            if spent:
                self._unpaid[owner] = (principal, self._unpaid.get(owner, (principal, 0))[1] + spent)
            raise
        left = dict(levels)
        if count and is_admitted and "requests" in limits:
            left["requests"] -= 1
        self._remember(owner, _Seen(left, limits, self._local()))
        return levels

    def _remember(self, owner: str, seen: _Seen) -> None:
        if (unpaid := self._unpaid.get(owner)) is not None and "tokens" in seen.levels:
            seen.levels["tokens"] -= unpaid[1]  # spent while the database was asked
        self._seen[owner] = seen
        self._seen.move_to_end(owner)
        while len(self._seen) > _MAX_KEYS:
            self._seen.popitem(last=False)

    def _local(self) -> float:
        return self._clock() if self._clock else time.monotonic()


_UNITS: Final[tuple[Unit, Unit]] = ("requests", "tokens")


def _limits(principal: Principal) -> dict[Unit, int]:
    of = principal.scopes
    both: dict[Unit, int | None] = {"requests": of.requests_per_minute, "tokens": of.tokens_per_minute}
    return {unit: limit for unit, limit in both.items() if limit is not None}
