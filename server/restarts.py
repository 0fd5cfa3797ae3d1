"""How often, and how soon, a dead engine is brought back. Knows no engine and no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

MAX_DELAY_S: Final = 60.0


@dataclass(slots=True)
class Restarts:
    """At most ``tries`` within ``window_s`` seconds; 0 is none at all. The first comes after ``backoff_s``, each
    further one of the window after twice the time of the one before, up to ``MAX_DELAY_S``."""

    tries: int = 3
    window_s: float = 600.0
    backoff_s: float = 1.0
    total: int = 0
    _begun: deque[float] = field(default_factory=deque)

    def next_delay(self, now: float) -> float | None:
        """Counts a try. None where there is none left; ``now`` is of any clock that only goes on."""
        while self._begun and now - self._begun[0] > self.window_s:
            self._begun.popleft()
        if len(self._begun) >= self.tries:
            return None
        delay = min(self.backoff_s * 2 ** len(self._begun), MAX_DELAY_S)
        self._begun.append(now)
        self.total += 1
        return float(delay)
