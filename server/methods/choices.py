"""Reads the choices that a multiple-choice question lists. Pure."""

from __future__ import annotations

import re
from typing import Final

MAX_CHOICES: Final = 26
MAX_CHOICE: Final = 200
_LIST: Final = re.compile(
    r"\b(?:given\s+list\s+is|options?(?:\s+are)?|choices?(?:\s+are)?)\s*:\s*(?P<list>[^\n]+?)\s*$", re.IGNORECASE
)
_LETTERED: Final = re.compile(r"(?m)^[ \t]*\(?([A-Z])[.):][ \t]+(\S.*?)[ \t]*$")


def one_line(question: str) -> str:
    """A question is one line of the prompt: line breaks in it would look like the prompt's own."""
    return " ".join(question.split())


def listed_choices(question: str) -> tuple[tuple[str, ...], str]:
    """The choices that a question lists, () for none, and what stands before them."""
    lettered = list(_LETTERED.finditer(question))
    if len(lettered) >= 2 and [found[1] for found in lettered] == [chr(65 + i) for i in range(len(lettered))]:
        return _distinct([one_line(found[2]) for found in lettered]), question[: lettered[0].start()]
    listed = _LIST.search(question)
    if listed is None:
        return (), question
    separator = ";" if ";" in listed["list"] else ","
    parts = [one_line(part).rstrip(".?") for part in listed["list"].split(separator)]
    return _distinct(parts), question[: listed.start()]


def regex_of(text: str) -> str:
    """A regular expression of a grammar that matches ``text`` and nothing else."""
    return re.sub(r"[\\^$.|?*+()\[\]{}/]", lambda found: "\\" + found[0], text)


def _distinct(found: list[str]) -> tuple[str, ...]:
    """Published questions repeat a choice now and then. () where they are no usable list."""
    choices = tuple(dict.fromkeys(choice for choice in found if choice))
    return choices if 2 <= len(choices) <= MAX_CHOICES and max(map(len, choices)) <= MAX_CHOICE else ()
