"""Join a title and a text into one text."""

from __future__ import annotations

from typing import Final

from models.encoders.base import PassageText

SENTENCE: Final = ". "
_ENDS: Final = (".", "?", "!")


def one_text(passage: PassageText, separator: str = SENTENCE) -> str:
    """Join title and text with ``separator``; return the other alone if one is empty.

    With the default separator, only a space follows a title that ends a sentence, as PubMed's titles do.
    """
    title, text = passage.title.strip(), passage.text.strip()
    if not title or not text:
        return title or text
    if separator == SENTENCE and title.endswith(_ENDS):
        return f"{title} {text}"
    return f"{title}{separator}{text}"
