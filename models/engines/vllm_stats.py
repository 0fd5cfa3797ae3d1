"""Store the last statistics of vLLM's scheduler.

Reads its records by attribute and imports none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from models.types import EngineStats


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Hold the scheduler's statistics after one step.

    ``waiting`` counts requests that are not admitted, for lack of memory or of a slot, or because their grammar is
    still being compiled. ``kv_cache_used`` is the share of the blocks in use by sequences; a prefix that no sequence
    uses counts as free.
    """

    waiting: int
    kv_cache_used: float


class SchedulerView:
    """Store the statistics of the last step alone.

    Written and read on one event loop. The engine's process, which makes the numbers, reports steps only while it runs
    any.
    """

    def __init__(self) -> None:
        self._last: Scheduled | None = None

    def tell(self, stats: Any) -> None:
        """Store vLLM's ``SchedulerStats`` of a step."""
        waiting = stats.num_waiting_reqs + stats.num_skipped_waiting_reqs
        self._last = Scheduled(waiting=int(waiting), kv_cache_used=float(stats.kv_cache_usage))

    def forget(self) -> None:
        """Clear the statistics, when the engine has ended."""
        self._last = None

    def over(self, counted: EngineStats) -> EngineStats:
        """Combine ``counted``, of all open requests, with the scheduler's own count of waiting requests and memory.

        A request that has not reached the scheduler yet counts as running.
        """
        last, num_open = self._last, counted.running + counted.waiting
        if last is None:
            return counted
        if not num_open:
            # Aborted requests leave without a step that would report the freed memory.
            return replace(counted, kv_cache_used=0.0)
        waiting = min(last.waiting, num_open)
        return replace(counted, running=num_open - waiting, waiting=waiting, kv_cache_used=last.kv_cache_used)
