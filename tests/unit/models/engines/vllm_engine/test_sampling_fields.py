"""Our parameters have vLLM's names, and what vLLM would compute wrongly is refused."""

from __future__ import annotations

import pytest

from models.engines.vllm_engine.sampling_fields import (
    check_beside_drafts,
    check_penalties,
    sampling_fields,
    structured_field,
)
from models.errors import UnsupportedParam
from models.types import GenerateParams, Grammar


def test_the_context_bounds_the_tokens() -> None:
    assert sampling_fields(GenerateParams(max_tokens=50), 20, {7})["max_tokens"] == 20
    assert sampling_fields(GenerateParams(max_tokens=5), 20, {7})["max_tokens"] == 5


def test_end_tokens_end_a_request_unless_they_are_ignored() -> None:
    """Not under a grammar, which lifts its mask when it is complete."""
    ignoring = GenerateParams(max_tokens=5, ignore_eos=True)
    constrained = GenerateParams(max_tokens=5, ignore_eos=True, grammar=Grammar("regex", "a"))
    found = [sampling_fields(params, 9, {8, 7}) for params in (GenerateParams(max_tokens=5), ignoring, constrained)]
    assert [(one["ignore_eos"], one["stop_token_ids"]) for one in found] == [
        (False, [7, 8]),
        (True, []),
        (False, [7, 8]),
    ]


def test_a_grammar_is_one_field() -> None:
    assert structured_field(Grammar("lark", "start: x")) == {"grammar": "start: x"}
    assert structured_field(Grammar("regex", "a+")) == {"regex": "a+"}


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
def test_penalties_over_inserted_text_are_refused(name: str) -> None:
    """vLLM takes earlier text of an answer for the prompt's."""
    check_penalties(GenerateParams(max_tokens=5, **{name: 1.0}))  # type: ignore[arg-type]  # one of two names
    with pytest.raises(UnsupportedParam) as caught:
        check_penalties(GenerateParams(max_tokens=5, written=(), **{name: 1.0}))  # type: ignore[arg-type]
    assert caught.value.param == name


@pytest.mark.parametrize(("name", "value"), [("min_p", 0.1), ("logit_bias", ((1, 2.0),))])
def test_what_vllm_lacks_beside_drafts_is_refused(name: str, value: object) -> None:
    check_beside_drafts(GenerateParams(max_tokens=5))
    with pytest.raises(UnsupportedParam) as caught:
        check_beside_drafts(GenerateParams(max_tokens=5, **{name: value}))  # type: ignore[arg-type]  # one of two names
    assert caught.value.param == name
