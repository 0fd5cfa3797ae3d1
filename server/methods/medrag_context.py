"""Select the passages for a model's context and format them for its prompt. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.corpus.namespace_settings import embedded_title
from retrieval.corpus.ranking import Found
from retrieval.lexical.characters import normalise

# Passages must not contain the syntax of our prompts: passage numbers, and words that begin a part.
_NUMBERED: Final = re.compile(r"\[(\s*\d[\d\s,;–-]*)\]")
_PARTS: Final = re.compile(
    r"(?im)^([ \t>*#_-]*(?:final answer|answer|question|query|choices|options|passages|reasoning|"
    r"instructions?|system|user|assistant)[ \t*_]*):"
)
_SEPARATOR: Final = "\n"


@dataclass(frozen=True, slots=True)
class Context:
    """Hold the passages of a prompt.

    ``passages`` are numbered from 1 in this order; ``ranks`` are their ranks in the search, from 1. ``too_long`` counts
    passages that exceed the budget alone, ``left_out`` those after the budget was used up.
    """

    passages: tuple[Found, ...] = ()
    ranks: tuple[int, ...] = ()
    text: str = ""
    tokens: int = 0
    left_out: int = 0
    too_long: int = 0
    repeated: int = 0

    @property
    def best_first(self) -> list[int]:
        """Return the numbers of the passages, best rank first."""
        return sorted(range(1, len(self.passages) + 1), key=lambda number: self.ranks[number - 1])


def build_context(found: Sequence[Found], count: Callable[[str], int], budget: int) -> Context:
    """Select the best passages, whole and without duplicate texts, within ``budget`` tokens.

    No passage is skipped in favour of a worse one, unless it alone exceeds the budget. Passages are in the library's
    order, not in that of their scores, so that the same set gives the same text, which an engine's prefix cache reuses.
    """
    distinct = _distinct(found)
    kept: list[tuple[int, Found]] = []
    used = too_long = passed = 0
    for rank, one in distinct:
        passed += 1
        # The number is not known yet; it has at most three digits.
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
    """Return a passage's text without anything that reads as part of a prompt; its lines are preserved and indented."""
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
