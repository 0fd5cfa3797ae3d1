"""Build the grammar of free text whose identifiers and numbers are all of a given list.

Pure text; the engine compiles it. The rest is of small letters, single capitals before them and punctuation, in scripts
that have both. A listed text stands between blanks or punctuation, so that two cannot be joined to a third; one blank
is not enough between two of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from models.errors import GrammarInvalid
from models.types import Grammar

MAX_LISTED: Final = 200
MAX_LISTED_CHARS: Final = 120
_LOWER: Final = "a-zß-öø-ÿα-ωа-яё"
# One class without digits and capitals, in which most tokens stay: a mask costs little where few tokens leave it.
_FREE: Final = f"[{_LOWER} .,;:()!?“”'’\\n-]*"
_CAPITAL: Final = f"[A-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ][{_LOWER} .,;:)!?'’-]"
_BEFORE: Final = "[ (“\\n]"
_AFTER: Final = "[ .,;:)!?”\\n]"
_META: Final = re.compile(r"[\\^$.|?*+()\[\]{}/]")


def identifier_grammar(listed: Sequence[str], marks: Sequence[str] = ()) -> Grammar:
    """Build the grammar of text in which only ``listed`` texts stand beside ordinary words.

    ``marks`` may stand anywhere, as citations do ("[2]").

    Raises:
        GrammarInvalid: there are more than ``MAX_LISTED`` texts, or one is no short line of printable text.
    """
    texts = list(dict.fromkeys((*listed, *marks)))
    if len(texts) > MAX_LISTED:
        raise GrammarInvalid(f"at most {MAX_LISTED} identifiers can be listed", param="grounded")
    if any(not is_listable(text) for text in texts):
        raise GrammarInvalid("an identifier is a short line of printable text", param="grounded")
    chunks = [_CAPITAL, *map(_literal, dict.fromkeys(marks))]
    if listed:
        # Each once: xgrammar prepares a mask for every place in them.
        chunks.append(f"{_BEFORE}(?:{'|'.join(map(_literal, dict.fromkeys(listed)))}){_AFTER}")
    return Grammar("lark", f"start: TEXT\nTEXT: /{_FREE}(?:(?:{'|'.join(chunks)}){_FREE})*/\n", param="grounded")


def is_listable(text: str) -> bool:
    """Return whether a text can stand in the list: a short line of printable text."""
    return 0 < len(text) <= MAX_LISTED_CHARS and text.isprintable() and "::=" not in text and "//" not in text


def _literal(text: str) -> str:
    return _META.sub(lambda found: f"\\{found[0]}", text)
