"""Read which choice a reply names. Pure.

``read_choice`` is strict: no choice, several, or one that does not exist is unanswered. ``mirage_letter`` reads as
MIRAGE's own evaluation does, which counts every unreadable reply as A.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Place = Literal["json", "statement", "line", "none"]

_KEY: Final = re.compile(
    r"""["'](?:answer_choice|final_answer|answer|choice)["']\s*:\s*("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,}\]]+)""", re.I
)
_STATEMENT: Final = re.compile(
    r"""\b(?:
        (?: answer (?:\s+\w+){0,5}? | (?:choice|option) (?:\s+here)? )
        \s* (?: \s(?:is|(?:would|should|must|will)\s+be)\b | [:=] ) \s* :?
      | (?:choose|select|pick) \s+ (?=(?:option\s+|choice\s+)?\(?[A-Z]\)?(?:[\s.,;:]|$))
    )\s*""",
    re.I | re.X,
)
_IS_CORRECT: Final = re.compile(
    r"""(?: \b(?:option|choice|answer)\s+\(?([A-Za-z])\)?\s+is\s+(?:the\s+)?(?:correct|right|best)\b
          | \(([A-Z])\)\s+is\s+(?:the\s+)?(?:correct|right)\b
          | \b([A-Z])\)?\s+is\s+the\s+(?:correct|right|best)\s+(?:answer|choice|option)\b )""",
    re.X,
)
_DRESS: Final = re.compile(r"\\boxed|\\text(?:bf|rm)?|\\mathrm|\\[()\[\]]|[*_`${}]|^[ \t]*#+[ \t]*", re.M)
_LEAD: Final = re.compile(
    r"^[\s\"'“”‘’\[<]*(?:(?:the\s+)?(?:option|choice|answer|letter)\b\s*:?\s*)*[\s\"'“”‘’\[<]*", re.I
)
_LETTER: Final = re.compile(r"\(?([A-Za-z])(?:\)|(?![A-Za-z0-9'’+-]))")
_MORE: Final = re.compile(r"^[\s)\"'.]*(?:,|/|&|\+|and\b|or\b)\s*(?:option\s+|choice\s+)?\(?([A-Z])(?![A-Za-z0-9'’+-])")
_NEW_QUESTION: Final = re.compile(r"\n\s*(?:Question|Q)\s*:", re.I)
_EDGE: Final = " \t\n\r.,;:!?\"'“”‘’()[]<>"


@dataclass(frozen=True, slots=True)
class Reading:
    """``letter`` None: unanswered. ``place``: where it was read."""

    letter: str | None
    place: Place = "none"


@dataclass(frozen=True, slots=True)
class _Found:
    """``ambiguous``: the text names more than one choice."""

    letter: str | None = None
    ambiguous: bool = False

    @property
    def says_something(self) -> bool:
        return self.ambiguous or self.letter is not None


def read_choice(reply: str, options: Mapping[str, str], *, lettered: bool = True) -> Reading:
    """The choice of the last JSON field or "answer is" in the reply; else of its first or last line alone.

    ``lettered`` False: the question shows no letters, so only a choice's text counts.
    """
    text = _own_part(reply)
    named = [_in_field(found[1], options, lettered) for found in _KEY.finditer(text)]
    if named:
        return _reading(named[-1], "json")
    plain = _DRESS.sub("", text)
    stated = [found for found in _statements(plain, options, lettered) if found.says_something]
    if stated:
        return _reading(stated[-1], "statement")
    lines = [line for line in plain.splitlines() if line.strip()]
    ends = [_fragment(line, options, lettered, loose=False) for line in dict.fromkeys(lines[:1] + lines[-1:])]
    said = [found for found in ends if found.says_something]
    if not said or len({found.letter for found in said}) > 1:
        return Reading(None)
    return _reading(said[0], "line")


def _reading(found: _Found, place: Place) -> Reading:
    return Reading(found.letter, place if found.letter else "none")


def _own_part(reply: str) -> str:
    """Without thoughts, and without the question of its own that a base model may go on with."""
    text = reply.rpartition("</think>")[2].strip()
    following = _NEW_QUESTION.search(text)
    return text[: following.start()] if following else text


def _in_field(value: str, options: Mapping[str, str], lettered: bool) -> _Found:
    try:
        text = str(json.loads(value))
    except ValueError:
        text = value.strip("\"'")
    return _fragment(_DRESS.sub("", text), options, lettered, loose=False, whole=True)


def _statements(text: str, options: Mapping[str, str], lettered: bool) -> list[_Found]:
    """In the order of the text."""
    found = [
        (match.start(), _fragment(_rest_of_line(text[match.end() :]), options, lettered, loose=True))
        for match in _STATEMENT.finditer(text)
    ]
    if lettered:
        found += [(match.start(), _known(match[match.lastindex or 0], options)) for match in _IS_CORRECT.finditer(text)]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _rest_of_line(text: str) -> str:
    """The statement's line; the next one where it ends with its colon."""
    return text.lstrip().partition("\n")[0]


def _fragment(text: str, options: Mapping[str, str], lettered: bool, *, loose: bool, whole: bool = False) -> _Found:
    """``loose``: words may follow the letter, as they do in a sentence. ``whole``: nothing else was said."""
    bare = _LEAD.sub("", text, count=1)
    by_text = _by_text(bare, options, sentence=not whole)
    if by_text.letter is not None or not lettered:
        return by_text
    match = _LETTER.match(bare)
    letter = _known(match[1], options) if match else _Found()
    if match is None or letter.letter is None:
        return by_text
    after = bare[match.end() :]
    if _names_another(after, match[1], options):
        return _Found(ambiguous=True)
    closed = match[0].endswith(")") or not after.strip(_EDGE) or after.lstrip(" \"'”’")[:1] in tuple(").:,;-–—")
    small = match[1].islower() and not (match[0].startswith("(") or not after.strip(_EDGE) or after[:1] in tuple(").:"))
    same_text = _same(after, options[letter.letter])
    # "A" before a word is an article, and so may be any letter of a line that is no statement ("C cells are …").
    words = loose and not small and (match[1] != "A" or bool(re.match(r"\s+(?:because|since|as|for)\b", after)))
    if small or not (closed or same_text or words):
        return by_text
    return letter


def _names_another(after: str, letter: str, options: Mapping[str, str]) -> bool:
    more = _MORE.match(after)
    if more is not None and more[1] != letter.upper() and more[1] in options:
        return True
    # "B. text of C": which of the two is meant is anyone's guess.
    return any(_same(after, text) for other, text in options.items() if other != letter.upper()) and not _same(
        after, options[letter.upper()]
    )


def _known(letter: str, options: Mapping[str, str]) -> _Found:
    return _Found(letter.upper() if letter.upper() in options else None)


def _by_text(text: str, options: Mapping[str, str], *, sentence: bool) -> _Found:
    """The choice whose text this is; with ``sentence``, also where this is a longer line that begins so."""
    ends = r"[.,;](?:\s|$)" if all(" " not in folded(option) for option in options.values()) else r"[.;](?:\s|$)"
    parts = [text, *([re.split(ends, text, maxsplit=1)[0]] if sentence else [])]
    for part in parts:
        same = [letter for letter, option in options.items() if _same(part, option)]
        if same:
            return _Found(same[0]) if len(same) == 1 else _Found(ambiguous=True)
    return _Found()


def _same(text: str, option: str) -> bool:
    return bool(folded(option)) and folded(text) == folded(_DRESS.sub("", option))


def folded(text: str) -> str:
    """For comparison: letter case, white space and what stands around it apart."""
    return " ".join(text.split()).strip(_EDGE).casefold()


_MIRAGE: Final = (
    re.compile(r"^\s*([ABCD])(?:$| or| and|/|,)"),
    re.compile(r"[Oo]ption ([ABCD])"),
    re.compile(r":\s*([ABCD])"),
    re.compile(r'^\s*([ABCD])[.":]'),
)


def mirage_letter(reply: str) -> str:
    """What MIRAGE's evaluation (github.com/gzxiong/MIRAGE, locate_answer) takes a prediction for; A by default."""
    text = reply.rpartition('"answer_choice": "')[2].strip()
    for pattern in _MIRAGE:
        found = pattern.search(text)
        if found:
            return found[1]
    return "A"
