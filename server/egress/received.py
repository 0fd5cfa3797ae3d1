"""Remember which BLAST request ids NCBI gave to this server, for which key."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

# NCBI keeps results for about 36 hours; the client uses a request id for 24.
LIFETIME_S: Final = 24 * 3600.0
_MAX_REMEMBERED: Final = 2000


class ReceivedRequestIds:
    """Hold at most 2,000 request ids for 24 hours each, the newest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def add(self, key_id: str, rid: str) -> None:
        self._until[key_id, rid] = self._clock() + LIFETIME_S
        self._until.move_to_end((key_id, rid))
        while len(self._until) > _MAX_REMEMBERED:
            self._until.popitem(last=False)

    def has(self, key_id: str, rid: str) -> bool:
        return self._clock() < self._until.get((key_id, rid), float("-inf"))
