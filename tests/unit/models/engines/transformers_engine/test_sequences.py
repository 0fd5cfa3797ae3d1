"""How much of a draft or of forced tokens one sequence has room for, and when it takes none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from models.engines.transformers_engine.grammar_mask import GrammarState
from models.engines.transformers_engine.sequences import RunningSequence
from models.types import GenerateParams

PROMPT = [1, 2, 3, 4, 5, 6, 1, 2, 3]


@dataclass
class Anything:
    """A grammar that allows all tokens and forces three."""

    may_end: bool = False

    def count_allowed(self, token_ids: list[int]) -> int:
        return len(token_ids)

    def forced(self) -> Sequence[int]:
        return [7, 8, 9]


def sequence(prompt: list[int] = PROMPT, *, may_end: bool = False, columns: int = 64, **params: Any) -> RunningSequence:
    asked = GenerateParams(**{"max_tokens": 20, **params})
    made = RunningSequence("one", prompt, asked, seed="1", max_tokens=asked.max_tokens)
    made.columns = columns
    made.grammar = cast("GrammarState", Anything(may_end))
    return made


def test_a_draft_is_what_stood_behind_the_last_tokens() -> None:
    assert sequence().draft(4) == [4, 5, 6, 1]


@pytest.mark.parametrize(("columns", "max_tokens", "most"), [(11, 20, 2), (9, 20, 0), (64, 3, 2), (64, 1, 0)])
def test_a_draft_fits_into_the_row_and_the_answer(columns: int, max_tokens: int, most: int) -> None:
    """The answer's last token needs no state."""
    assert sequence(columns=columns, max_tokens=max_tokens).draft(8) == [4, 5, 6][:most]


def test_free_text_needs_a_longer_match() -> None:
    assert sequence(may_end=True).draft(2) == [4, 5]
    assert sequence([1, 2, 4, 5, 6, 1, 2], may_end=True).draft(2) == []


@pytest.mark.parametrize("params", [{"logprobs": 0}, {"logit_bias": ((0, 0.0),)}, {"repetition_penalty": 1.5}])
def test_nothing_is_forced_or_drafted_where_each_choice_counts(params: dict[str, Any]) -> None:
    one = sequence(**params)

    assert (list(one.forced(8)), one.draft(8)) == ([], [])


def test_nothing_is_drafted_without_a_grammar_or_after_the_end() -> None:
    free, finished = sequence(), sequence()
    free.grammar, finished.finished = None, True

    assert (free.draft(8), finished.draft(8), list(finished.forced(8))) == ([], [], [])


@pytest.mark.parametrize(("most", "max_tokens", "forced"), [(8, 20, 3), (2, 20, 2), (8, 1, 1)])
def test_forced_tokens_keep_the_limits(most: int, max_tokens: int, forced: int) -> None:
    assert list(sequence(max_tokens=max_tokens).forced(most)) == [7, 8, 9][:forced]
