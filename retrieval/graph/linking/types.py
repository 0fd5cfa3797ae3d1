"""Define the options and results of a linker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.graph.types import Mention

# "Given list is: A, B", "Options: ...", or answers lettered A, B.
_HEADED: Final = re.compile(
    r"\b(?:given list is|given list|options(?: are)?|choices(?: are)?|choose (?:one )?(?:of|from)(?: the following)?"
    r"|select (?:one )?(?:of|from)(?: the following)?|answer choices)\s*:",
    re.IGNORECASE,
)
_FIRST: Final = re.compile(r"(?:^|(?<=\s))(?:\(A\)|A[.):])\s")
_SECOND: Final = re.compile(r"\s(?:\(B\)|B[.):])\s")


def choices_start(question: str) -> int:
    """Return the character at which the answer options begin, or the question's length without options."""
    headed, lettered = _HEADED.search(question), _FIRST.search(question)
    if lettered and not _SECOND.search(question, lettered.end()):
        lettered = None
    return min((match.start() for match in (headed, lettered) if match), default=len(question))


Method = Literal["dictionary", "nearest", "model", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Represent characters ``start`` up to ``end`` of a question."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Configure linking.

    ``kinds``: only nodes of these types. ``max_entities``: limit on the nodes of the question's own words, and again on
    those of its answer options. ``auto``: the dictionary, then the encoder over the rest, then the model if nothing was
    found; the last two only if the linker has them. ``model_timeout_s`` bounds the one call of a model.
    """

    kinds: frozenset[str] | None = None
    max_entities: int = 8
    method: Method = "auto"
    model_timeout_s: float = 20.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_entities <= 64:
            raise ValueError(f"max_entities must be in 1..64, not {self.max_entities}")
        if self.model_timeout_s <= 0:
            raise ValueError(f"model_timeout_s must be above 0, not {self.model_timeout_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """Hold the result of linking.

    ``mentions``: each node once, in the question's order, without the nodes of the answer options, which are in
    ``options``. ``unlinked``: spans with content words that name no node of the graph. ``notes``: omissions,
    ambiguities and failures, for people.
    """

    mentions: tuple[Mention, ...]
    options: tuple[Mention, ...] = ()
    unlinked: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
