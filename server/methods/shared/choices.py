"""Parse the choices that a multiple-choice question lists. Pure."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

MAX_CHOICES: Final = 26
MAX_CHOICE: Final = 500
# Questions may be long: each pattern matches in linear time.
_HEADER: Final = re.compile(r"\b(?:given\s+list\s+is|options?(?:\s+are)?|choices?(?:\s+are)?)\s*:\s*", re.IGNORECASE)
_LETTERED: Final = re.compile(r"(?m)^[ \t]*\(?([A-Za-z])[.):][ \t]+(\S.*)$")
_NUMBERED: Final = re.compile(r"(?m)^[ \t]*\(?([1-9]\d?)[.):][ \t]+(\S.*)$")
_BRACKETED: Final = re.compile(r"(?<=\s)\(([A-Za-z]|[1-9]\d?)\)\s+")
_MARK: Final = re.compile(r"(?:(?<=\s)|^)\(?([A-Za-z]|[1-9]\d?)[.):]\s+")
_QUOTED: Final = re.compile(r"\s*[\"“]([^\"”]+)[\"”]\s*(?:[,;]|or\b|and\b|\.?\s*$)")
_REST: Final = r"[^.;!?]*(?:\.\S[^.;!?]*)*\?*\s*$"
_YES_OR_NO: Final = re.compile(
    r"(?:^|[.,;:!?]\s+)(?P<joined>and\s+|or\s+|but\s+|so\s+)?(?:is|are|was|were|do|does|did|can|could|has|have|had|will|"
    rf"would|should|may|might|must)(?:n['’]t)?\s{_REST}",
    re.IGNORECASE,
)
_SAYS_YES_OR_NO: Final = re.compile(r"^\W*true\s+or\s+false\b|\byes\s+or\s+no\W*$", re.IGNORECASE)
# "What drug, used against gout, is an inhibitor?" and "Can you list the symptoms?"
_ASKS_MORE: Final = re.compile(rf"(?:^|[.;:!?]\s+)(?:what|which|who|whose|when|where|why|how)\b{_REST}", re.IGNORECASE)
_REQUEST: Final = re.compile(
    r"\b(?:can|could|will|would)\s+you\s+(?:please\s+)?(?:summari[sz]e|describe|explain|list|name|tell|give|define|provide|"
    rf"show|outline|mention|compare)\b{_REST}",
    re.IGNORECASE,
)
# Their points end no sentence: E. coli, vs. placebo.
_ABBREVIATION: Final = re.compile(r"\b([A-Z]|vs|cf|spp?|subsp|e\.g|i\.e)\.(?=\s+[a-z])")
_LONGEST_ASKING: Final = 600
_SURE_ROW: Final = 3


def asks_yes_or_no(question: str) -> bool:
    """Return whether the last sentence of a question asks for yes or no."""
    text = _ABBREVIATION.sub(r"\1", one_line(question)[-_LONGEST_ASKING:])
    if _SAYS_YES_OR_NO.search(text):
        return True
    found = _YES_OR_NO.search(text)
    return found is not None and not _REQUEST.search(text) and (bool(found["joined"]) or not _ASKS_MORE.search(text))


def one_line(question: str) -> str:
    """Return the question on one line, since line breaks in it would look like the prompt's own."""
    return " ".join(question.split())


def listed_choices(question: str, *, with_repeats: bool = False) -> tuple[tuple[str, ...], str]:
    """Return the choices that a question lists, () for none, and the text before them.

    Published questions sometimes repeat a choice: ``with_repeats`` preserves the repetition, so that each has its
    letter.
    """
    text = question.rstrip()
    lettered = _last_row(list(_LETTERED.finditer(question)))
    numbered = [] if lettered else _last_row(list(_NUMBERED.finditer(text)), text)
    if lines := lettered or numbered:
        return _usable([one_line(found[2]) for found in lines], with_repeats), question[: lines[0].start()]
    # The list of choices is the last line of the text.
    last_line = text.rfind("\n") + 1
    header = next((found for found in _HEADER.finditer(text) if found.end() >= last_line), None)
    if header is None or header.end() == len(text):
        return _inline(text, last_line, with_repeats) or ((), question)
    return _usable(_parts(text[header.end() :]), with_repeats), question[: header.start()]


def _last_row(lines: list[re.Match[str]], ends: str | None = None) -> list[re.Match[str]]:
    """Return the last lines that are A, B, C or 1, 2, 3, since a stem may begin like one ("A. baumannii …").

    With ``ends``, they must be the end of this text: numbered lines elsewhere are findings, not choices.
    """
    for start in range(len(lines) - 1, -1, -1):
        if lines[start][1] not in ("A", "a", "1"):
            continue
        found = lines[start:]
        closed = ends is None or (
            found[-1].end() == len(ends)
            and all(not ends[one.end() : two.start()].strip() for one, two in pairwise(found))
        )
        return found if closed and _is_row([line[1] for line in found]) else []
    return []


def _inline(text: str, last_line: int, with_repeats: bool) -> tuple[tuple[str, ...], str] | None:
    """Return choices of the form "(a) x (b) y" or "? 1. x 2. y" in the last line, and the text before them."""
    marks = _row_at_end([mark for mark in _BRACKETED.finditer(text) if mark.start() >= last_line])
    if not marks:
        marks = _row_at_end([mark for mark in _MARK.finditer(text) if mark.start() >= last_line])
        # Without brackets, "A." may end a sentence or begin a name: a question must end before it, or three follow.
        asked = marks and text[: marks[0].start()].rstrip().endswith(("?", ":"))
        if not asked and len(marks) < _SURE_ROW:
            return None
    if not marks or _asks_about_all(text, marks):
        return None
    choices = _usable([one_line(part) for part in _between(text, marks)], with_repeats)
    return (choices, text[: marks[0].start()]) if choices else None


def _row_at_end(marks: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the last marks that are A, B, C or 1, 2, 3, [] where others follow them."""
    starts = [place for place, mark in enumerate(marks) if mark[1] in ("A", "a", "1")]
    found = marks[starts[-1] :] if starts else []
    return found if _is_row([mark[1] for mark in found]) else []


def _between(text: str, marks: list[re.Match[str]]) -> list[str]:
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [text[mark.end() : end].rstrip(" ,;.?") for mark, end in zip(marks, ends, strict=True)]
    return [part.removesuffix(" or").removesuffix(" and").rstrip(" ,;") for part in parts]


def _asks_about_all(text: str, marks: list[re.Match[str]]) -> bool:
    """Return whether the items are parts of one question: "What does it do in (a) bone and (b) gut?"."""
    before = text[: marks[-1].start()].rstrip(" ,;")
    return text.endswith("?") and before.endswith(" and") and "?" not in text[: marks[0].start()]


def _parts(listed: str) -> list[str]:
    marks = list(_MARK.finditer(listed))
    if marks and marks[0].start() == 0 and _is_row([mark[1] for mark in marks]):
        ends = [*(mark.start() for mark in marks[1:]), len(listed)]
        parts = [listed[mark.end() : end].rstrip(" ,;") for mark, end in zip(marks, ends, strict=True)]
    elif (quoted := list(_QUOTED.finditer(listed))) and _covers(quoted, listed):
        parts = [part[1] for part in quoted]
    else:
        # A comma without a blank is part of a name (1,25-dihydroxyvitamin D), unless there is no other.
        parts = listed.split(";") if ";" in listed else re.split(r",\s+", listed)
        parts = parts if len(parts) > 1 else listed.split(",")
    return [one_line(part).rstrip(".?") for part in parts]


def _covers(parts: list[re.Match[str]], listed: str) -> bool:
    ends = [0, *(part.end() for part in parts)]
    starts = [*(part.start() for part in parts), len(listed)]
    return not any(listed[end:start].strip() for end, start in zip(ends, starts, strict=True))


def _is_row(letters: list[str]) -> bool:
    """Return whether the letters are A, B, C or a, b, c, or the numbers 1, 2, 3, without a gap."""
    if len(letters) >= 2 and letters == [str(place) for place in range(1, len(letters) + 1)]:
        return True
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
