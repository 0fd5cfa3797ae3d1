"""Derive other forms of a name from the name alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from retrieval.graph.linking.folding import fold

_PARENTHESES: Final = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_NUMBERED: Final = re.compile(r"\d+|[a-z]")
_LEAST_WORD: Final = 5
_MOST: Final = 8


def variants(name: str) -> list[tuple[str, ...]]:
    """Return at most eight distinct token sequences, the name's own first.

    "diabetes mellitus, type 2": also "type 2 diabetes mellitus", "diabetes mellitus 2". "MASA syndrome (disorder)":
    also without the parentheses. "Fanconi anemia complementation group A": also "Fanconi anemia group A".
    """
    own = tuple(fold(name))
    if not own:
        return []
    found = {own: None}
    if len(own) > 1:
        for other in _others(name, own):
            found.setdefault(other)
    return list(found)[:_MOST]


def _others(name: str, own: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    forms = [own]
    if "(" in name or "[" in name:
        bare = tuple(fold(_PARENTHESES.sub(" ", name)))
        # A remainder without a word is no name by itself: "(R)-2" is not "2".
        if sum(len(token) for token in bare) >= _LEAST_WORD and bare[0].isalpha():
            forms.append(bare)
    if name.count(", ") == 1:
        head, tail = (tuple(fold(part)) for part in name.split(", "))
        if head and tail and not {"and", "or"} & set(tail):
            forms.append(tail + head)
    for form in forms:
        yield form
        yield from _numbered(form)


def _numbered(form: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if form[0] == "type" and len(form) > 2 and _NUMBERED.fullmatch(form[1]):
        yield (*form[2:], *form[:2])
        yield (*form[2:], form[1])
    elif "type" in form[1:-1]:
        place = form.index("type", 1)
        yield form[:place] + form[place + 1 :]
        if _NUMBERED.fullmatch(form[-1]) and place == len(form) - 2:
            yield form[place:] + form[:place]
    elif form[-1].isdigit() and len(form) > 1 and len(form[-2]) >= _LEAST_WORD and form[-2] != "group":
        yield (*form[:-1], "type", form[-1])
    if "group" in form[1:-1]:
        place = form.index("group", 1)
        if form[place - 1] == "complementation":
            yield form[: place - 1] + form[place:]
        else:
            yield (*form[:place], "complementation", *form[place:])
