"""Find what keeps an answer from being whole, state it below the answer's text, and count and list in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from models.decoding.types import LoopFinish
from models.types import REPETITION
from server.methods.base import TextDelta

YES_NO: Final = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
_SHORT: Final[dict[LoopFinish, str]] = {
    "length": "it reached its limit of length",
    "call_limit": "it had used all its calls",
    "timeout": "it ran out of time",
    "abort": "it was stopped",
}


def why_cut(finish: LoopFinish, stop_reason: str | int | None) -> str:
    """Return the sentence on an answer that a limit ended, "" for one that ended by itself."""
    if finish == "stop":
        return ""
    reason = "it repeated itself" if stop_reason == REPETITION else _SHORT[finish]
    return f"The answer is not complete: {reason}."


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def notice(reason: str, answer: str) -> TextDelta:
    """Return the text that states the reason, as a note below the ``answer`` that was shown, or alone where it is "".

    ``reason`` is one sentence or more.
    """
    return TextDelta(f"\n\n({reason})" if answer.strip() else reason, is_ours=True)
