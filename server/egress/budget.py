"""Bound how many characters of recognized values may leave for one answer, and for one key in an hour and a day.

What single calls may carry is little, but not nothing; the budget bounds what many calls carry together. Counts are in
memory, and start from zero with the process.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

BudgetName = Literal["answer_budget", "hour_budget", "day_budget"]
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_MAX_ANSWERS: Final = 65_536
_MAX_KEYS: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """Hold the characters that may leave."""

    per_answer: int
    per_hour: int
    per_day: int


@dataclass(slots=True)
class _Spent:
    """Hold the characters of one key by the minute in which they left, the oldest first."""

    minutes: deque[tuple[float, int]] = field(default_factory=deque)

    def within(self, since: float) -> int:
        return sum(number for at, number in self.minutes if at > since)

    def add(self, now: float, characters: int) -> None:
        at = now - now % _MINUTE
        if self.minutes and self.minutes[-1][0] == at:
            characters += self.minutes.pop()[1]
        self.minutes.append((at, characters))

    def drop(self, until: float) -> None:
        while self.minutes and self.minutes[0][0] <= until:
            self.minutes.popleft()


class Budget:
    """Count what leaves; used on the event loop alone."""

    def __init__(self, limits: BudgetLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._answers: OrderedDict[str, int] = OrderedDict()
        self._keys: OrderedDict[str, _Spent] = OrderedDict()

    def spend(self, request_id: str, key_id: str, characters: int) -> BudgetName | None:
        """Count the characters of a call that is about to leave, or return the budget that they exceed.

        What exceeds a budget is not counted.
        """
        now = self._clock()
        spent = self._spent_by(key_id, now)
        if spent is None:
            return "day_budget"
        if self._answers.get(request_id, 0) + characters > self.limits.per_answer:
            return "answer_budget"
        # A minute counts until it has passed as a whole.
        if spent.within(now - _HOUR - _MINUTE) + characters > self.limits.per_hour:
            return "hour_budget"
        if spent.within(now - _DAY - _MINUTE) + characters > self.limits.per_day:
            return "day_budget"
        spent.add(now, characters)
        self._answers[request_id] = self._answers.get(request_id, 0) + characters
        while len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
        return None

    def forget(self, request_id: str) -> None:
        """Discard the count of an answer that has ended; its key's stands."""
        self._answers.pop(request_id, None)

    def _spent_by(self, key_id: str, now: float) -> _Spent | None:
        """Return the count of a key; None if there are too many keys, as forgetting one would renew its budget."""
        spent = self._keys.setdefault(key_id, _Spent())
        self._keys.move_to_end(key_id)
        spent.drop(now - _DAY - _MINUTE)
        while len(self._keys) > _MAX_KEYS:
            oldest = next(iter(self._keys))
            self._keys[oldest].drop(now - _DAY - _MINUTE)
            if self._keys[oldest].minutes:
                del self._keys[key_id]
                return None
            del self._keys[oldest]
        return spent
