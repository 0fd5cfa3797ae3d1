"""What is asked of a linker and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from retrieval.graph.types import Mention

Method = Literal["dictionary", "nearest", "model", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Characters ``start`` up to ``end`` of a question."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """``kinds``: only nodes of these types. ``max_entities`` of the question's own words, and as many again of its
    answer options. ``auto``: the dictionary, then the encoder over what is left, then the model where nothing was
    found; each of the last two where the linker has it. ``model_timeout_s`` bounds the one call of a model.
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
    """``mentions``: each node once, in the question's order, without those among the answers to choose from, which are
    ``options``. ``unlinked``: stretches with words of content that name no node of the graph. ``notes``: what was left
    out, ambiguous or went wrong, for the reader.
    """

    mentions: tuple[Mention, ...]
    options: tuple[Mention, ...] = ()
    unlinked: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
