"""Find stop strings in text that arrives in pieces, and withhold what could still become one.

Owns text only: knows neither tokens nor engines. The result does not depend on how the text was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopScanner:
    """Pass on the text that is fed, up to the first stop string.

    The stop string whose last character comes first wins; of two ending together, the longer one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that no stop string can include any more; after a match, drop everything."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        buffer = self._held + text
        found = self._first_match(buffer)
        if found is not None:
            start, self.matched = found
            self._held = ""
            return buffer[:start]
        keep = self._withheld_length(buffer)
        self._held = buffer[len(buffer) - keep :]
        return buffer[: len(buffer) - keep]

    def flush(self) -> str:
        """Return the withheld rest, when the text ends without a stop string."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, buffer: str) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = buffer.find(stop)
            if start >= 0:
                candidate = (start + len(stop), -len(stop), stop)
                best = candidate if best is None else min(best, candidate)
        if best is None:
            return None
        return best[0] + best[1], best[2]

    def _withheld_length(self, buffer: str) -> int:
        for length in range(min(self._longest - 1, len(buffer)), 0, -1):
            tail = buffer[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0
