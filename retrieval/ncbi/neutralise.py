"""Sanitize external text: nothing in it can look like a call, a chat turn, a stop sequence or markup."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Line and paragraph separators, and invisible characters that could hide an arrow: "-" + zero width + ">".
_LINE_BREAKS: Final = re.compile("\r\n?|\u2028|\u2029|\x0b|\x0c|\x85")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")
_OPENER: Final = re.compile(r"\[(?=\s*https?\s*:)", re.IGNORECASE)
# <|im_start|>, </s>, <start_of_turn>, <<SYS>>; not "P < 0.05" and not "c.35G>A".
_TAG: Final = re.compile(r"<(?=[|/<]|[A-Za-z_][\w -]{0,40}\|?>)")
_TAG_END: Final = re.compile(r"\|>|>>")
_INSTRUCTION: Final = re.compile(r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+))\]", re.IGNORECASE)
_TURN: Final = re.compile(
    r"^([ \t]*#*[ \t]*(?:question|answer|user|assistant|system|human|instruction|response))[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)


def neutralise(text: str) -> str:
    """Return ``text`` as one paragraph of plain data.

    Facts stay readable; applying the function twice changes nothing more.
    """
    text = _LINE_BREAKS.sub("\n", text).replace("\t", " ")
    text = "".join(c for c in text if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))
    text = _BLANK_LINES.sub("\n", text)
    while _BLANK_LINES.search(text):
        text = _BLANK_LINES.sub("\n", text)
    text = _TURN.sub(r"\1 -", text).replace("->", "→")
    text = _INSTRUCTION.sub(r"(\1)", text)
    text = _OPENER.sub("(", text)
    return _TAG_END.sub(lambda m: m[0].replace(">", "›"), _TAG.sub("‹", text)).strip()
