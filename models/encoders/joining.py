"""Makes one text of a title and a text."""

from __future__ import annotations

from typing import Final

from models.encoders.base import PassageText

SENTENCE: Final = ". "
_ENDS: Final = (".", "?", "!")


def one_text(passage: PassageText, separator: str = SENTENCE) -> str:
    """Title and text with ``separator`` between; the other alone where one is empty.

    Between sentences only the space is put after a title that ends in a full stop, as PubMed's titles do.
    """
    title, text = passage.title.strip(), passage.text.strip()
    if not title or not text:
        return title or text
    if separator == SENTENCE and title.endswith(_ENDS):
        return f"{title} {text}"
    return f"{title}{separator}{text}"
