"""Escape what a terminal or a log would obey instead of showing: control characters, directions of writing, tags."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

# C0 but tab and line feed, C1, unpaired surrogates, line and paragraph separators, the marks and overrides of
# writing direction, and the invisible tag characters.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\U000e0000-\U000e007f]"
)


def for_terminal(text: str) -> str:
    r"""Return the text as a terminal can show it: control characters become ``\x1b``, lines and tabs stay."""
    return _CONTROL.sub(lambda found: _escape(found[0]), text)


def for_json(text: str) -> str:
    r"""Return JSON text with the same value and none of these characters: they become ``\u001b``."""
    return _CONTROL.sub(lambda found: _json_escape(found[0]), text)


def for_log(text: str, max_chars: int) -> str:
    """Return the text as one line of visible characters, cut at ``max_chars`` with the number of those left out."""
    left_out = len(text) - max_chars
    line = text if left_out <= 0 else text[:max_chars]
    if not line.isprintable():
        line = "".join(sign if sign.isprintable() else _escape(sign) for sign in line)
    return line if left_out <= 0 else f"{line}… ({left_out} characters more)"


class EscapingStream:
    """Write text to a stream as ``for_terminal`` returns it; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def unescaped(self) -> TextIO:
        return self._stream

    def write(self, text: str) -> int:
        self._stream.write(for_terminal(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape what this process prints, since documents, answers and names of files come from elsewhere."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, EscapingStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream for text of our own that moves the cursor: a bar of progress, a line written over."""
    return stream.unescaped if isinstance(stream, EscapingStream) else stream


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def _json_escape(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
