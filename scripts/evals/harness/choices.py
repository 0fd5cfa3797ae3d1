"""Read which choice a reply names. Pure.

``read_choice`` is strict: no choice, several, or one that does not exist is unanswered. ``mirage_letter`` reads as
MIRAGE's own evaluation does, which counts every unreadable reply as A.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_FIELD: Final = re.compile(
    r"""["'](?:answer_choice|final_answer|answer|choice)["']\s*:\s*("[^"]*"|'[^']*'|[^\s,}\]]+)"""
)
_STATED: Final = re.compile(
    r"\b(?:answer|choice|option)(?:\s+\w+){0,3}?\s*(?:\bis\b|[:=])\s*:?\s*(.*?)(?=\.\s+[A-Z]|\n|$)", re.IGNORECASE
)
_CORRECT: Final = re.compile(r"\b([A-Z])\)?\s+is\s+(?:the\s+)?(?:correct|right|best)\b")
_DRESS: Final = re.compile(r"\\boxed|\\text(?:bf|rm)?|\\[()\[\]]|[*_`${}]|^[ \t]*#+[ \t]*", re.MULTILINE)
_LETTER: Final = re.compile(
    r"^[\s\"'\[]*(?:option\s+|choice\s+)?\(?([A-Za-z])(?:\)|[.:,\]](?=\s|$)|\s+[-–—]|\s*$|\s+(?=(?:because|since)\b))",
    re.I,
)
_FURTHER: Final = re.compile(r"^[\s)\"'.]*(?:,|/|&|and\b|or\b)\s*\(?([A-Z])(?![A-Za-z0-9])")
_EDGE: Final = " \t\n\r.,;:!?\"'“”‘’()[]<>"


def read_choice(reply: str, options: Mapping[str, str], *, lettered: bool = True) -> str | None:
    """The choice of the last JSON field or "answer is" in the reply; else of its first or last line alone.

    ``lettered`` False: the question shows no letters, so only a choice's text counts.
    """
    # Without thoughts, and without the question of its own that a base model may go on with.
    text = re.split(r"\n\s*Question:", reply.rpartition("</think>")[2])[0].strip()
    if fields := _FIELD.findall(text):
        return _named(_bare(fields[-1]), options, lettered)
    plain = _DRESS.sub("", text)
    found_at = [(found.start(), found[1]) for found in _STATED.finditer(plain)]
    found_at += [(found.start(), found[1]) for found in _CORRECT.finditer(plain) if lettered]
    stated = [_named(said, options, lettered) for _, said in sorted(found_at)]
    if found := [letter for letter in stated if letter]:
        return found[-1]
    lines = [line for line in plain.splitlines() if line.strip()]
    ends = {_named(line, options, lettered) for line in lines[:1] + lines[-1:]} - {None}
    return ends.pop() if len(ends) == 1 else None


def _bare(value: str) -> str:
    try:
        return str(json.loads(value))
    except ValueError:
        return value.strip("\"'")


def _named(text: str, options: Mapping[str, str], lettered: bool) -> str | None:
    """The choice whose text this is, or whose sentence this begins with; else the letter that stands alone first."""
    parts = [text, re.split(r"[.,;](?:\s|$)", text, maxsplit=1)[0]]
    for part in parts:
        same = [letter for letter, option in options.items() if folded(part) and folded(part) == folded(option)]
        if same:
            return same[0] if len(same) == 1 else None
    match = _LETTER.match(text) if lettered else None
    if match is None or match[1].upper() not in options:
        return None
    letter, after = match[1].upper(), text[match.end() :]
    another = _FURTHER.match(text[match.end(1) :])
    said = [other for other, option in options.items() if folded(after) and folded(after) == folded(option)]
    is_other = (another is not None and another[1] in options and another[1] != letter) or (said and letter not in said)
    return None if is_other else letter


def folded(text: str) -> str:
    """For comparison: letter case, white space, markup and what stands around it apart."""
    return " ".join(_DRESS.sub("", text).split()).strip(_EDGE).casefold()


_MIRAGE: Final = (
    re.compile(r"^\s*([ABCD])(?:$| or| and|/|,)"),
    re.compile(r"[Oo]ption ([ABCD])"),
    re.compile(r":\s*([ABCD])"),
    re.compile(r'^\s*([ABCD])[.":]'),
)


def mirage_letter(reply: str) -> str:
    """What MIRAGE's evaluation (github.com/gzxiong/MIRAGE, locate_answer) takes a prediction for; A by default."""
    text = reply.rpartition('"answer_choice": "')[2].strip()
    return next((found[1] for pattern in _MIRAGE if (found := pattern.search(text))), "A")
