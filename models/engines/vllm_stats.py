"""What vLLM's scheduler last said of itself. Reads its records by attribute and imports none of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from models.types import EngineStats


@dataclass(frozen=True, slots=True)
class Scheduled:
    """After one step. ``waiting``: not taken in, for want of memory or of a place, or held back (a grammar is still
    compiled). ``kv_cache_used``: share of the blocks that sequences hold; a prefix that nobody holds counts as free."""

    waiting: int
    kv_cache_used: float


class SchedulerView:
    """Keeps the last step alone. Told and asked on one event loop; in the engine's process, where the numbers are made,
    steps are told only while there are any."""

    def __init__(self) -> None:
        self._last: Scheduled | None = None

    def tell(self, stats: Any) -> None:
        """``stats``: vLLM's ``SchedulerStats`` of a step."""
        waiting = stats.num_waiting_reqs + stats.num_skipped_waiting_reqs
        self._last = Scheduled(waiting=int(waiting), kv_cache_used=float(stats.kv_cache_usage))

    def forget(self) -> None:
        """Of an engine that has ended."""
        self._last = None

    def over(self, counted: EngineStats) -> EngineStats:
        """``counted`` of all that is open, with what the scheduler knows better: who waits, and the memory. A request
        that is on its way to it counts as running."""
        last, num_open = self._last, counted.running + counted.waiting
        if last is None:
            return counted
        if not num_open:
            # Who was given up left without a step that would tell.
            return replace(counted, kv_cache_used=0.0)
        waiting = min(last.waiting, num_open)
        return replace(counted, running=num_open - waiting, waiting=waiting, kv_cache_used=last.kv_cache_used)
