"""Turn a stream of token ids into a stream of text: whole characters only, and no part of a stop string.

Works over any ``Tokenizer``; knows nothing of models or sampling.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.engines.base import Tokenizer
from models.types import FinishReason


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


_REPLACEMENT = "�"
# A UTF-8 character has at most four bytes, so an unfinished one spans at most the last three tokens. Without the bound,
# bytes that never become characters would be decoded again and again.
_MAX_PENDING = 8
_UNFINISHED = 3


class IncrementalDecoder:
    """Decode ids as they come, withholding a character until all its bytes are there.

    All pieces and the flush together are ``tokenizer.decode`` of all ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending: list[int] = []
        self._shown = 0  # characters of the pending ids' text already returned

    def feed(self, token_ids: Sequence[int]) -> str:
        pieces = []
        for token_id in token_ids:
            self._pending.append(token_id)
            pieces.append(self._advance())
        return "".join(pieces)

    def flush(self) -> str:
        """Return the withheld text; unfinished characters become U+FFFD."""
        text = self._tokenizer.decode(self._pending)[self._shown :]
        self._pending, self._shown = [], 0
        return text

    def _advance(self) -> str:
        text = self._tokenizer.decode(self._pending)
        if not text.endswith(_REPLACEMENT):
            new = text[self._shown :]
            self._pending, self._shown = [], 0
            return new
        settled = text.rstrip(_REPLACEMENT)
        new = settled[self._shown :]
        self._shown = max(self._shown, len(settled))
        return new + self._drop_settled(text)

    def _drop_settled(self, text: str) -> str:
        if len(self._pending) <= _MAX_PENDING:
            return ""
        head, tail = self._pending[:-_UNFINISHED], self._pending[-_UNFINISHED:]
        head_text = self._tokenizer.decode(head)
        # Equal only when no character spans the cut: a spanning one would be replaced on both sides.
        if head_text + self._tokenizer.decode(tail) != text:
            return ""
        new = head_text[self._shown :]
        self._shown = max(0, self._shown - len(head_text))
        self._pending = tail
        return new


class TextStream:
    """Turn token ids into text that is safe to send: an ``IncrementalDecoder`` followed by a ``StopScanner``."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._decoder = IncrementalDecoder(tokenizer)
        self._scanner = StopScanner(stops)

    @property
    def stop_matched(self) -> str | None:
        return self._scanner.matched

    def advance(self, token_id: int, *, is_eos: bool, is_last: bool) -> tuple[str, FinishReason | None]:
        """Return the new text, and the finish reason if the stream ends with this token; EOS itself has no text."""
        text = "" if is_eos else self._scanner.feed(self._decoder.feed((token_id,)))
        if is_eos or is_last:
            text += self.flush()
        if is_eos or self._scanner.matched is not None:
            return text, "stop"
        return text, "length" if is_last else None

    def flush(self) -> str:
        """Return the rest, when generation ends for another reason than a stop string (which it may still complete)."""
        return self._scanner.feed(self._decoder.flush()) + self._scanner.flush()
