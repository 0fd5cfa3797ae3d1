"""Tell in an answer's own text why it is not a whole answer. Pure."""

from __future__ import annotations

import re
from typing import Final

from models.decoding.types import LoopFinish
from models.types import REPETITION
from server.methods.base import TextDelta

YES_NO: Final = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
# Long enough to see whether an answer begins with yes or no.
_OPENING_CHARS: Final = 12


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


def notice(reason: str, answer: str) -> TextDelta:
    """Return the text that states the reason, as a note below the ``answer`` that was shown, or alone where it is "".

    ``reason`` is one sentence or more.
    """
    return TextDelta(f"\n\n({reason})" if answer.strip() else reason, is_ours=True)


class OpeningGate:
    """Withhold the text of an answer until it is settled that it is no bare yes or no.

    With ``is_closed`` all of it is withheld, as for an answer that is judged as a whole.
    """

    def __init__(self, *, is_closed: bool) -> None:
        self.is_closed = is_closed
        self.is_open = False
        self._withheld: list[TextDelta] = []

    def feed(self, delta: TextDelta) -> list[TextDelta]:
        """Return the text that can be shown now."""
        self._withheld.append(delta)
        text = "".join(one.text for one in self._withheld).strip()
        is_settled = len(text) > _OPENING_CHARS and not YES_NO.match(text)
        self.is_open = self.is_open or (is_settled and not self.is_closed)
        return self.released() if self.is_open else []

    def released(self) -> list[TextDelta]:
        """Return what was withheld, once."""
        released, self._withheld = self._withheld, []
        return released
