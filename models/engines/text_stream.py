"""Turn a stream of token ids into text that is safe to send, up to a stop string or repetition without end.

Streamed text has whole characters only and no part of a stop string. Three signs tell from the ids when a model repeats
itself, each over many tokens, since tables, sequences and lists repeat too:

- a loop: the text is periodic, with at most 64 tokens a turn;
- a near loop: turns that differ in a number or a word;
- nothing new: of the last sequences of 16 tokens, hardly any stood fewer than twice in the text before.

What stands in the prompt as long as it is repeated is a copy, and no loop.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from models.engines.base import Tokenizer, begins_thinking
from models.types import REPETITION, FinishReason, GenerateParams

_REPLACEMENT = "�"
# A UTF-8 character has at most four bytes, so an unfinished one spans at most the last three tokens. Without the bound,
# bytes that never become characters would be decoded again and again.
_MAX_PENDING = 8
_UNFINISHED = 3
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


class TextStream:
    """Turn token ids into text that is safe to send: an ``IncrementalDecoder`` followed by a ``StopScanner``.

    Thinking, which can only begin a reply, is no part of that text and holds no stop strings. ``thought`` is what the
    last call has read of it, and ``was_thought`` says whether its token belongs to the thinking: to its text, its marks
    or the white space behind it.
    """

    def __init__(self, tokenizer: Tokenizer, params: GenerateParams, prompt_ids: Sequence[int]) -> None:
        self._decoder = IncrementalDecoder(tokenizer)
        self._scanner = StopScanner(params.stop)
        self._guard = (
            RepetitionGuard.continuing(prompt_ids, params.written or ()) if params.stop_on_repetition else None
        )
        self._repeats = False
        self._marks = tokenizer.thinking
        self._is_thinking = begins_thinking(self._marks, prompt_ids, params.grammar)
        self._has_text = False
        self._follows_thinking = False
        self._thoughts = ""
        self.thought = ""
        self.was_thought = False

    @property
    def stop_reason(self) -> str | None:
        """Return the stop string that ended the stream, or ``REPETITION``."""
        return REPETITION if self._repeats else self._scanner.matched

    def advance(self, token_id: int, *, is_eos: bool, is_last: bool) -> tuple[str, FinishReason | None]:
        """Return the new text, and the finish reason if the stream ends with this token; EOS itself has no text."""
        self.thought, self.was_thought = "", False
        text = "" if is_eos else self._scanner.feed(self._read(token_id))
        repeats = self._guard is not None and not is_eos and self._guard.add(token_id)
        if is_eos or is_last or repeats:
            text += self._flush()
        if is_eos or self._scanner.matched is not None:
            return text, "stop"
        self._repeats = repeats
        return text, "length" if is_last or repeats else None

    def flush(self) -> str:
        """Return the rest, when generation ends for another reason than a stop string (which it may still complete)."""
        self.thought, self.was_thought = "", False
        return self._flush()

    def _flush(self) -> str:
        rest = self._decoder.flush()
        if self._is_thinking:
            self._think(rest)
            rest = ""
        return self._scanner.feed(rest) + self._scanner.flush()

    def _read(self, token_id: int) -> str:
        """Return the token's text, "" for one that belongs to the thinking."""
        marks = self._marks
        if marks is None:
            return self._decoder.feed((token_id,))
        is_mark = token_id in (marks.start, marks.end) and (self._is_thinking or not self._has_text)
        if is_mark:
            rest = self._decoder.flush()
            if self._is_thinking:
                self._think(rest)
            self._is_thinking, self._follows_thinking = token_id == marks.start, True
            self.was_thought = True
            return ""
        text = self._decoder.feed((token_id,))
        if self._is_thinking:
            self._think(text)
            self.was_thought = True
            return ""
        return self._answer_text(text)

    def _answer_text(self, text: str) -> str:
        if self._follows_thinking and not self._has_text:
            text, before = text.lstrip(), text
            self.was_thought = bool(before) and not text
        self._has_text = self._has_text or bool(text.strip())
        return text

    def _think(self, text: str) -> None:
        # Models begin their thinking on a new line.
        self.thought += text if self._thoughts else text.lstrip("\n")
        self._thoughts = self._thoughts or self.thought


class StopScanner:
    """Pass on the text that is fed, up to the first stop string.

    The stop string whose last character comes first wins; of two ending together, the longer one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._longest = max(map(len, self._stops), default=0)
        self._withheld = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that no stop string can include any more; after a match, drop everything."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        buffer = self._withheld + text
        match = self._first_match(buffer)
        if match is not None:
            start, self.matched = match
            self._withheld = ""
            return buffer[:start]
        length = self._withheld_length(buffer)
        self._withheld = buffer[len(buffer) - length :]
        return buffer[: len(buffer) - length]

    def flush(self) -> str:
        """Return the withheld rest, when the text ends without a stop string."""
        withheld, self._withheld = self._withheld, ""
        return withheld

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


class Decoder(Protocol):
    """Turn ids into text: the part of a ``Tokenizer`` that a stream of ids needs."""

    def decode(self, token_ids: Sequence[int]) -> str: ...


class IncrementalDecoder:
    """Decode ids as they come, withholding a character until all its bytes are there.

    All pieces and the flush together are ``tokenizer.decode`` of all ids.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._pending: list[int] = []
        self._num_emitted = 0  # characters of the pending ids' text already returned

    def feed(self, token_ids: Sequence[int]) -> str:
        pieces = []
        for token_id in token_ids:
            self._pending.append(token_id)
            pieces.append(self._advance())
        return "".join(pieces)

    def flush(self) -> str:
        """Return the withheld text; unfinished characters become U+FFFD."""
        text = self._tokenizer.decode(self._pending)[self._num_emitted :]
        self._pending, self._num_emitted = [], 0
        return text

    def _advance(self) -> str:
        text = self._tokenizer.decode(self._pending)
        if not text.endswith(_REPLACEMENT):
            new = text[self._num_emitted :]
            self._pending, self._num_emitted = [], 0
            return new
        settled = text.rstrip(_REPLACEMENT)
        new = settled[self._num_emitted :]
        self._num_emitted = max(self._num_emitted, len(settled))
        return new + self._drop_settled(text)

    def _drop_settled(self, text: str) -> str:
        if len(self._pending) <= _MAX_PENDING:
            return ""
        head, tail = self._pending[:-_UNFINISHED], self._pending[-_UNFINISHED:]
        head_text = self._tokenizer.decode(head)
        # Equal only when no character spans the cut: a spanning one would be replaced on both sides.
        if head_text + self._tokenizer.decode(tail) != text:
            return ""
        new = head_text[self._num_emitted :]
        self._num_emitted = max(0, self._num_emitted - len(head_text))
        self._pending = tail
        return new


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
        lengths = [self._run(period, at) for period in periods]
        lengths += [near.window for near in self._near if near.add(periods, changed)]
        lengths += [_NEW_WINDOW] if self._novelty.add(token_id) else []
        return any(length and not self._is_copy(length) for length in lengths)

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
