"""Decide how often and how soon a failed engine is restarted; knows no engine and no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

MAX_DELAY_S: Final = 60.0


@dataclass(slots=True)
class Restarts:
    """Limit the restarts of an engine, with exponential backoff.

    At most ``tries`` within ``window_s`` seconds; 0 disables restarts. The first one waits ``backoff_s`` seconds, each
    further one of the window twice as long as the one before, up to ``MAX_DELAY_S``.
    """

    tries: int = 3
    window_s: float = 600.0
    backoff_s: float = 1.0
    total: int = 0
    _begun: deque[float] = field(default_factory=deque)

    def next_delay(self, now: float) -> float | None:
        """Count a restart and return its delay in seconds, None if none is left.

        ``now``: seconds of any monotonic clock.
        """
        while self._begun and now - self._begun[0] > self.window_s:
            self._begun.popleft()
        if len(self._begun) >= self.tries:
            return None
        delay = min(self.backoff_s * 2 ** len(self._begun), MAX_DELAY_S)
        self._begun.append(now)
        self.total += 1
        return float(delay)
