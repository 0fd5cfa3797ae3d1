"""Tell in an answer's own text why it is not a whole answer. Pure."""

from __future__ import annotations

from server.methods.base import TextDelta


def notice(reason: str, answer: str) -> TextDelta:
    """Return the text that states the reason, as a note below the ``answer`` that was shown, or alone where it is "".

    ``reason`` is one sentence or more.
    """
    return TextDelta(f"\n\n({reason})" if answer.strip() else reason, is_ours=True)
