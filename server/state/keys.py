"""Store API keys in the database and limit their requests and sampled tokens across all of its servers.

A change of keys locks one row, so that changes come one after the other, and is told to the servers (LISTEN, NOTIFY).
Each server follows on a thread with a connection of its own; no request waits for the database to know its key. The
buckets of rates are those of ``server.auth.rate_limits``: one row for a key, locked for the moment of a request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from retrieval.errors import DatabaseUnavailable
from server.auth.authentication import Principal
from server.auth.keys import (
    Edit,
    KeySnapshot,
    KeyStoreError,
    NewKey,
    StoredKey,
    Version,
    changed,
    key_for,
    retained,
    revoking,
)
from server.auth.rate_limits import MINUTE_S, Unit, rate_headers, refusal
from server.errors import RequestError
from server.state.database import Database

if TYPE_CHECKING:
    from psycopg import Connection

    _Connection = Connection[tuple[Any, ...]]

log = logging.getLogger(__name__)
_CHANNEL: Final = "arrowhead_keys"
# A notice can be lost with its connection: the number of changes is read this often in any case.
_LOOK_S: Final = 1.0
_SELECT: Final = "SELECT id, digest, name, created, expires, revoked, scopes FROM arrowhead_keys ORDER BY place"
_NUMBER: Final = "SELECT number FROM arrowhead_key_changes"
_INSERT: Final = """
INSERT INTO arrowhead_keys (id, digest, name, created, expires, scopes) VALUES (%s, %s, %s, %s, %s, %s)
"""
_UPDATE: Final = "UPDATE arrowhead_keys SET name = %s, expires = %s, revoked = %s, scopes = %s WHERE id = %s"
# Of more keys than this, the levels shown in the headers of the longest unused are forgotten.
_MAX_KEYS: Final = 4096
_UNITS: Final[tuple[Unit, Unit]] = ("requests", "tokens")
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


class PostgresKeyStore:
    """Read and change the keys of the database.

    The first ``version`` or ``read`` reads them and starts the thread that follows. A server that has heard nothing of
    the database for ``max_age_s`` accepts no key of it any more, since one of them may have been revoked.
    """

    def __init__(
        self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC), max_age_s: float = 30.0
    ) -> None:
        self._database = database
        self._now = now
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._seen = KeySnapshot((), None)
        self._heard = 0.0
        self._interruptions = 0
        self._follower: threading.Thread | None = None
        self._closing = threading.Event()

    def known(self) -> tuple[StoredKey, ...]:
        with _as_keys(), self._database.connection() as connection:
            return _keys(connection)

    def version(self) -> Version | None:
        return self.read().version

    def read(self) -> KeySnapshot:
        with self._lock:
            if self._follower is None:
                self._begin()
            if time.monotonic() - self._heard > self._max_age_s:
                raise KeyStoreError(f"the database of keys has not answered for {self._max_age_s:g} s")
            return self._seen

    def create(self, new_key: NewKey) -> tuple[str, StoredKey]:
        with self._changing() as (connection, keys):
            secret, key = key_for(new_key, keys, self._now())
            scopes = json.dumps(asdict(key.scopes))
            connection.execute(_INSERT, (key.id, key.digest, key.name, key.created, key.expires, scopes))
            kept = {one.id for one in retained((*keys, key))}
            dropped = [one.id for one in keys if one.id not in kept]
            if dropped:
                connection.execute("DELETE FROM arrowhead_keys WHERE id = ANY(%s)", (dropped,))
        return secret, key

    def change(self, which: str, edit: Edit) -> StoredKey:
        with self._changing() as (connection, keys):
            key = changed(which, keys, edit)
            scopes = json.dumps(asdict(key.scopes))
            connection.execute(_UPDATE, (key.name, key.expires, key.revoked, scopes, key.id))
        return key

    def revoke(self, which: str) -> StoredKey:
        return self.change(which, revoking(self._now()))

    def close(self) -> None:
        with self._lock:
            follower, self._follower = self._follower, None
        if follower is not None:
            self._closing.set()
            follower.join(_LOOK_S * 3)

    @contextmanager
    def _changing(self) -> Iterator[tuple[_Connection, tuple[StoredKey, ...]]]:
        """Yield a connection in a transaction that no other change runs beside, and the keys before the change."""
        with _as_keys(), self._database.connection() as connection, connection.transaction():
            connection.execute("UPDATE arrowhead_key_changes SET number = number + 1")
            yield connection, _keys(connection)
            connection.execute(f"NOTIFY {_CHANNEL}")

    def _begin(self) -> None:
        """Read the keys and start to follow; the caller holds the lock."""
        with _as_keys(), self._database.connection() as connection:
            self._take(connection)
        self._closing = threading.Event()
        self._follower = threading.Thread(target=self._follow, args=(self._closing,), name="keys", daemon=True)
        self._follower.start()

    def _follow(self, closing: threading.Event) -> None:
        while not closing.is_set():
            try:
                with self._database.connection() as connection:
                    connection.execute(f"LISTEN {_CHANNEL}")
                    while not closing.is_set():
                        self._take(connection)
                        for _ in connection.notifies(timeout=_LOOK_S, stop_after=1):
                            pass
            except (DatabaseUnavailable, KeyStoreError) as error:
                log.warning("keys are not followed: %s", error.message)
                # A server that refused the keys meanwhile has to take them again, whether or not one has changed.
                self._interruptions += 1
                closing.wait(_LOOK_S)

    def _take(self, connection: _Connection) -> None:
        """Read the keys if they have changed."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            (number,) = connection.execute(_NUMBER).fetchone() or (0,)
            version = (self._interruptions, number) if number else None
            seen = self._seen if version == self._seen.version else KeySnapshot(_keys(connection), version)
        self._seen, self._heard = seen, time.monotonic()


def _keys(connection: _Connection) -> tuple[StoredKey, ...]:
    names = ("id", "digest", "name", "created", "expires", "revoked", "scopes")
    rows = [dict(zip(names, row, strict=True)) for row in connection.execute(_SELECT).fetchall()]
    try:
        return TypeAdapter(tuple[StoredKey, ...]).validate_python(rows)
    except (RequestError, ValidationError):
        # The validation error is not chained or quoted, as it cites the rows.
        raise KeyStoreError("the table of keys is damaged, or of a later version") from None


@contextmanager
def _as_keys() -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        raise KeyStoreError("the keys cannot be read or written: the database does not answer") from error


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
        except DatabaseUnavailable:
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


def _limits(principal: Principal) -> dict[Unit, int]:
    of = principal.scopes
    both: dict[Unit, int | None] = {"requests": of.requests_per_minute, "tokens": of.tokens_per_minute}
    return {unit: limit for unit, limit in both.items() if limit is not None}
