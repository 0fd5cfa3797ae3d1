"""Find calls in sampled text, whatever the chunks it arrives in.

Pure: no tokens, no engine, no I/O. Knows where a call starts and ends, not what a call means: ``CallSyntax.is_call``
judges that.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.decoding.types import CallSyntax

DEFAULT_MAX_CALL_CHARS = 8000

# Hostile text can contain hundreds of openers before one closer; each candidate costs one run of ``is_call``.
_MAX_CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class Arrow:
    """Mark one closer in the sampled text.

    ``end`` is the offset just after it, in characters fed since the last reset. ``call`` is what ``is_call`` accepted,
    or None where the arrow is ordinary text.
    """

    end: int
    call: str | None


class CallScanner:
    """Find the calls in sampled text that is fed in chunks.

    Feed sampled text only: an opener in a reply must not start a call. A call never contains a closer, so each closer
    decides everything before it. Of several openers before one closer the last that makes a call wins, and the call
    ends exactly at the closer. Candidates longer than ``max_call_chars`` are ordinary text.
    """

    def __init__(self, syntax: CallSyntax, max_call_chars: int = DEFAULT_MAX_CALL_CHARS) -> None:
        self._syntax = syntax
        self._max_call_chars = max_call_chars
        # The opener's bracket, the call, and a closer that is not complete yet.
        self._window = 1 + max_call_chars + len(syntax.closer)
        self._buffer = ""
        self._base = 0

    @property
    def num_fed(self) -> int:
        """Return the number of characters fed since the last reset."""
        return self._base + len(self._buffer)

    def feed(self, text: str) -> list[Arrow]:
        """Return the arrows that ``text`` completes, in order."""
        closer = self._syntax.closer
        search_from = max(0, len(self._buffer) - len(closer) + 1)
        self._buffer += text
        arrows = []
        while (at := self._buffer.find(closer, search_from)) != -1:
            end = at + len(closer)
            arrows.append(Arrow(self._base + end, self._judge(self._buffer[:at])))
            self._drop(end)
            search_from = 0
        if len(self._buffer) > 2 * self._window:
            self._drop(len(self._buffer) - self._window)
        return arrows

    def reset(self) -> None:
        """Forget all text, because a reply separates it from the text that follows."""
        self._buffer = ""
        self._base = 0

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._base += count

    def _judge(self, before: str) -> str | None:
        opener = self._syntax.opener
        search_to = len(before)
        for _ in range(_MAX_CANDIDATES):
            start = before.rfind(opener, 0, search_to)
            if start == -1:
                return None
            candidate = before[start + 1 :]
            if len(candidate) > self._max_call_chars:
                return None
            if self._syntax.is_call(candidate):
                return candidate
            search_to = start + len(opener) - 1
        return None
