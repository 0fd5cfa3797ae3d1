"""Turn what a scenario measured into a verdict against its figure."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

MAX_SILENCE_S: Final = 5.0
MAX_ADDED_MS: Final = 10.0


@dataclass(frozen=True)
class Verdict:
    """The result of one scenario; ``figures`` are what it measured."""

    scenario: str
    is_met: bool
    figures: dict[str, Any]

    def line(self) -> str:
        load = round(os.getloadavg()[0], 1)
        return json.dumps({"scenario": self.scenario, "pass": self.is_met, **self.figures, "load_average": load})


def allowed_requests(per_minute: int, seconds: float) -> range:
    """Return how many requests a full bucket admits in ``seconds``: all that it holds, and what it gains meanwhile."""
    return range(per_minute, per_minute + int(per_minute * seconds / 60) + 1)


def first_out_of_order(numbers: Sequence[int]) -> int | None:
    """Return the first number that does not come after the one before it."""
    return next((b for a, b in pairwise(numbers) if b <= a), None)


def added_ms(remote_s: Sequence[float], in_process_s: Sequence[float]) -> tuple[float, float]:
    """Return the difference of the medians in milliseconds, and their ratio."""
    remote, own = statistics.median(remote_s), statistics.median(in_process_s)
    return 1000 * (remote - own), remote / own
