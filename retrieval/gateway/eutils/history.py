"""Store searches by WebEnv and query key, as Entrez's history server does, in the memory of one gateway."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from retrieval.formats.records import Database
from retrieval.formats.tables import is_number

_MAX_ENVIRONMENTS: Final = 500
_MAX_SEARCHES: Final = 100
_MAX_BYTES: Final = 128 * 2**20
_OF_A_TEXT: Final = 64  # bytes of overhead per string
_TTL_S: Final = 8 * 3600.0


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """Hold a stored search, which is run again when used.

    ``params`` are those of an esearch; ``uids`` are those of an epost.
    """

    db: Database
    params: Mapping[str, str]
    uids: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the approximate size in memory, in bytes."""
        texts = (*self.params.values(), *self.uids)
        return sum(map(len, texts)) + _OF_A_TEXT * (1 + len(texts))


@dataclass(slots=True)
class _Environment:
    used: float
    searches: list[StoredSearch] = field(default_factory=list)
    size: int = 0


class History:
    """Store searches by WebEnv, for concurrent use by many threads.

    An environment expires after eight hours without use. The least recently used ones are evicted when there are too
    many or they hold more than ``max_bytes``; the one that a call has just used stays.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_bytes: int = _MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._total_size = 0
        self._lock = threading.Lock()
        self._environments: OrderedDict[str, _Environment] = OrderedDict()

    def keep(self, environment: str, search: StoredSearch) -> tuple[str, int]:
        """Store a search and return (WebEnv, query key from 1).

        The environment is a new one if the named one is unknown or full.
        """
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or len(known.searches) >= _MAX_SEARCHES or known.size >= self._max_bytes:
                environment, known = f"MCID_{secrets.token_hex(16)}", _Environment(self._clock())
                self._environments[environment] = known
            known.searches.append(search)
            known.size += search.size
            self._total_size += search.size
            self._touch(environment, known)
            self._forget_old()
            return environment, len(known.searches)

    def find(self, environment: str, query_key: str) -> StoredSearch | None:
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or not is_number(query_key, 5):
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
            oldest = next(iter(self._environments.values()))
            fits = len(self._environments) <= _MAX_ENVIRONMENTS and self._total_size <= self._max_bytes
            if now - oldest.used <= _TTL_S and (fits or len(self._environments) == 1):
                return
            self._environments.popitem(last=False)
            self._total_size -= oldest.size
