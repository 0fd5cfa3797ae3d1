"""Which of the passages found a model gets to read, and how they stand in its prompt. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.corpus.namespace_settings import embedded_title
from retrieval.corpus.ranking import Found
from retrieval.lexical.characters import normalise

# What has a meaning in our prompts must not come from a passage: numbers of passages, and words that begin a part.
_NUMBERED: Final = re.compile(r"\[(\s*\d[\d\s,;–-]*)\]")
_PARTS: Final = re.compile(
    r"(?im)^([ \t>*#_-]*(?:final answer|answer|question|query|choices|options|passages|reasoning|"
    r"instructions?|system|user|assistant)[ \t*_]*):"
)
_SEPARATOR: Final = "\n"


@dataclass(frozen=True, slots=True)
class Context:
    """``passages`` are numbered from 1 in this order; ``ranks`` are their places in the search, from 1. ``too_long``
    passages have no room however few others there are; ``left_out`` came after the room was used up."""

    passages: tuple[Found, ...] = ()
    ranks: tuple[int, ...] = ()
    text: str = ""
    tokens: int = 0
    left_out: int = 0
    too_long: int = 0
    repeated: int = 0

    @property
    def best_first(self) -> list[int]:
        """Numbers of the passages."""
        return sorted(range(1, len(self.passages) + 1), key=lambda number: self.ranks[number - 1])


def build_context(found: Sequence[Found], count: Callable[[str], int], budget: int) -> Context:
    """The best passages, whole, each text once, as far as ``budget`` tokens go: none is passed over for a worse one,
    unless it alone would not fit. They stand in the order of the library, not of their scores, so that the same set
    is the same text, whose computation an engine's prefix cache keeps.
    """
    distinct = _distinct(found)
    kept: list[tuple[int, Found]] = []
    used = too_long = passed = 0
    for rank, one in distinct:
        passed += 1
        # The number is not known yet: three digits are the most.
        cost = count(_entry(888, one) + _SEPARATOR)
        if cost > budget:
            too_long += 1
            continue
        if used + cost > budget:
            passed -= 1
            break
        used += cost
        kept.append((rank, one))
    kept.sort(key=lambda entry: _library_order(entry[1]))
    text = _SEPARATOR.join(_entry(number, one) for number, (_, one) in enumerate(kept, 1))
    return Context(
        passages=tuple(one for _, one in kept),
        ranks=tuple(rank for rank, _ in kept),
        text=text,
        tokens=count(text) if text else 0,
        left_out=len(distinct) - passed,
        too_long=too_long,
        repeated=len(found) - len(distinct),
    )


def neutral(text: str) -> str:
    """A passage's text, which can be taken for no part of a prompt; its lines stay lines, set in."""
    text = _NUMBERED.sub(r"(\1)", _PARTS.sub(r"\1 –", text))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n   ".join(line for line in lines if line)


def _distinct(found: Iterable[Found]) -> list[tuple[int, Found]]:
    seen: set[str] = set()
    kept: list[tuple[int, Found]] = []
    for rank, one in enumerate(found, 1):
        text = " ".join(normalise(one.passage.text).text.split())
        if text not in seen:
            seen.add(text)
            kept.append((rank, one))
    return kept


def _entry(number: int, found: Found) -> str:
    title = neutral(" ".join(embedded_title(found.passage).split()))
    if found.document.retracted_by:
        title = f"{title} (RETRACTED)".strip()
    text = neutral(found.passage.text)
    return f"[{number}] {title}\n   {text}" if title else f"[{number}] {text}"


def _library_order(found: Found) -> tuple[str, str, int, int]:
    passage = found.passage
    return found.namespace, passage.document_id, passage.start, passage.passage_id
