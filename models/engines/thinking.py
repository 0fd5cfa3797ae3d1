"""Know the tokens between which a model writes its thinking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from models.types import Grammar

_PAIRS: Final = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)


@dataclass(frozen=True, slots=True)
class ThinkingTokens:
    """Hold the tokens that begin and end the thinking of a reply, as ids and as text."""

    start: int
    end: int
    start_text: str
    end_text: str

    @classmethod
    def of(cls, control: Mapping[str, int]) -> ThinkingTokens | None:
        """Return the tokens that a vocabulary has for thinking, if any."""
        for start, end in _PAIRS:
            if start in control and end in control:
                return cls(control[start], control[end], start, end)
        return None

    def is_open(self, prompt_ids: Sequence[int]) -> bool:
        """Return whether the prompt ends inside thinking, as some templates begin a reply."""
        for token_id in reversed(prompt_ids):
            if token_id in (self.start, self.end):
                return token_id == self.start
        return False


def begins_thinking(tokens: ThinkingTokens | None, prompt_ids: Sequence[int], grammar: Grammar | None) -> bool:
    """Return whether the first token of a reply is thinking; a grammar of the whole output leaves no room for any."""
    if tokens is None or (grammar is not None and grammar.kind != "structural_tag"):
        return False
    return tokens.is_open(prompt_ids)
