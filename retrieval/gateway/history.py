"""Entrez's history: searches kept on the server under a WebEnv, each with its query key. In memory, bounded."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from retrieval.gateway.records import Database

_MAX_ENVIRONMENTS: Final = 500
_MAX_SEARCHES: Final = 100
_TTL_S: Final = 8 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """``params`` of the esearch that made it, or the uids an epost left in ``uids``: it is run again when used."""

    db: Database
    params: Mapping[str, str]
    uids: tuple[str, ...] = ()


@dataclass(slots=True)
class _Environment:
    used: float
    searches: list[KeptSearch] = field(default_factory=list)


class History:
    """Safe from many threads. An environment unused for eight hours, or the longest unused of too many, is gone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._environments: OrderedDict[str, _Environment] = OrderedDict()

    def keep(self, environment: str, search: KeptSearch) -> tuple[str, int]:
        """(WebEnv, query key from 1); a new environment where the one named is unknown, or full."""
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or len(known.searches) >= _MAX_SEARCHES:
                environment, known = f"MCID_{secrets.token_hex(16)}", _Environment(self._clock())
                self._environments[environment] = known
            known.searches.append(search)
            self._touch(environment, known)
            return environment, len(known.searches)

    def find(self, environment: str, query_key: str) -> KeptSearch | None:
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or not (query_key.isascii() and query_key.isdigit() and len(query_key) < 6):
                return None
            self._touch(environment, known)
            number = int(query_key)
            return known.searches[number - 1] if 0 < number <= len(known.searches) else None

    def _touch(self, environment: str, known: _Environment) -> None:
        known.used = self._clock()
        self._environments.move_to_end(environment)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._environments:
            _, oldest = next(iter(self._environments.items()))
            if len(self._environments) <= _MAX_ENVIRONMENTS and now - oldest.used <= _TTL_S:
                return
            self._environments.popitem(last=False)
