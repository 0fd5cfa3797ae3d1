"""Parse the choices that a multiple-choice question lists. Pure."""

from __future__ import annotations

import re
from typing import Final

MAX_CHOICES: Final = 26
MAX_CHOICE: Final = 500
# Questions may be long: each pattern matches in linear time.
_HEADER: Final = re.compile(r"\b(?:given\s+list\s+is|options?(?:\s+are)?|choices?(?:\s+are)?)\s*:\s*", re.IGNORECASE)
_LETTERED: Final = re.compile(r"(?m)^[ \t]*\(?([A-Za-z])[.):][ \t]+(\S.*)$")
_LETTER: Final = re.compile(r"(?:(?<=\s)|^)\(?([A-Za-z])[.):]\s+")
_YES_OR_NO: Final = re.compile(
    r"(?:^|[.,;:!?]\s+)(?:and\s+|or\s+|but\s+|so\s+)?(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|"
    r"should|may|might|must)(?:n['’]t)?\s[^.;!?]*(?:\.\S[^.;!?]*)*\?*\s*$",
    re.IGNORECASE,
)
_LONGEST_ASKING: Final = 600


def asks_yes_or_no(question: str) -> bool:
    """Return whether the last sentence of a question asks for yes or no."""
    return _YES_OR_NO.search(one_line(question)[-_LONGEST_ASKING:]) is not None


def one_line(question: str) -> str:
    """Return the question on one line, since line breaks in it would look like the prompt's own."""
    return " ".join(question.split())


def listed_choices(question: str, *, with_repeats: bool = False) -> tuple[tuple[str, ...], str]:
    """Return the choices that a question lists, () for none, and the text before them.

    Published questions sometimes repeat a choice: ``with_repeats`` preserves the repetition, so that each has its
    letter.
    """
    lettered = list(_LETTERED.finditer(question))
    if _is_row([found[1] for found in lettered]):
        return _usable([one_line(found[2]) for found in lettered], with_repeats), question[: lettered[0].start()]
    text = question.rstrip()
    # The list of choices is the last line of the text.
    last_line = text.rfind("\n") + 1
    header = next((found for found in _HEADER.finditer(text) if found.end() >= last_line), None)
    if header is None or header.end() == len(text):
        return (), question
    return _usable(_parts(text[header.end() :]), with_repeats), question[: header.start()]


def _parts(listed: str) -> list[str]:
    marks = list(_LETTER.finditer(listed))
    if marks and marks[0].start() == 0 and _is_row([mark[1] for mark in marks]):
        ends = [*(mark.start() for mark in marks[1:]), len(listed)]
        parts = [listed[mark.end() : end].rstrip(" ,;") for mark, end in zip(marks, ends, strict=True)]
    else:
        parts = listed.split(";" if ";" in listed else ",")
    return [one_line(part).rstrip(".?") for part in parts]


def _is_row(letters: list[str]) -> bool:
    """Return whether the letters are A, B, C or a, b, c without a gap."""
    row = [chr(place) for place in range(ord("A"), ord("A") + min(len(letters), 27))]
    return len(letters) >= 2 and (letters == row or letters == [letter.lower() for letter in row])


def are_choices(value: object) -> bool:
    """Return whether a request's own list of choices is valid: 2 to 26 distinct lines of text."""
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_CHOICES:
        return False
    if not all(isinstance(choice, str) and choice.strip() for choice in value):
        return False
    short = all(len(choice) <= MAX_CHOICE and choice.strip().isprintable() for choice in value)
    return short and len({choice.strip() for choice in value}) == len(value)


def regex_of(text: str) -> str:
    """Return a regular expression for a grammar that matches ``text`` and nothing else."""
    return re.sub(r"[\\^$.|?*+()\[\]{}/]", lambda found: "\\" + found[0], text)


def _usable(found: list[str], with_repeats: bool) -> tuple[str, ...]:
    """Return the choices, () where they do not form a list of 2 to 26 choices of valid length."""
    choices = tuple(choice for choice in found if choice)
    choices = choices if with_repeats else tuple(dict.fromkeys(choices))
    return choices if 2 <= len(choices) <= MAX_CHOICES and max(map(len, choices)) <= MAX_CHOICE else ()
