"""Tell from the token ids of a text when a model repeats itself without end. Pure.

Three signs, each over many tokens, since tables, sequences and lists repeat too:

- a loop: the text is periodic, with at most 64 tokens a turn;
- a near loop: turns that differ in a number or a word;
- nothing new: of the last sequences of 16 tokens, hardly any stood fewer than twice in the text before.

What stands in the prompt as long as it is repeated is a copy, and no loop.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Final

MAX_PERIOD: Final = 64
_LEAST_TURNS: Final = 4
# A ruler of a wide table and a CAG repeat of 36 to 39 turns, in tokens of one character, are shorter.
_LEAST_LOOP: Final = 128
# Windows of tokens, and how many of them at least equal the token one period before. Decimals of a list,
# "0.04, 0.03, ", differ in one of six tokens at most, so short windows have to be closer.
_NEAR: Final = ((384, 346), (512, 420))
_NGRAM: Final = 16
_NEW_WINDOW: Final = 256
_LEAST_NEW: Final = 26
# An answer that repeats a draft of it word by word is no loop: three turns are.
_KNOWN_AFTER: Final = 2
# What stood longer ago counts as new again, which bounds the memory.
_REMEMBERED: Final = 8192
# More than the largest window.
_MOST_CONTINUED: Final = 1024


class _NearLoop:
    """Count, for each period, the tokens of the last ``window`` that equal the one a period before."""

    def __init__(self, window: int, least: int) -> None:
        self.window = window
        self._least = least
        self._equal = [0] * (MAX_PERIOD + 1)
        self._changes = [0] * (MAX_PERIOD + 1)
        self._last: deque[tuple[tuple[int, ...], tuple[int, ...]]] = deque()

    def add(self, periods: tuple[int, ...], changed: tuple[int, ...]) -> bool:
        """Return whether the window is a near loop; ``changed`` are the periods with another token just before."""
        self._count(periods, changed, 1)
        self._last.append((periods, changed))
        if len(self._last) > self.window:
            self._count(*self._last.popleft(), -1)
        # Records of a table or of JSON have several places that change.
        return any(
            self._equal[period] >= self._least and (self._changes[period] - 1) * period <= self.window
            for period in periods
        )

    def _count(self, periods: tuple[int, ...], changed: tuple[int, ...], by: int) -> None:
        for period in periods:
            self._equal[period] += by
        for period in changed:
            self._changes[period] += by


class _Novelty:
    """Count the sequences of tokens among the last ones that stood fewer than twice in the text before."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_NGRAM)
        self._seen: dict[tuple[int, ...], int] = {}
        self._order: deque[tuple[int, ...]] = deque()
        self._is_new: deque[bool] = deque()
        self._num_new = 0

    def add(self, token_id: int) -> bool:
        self._last.append(token_id)
        if len(self._last) < _NGRAM:
            return False
        ngram = tuple(self._last)
        times = self._seen.get(ngram, 0)
        self._remember(ngram, times)
        self._is_new.append(times < _KNOWN_AFTER)
        self._num_new += times < _KNOWN_AFTER
        if len(self._is_new) <= _NEW_WINDOW:
            return False
        self._num_new -= self._is_new.popleft()
        return self._num_new < _LEAST_NEW

    def _remember(self, ngram: tuple[int, ...], times: int) -> None:
        self._seen[ngram] = times + 1
        self._order.append(ngram)
        if len(self._order) > _REMEMBERED:
            oldest = self._order.popleft()
            self._seen[oldest] -= 1
            if not self._seen[oldest]:
                del self._seen[oldest]


class RepetitionGuard:
    """Watch the tokens of one text for repetition.

    A token costs time by how often it occurs among the last 64. ``given`` is the prompt, of which parts may be copied.
    """

    def __init__(self, given: Sequence[int] = ()) -> None:
        self._given = array("q", given)
        self._given_bytes = b""
        self._text = array("q")
        self._places: dict[int, deque[int]] = {}
        # For each period: the last token that equals the one a period before, and the first of its unbroken run.
        self._last_equal = [-2] * (MAX_PERIOD + 1)
        self._run_start = [0] * (MAX_PERIOD + 1)
        self._near = tuple(_NearLoop(window, least) for window, least in _NEAR)
        self._novelty = _Novelty()

    @classmethod
    def continuing(cls, prompt_ids: Sequence[int], written: Sequence[int]) -> RepetitionGuard:
        """Return a guard that has seen what the model wrote at the end of the prompt, behind all inserted text.

        ``written`` are all tokens of the prompt that the model wrote, without the inserted ones between them.
        """
        own = 0
        most = min(len(prompt_ids), len(written), _MOST_CONTINUED)
        while own < most and prompt_ids[-1 - own] == written[-1 - own]:
            own += 1
        guard = cls(prompt_ids[: len(prompt_ids) - own])
        for token_id in prompt_ids[len(prompt_ids) - own :]:
            guard.add(token_id)
        return guard

    def add(self, token_id: int) -> bool:
        """Return whether the text up to this token repeats itself."""
        at = len(self._text)
        self._text.append(token_id)
        periods = self._periods(token_id, at)
        changed = tuple(period for period in periods if self._last_equal[period] != at - 1)
        found = [self._run(period, at) for period in periods]
        found += [near.window for near in self._near if near.add(periods, changed)]
        found += [_NEW_WINDOW] if self._novelty.add(token_id) else []
        return any(length and not self._is_copy(length) for length in found)

    def _periods(self, token_id: int, at: int) -> tuple[int, ...]:
        """Return how many tokens before the same one stood."""
        places = self._places.setdefault(token_id, deque())
        while places and at - places[0] > MAX_PERIOD:
            places.popleft()
        periods = tuple(at - place for place in places)
        places.append(at)
        return periods

    def _run(self, period: int, at: int) -> int:
        """Return the length of the loop that ends here, 0 for none."""
        if self._last_equal[period] != at - 1:
            self._run_start[period] = at
        self._last_equal[period] = at
        length = at - self._run_start[period] + 1 + period
        return length if length >= max(_LEAST_LOOP, _LEAST_TURNS * period) else 0

    def _is_copy(self, length: int) -> bool:
        if length > min(len(self._given), len(self._text)):
            return False
        self._given_bytes = self._given_bytes or self._given.tobytes()
        copied = self._text[-length:].tobytes()
        at = self._given_bytes.find(copied)
        while at >= 0 and at % self._given.itemsize:
            at = self._given_bytes.find(copied, at + 1)
        return at >= 0
