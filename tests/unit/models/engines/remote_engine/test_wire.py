"""Requests have the fields that vLLM reads, and its events become tokens."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from models.engines.remote_engine.wire import (
    Dialect,
    Event,
    ReplicaLost,
    ReplicaRefused,
    Usage,
    binds_whole_output,
    check_room,
    read_event,
    request_body,
)
from models.engines.tokenizer import HfTokenizer
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, ModelError, UnsupportedParam
from models.types import GenerateParams, Grammar

DIALECT = Dialect(model="m", max_model_len=100)
FREE = Grammar(
    "structural_tag", json.dumps({"format": {"type": "triggered_tags", "triggers": ["[https://"], "tags": []}})
)


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> HfTokenizer:
    return HfTokenizer.load(str(tiny_llama))


def test_a_request_has_room_salt_priority_and_stops(tokenizer: HfTokenizer) -> None:
    """What the context leaves, the smallest priority first, and stop strings with their tokens."""
    params = GenerateParams(max_tokens=500, stop=("]->",), cache_salt="key", priority=2, logit_bias=((7, -3.0),))
    dialect = Dialect(model="m", max_model_len=100, padded=range(380, 382), has_priorities=True)
    body = request_body([1, 2, 3], params, tokenizer, dialect)
    fields = body["sampling_params"]

    assert (body["token_ids"], body["cache_salt"], body["priority"]) == ([1, 2, 3], "key", -2)
    assert (fields["max_tokens"], fields["stop"], fields["include_stop_str_in_output"]) == (97, ["]->"], True)
    assert fields["logit_bias"] == {"7": -3.0, "380": -100.0, "381": -100.0}
    assert fields["stop_token_ids"] == sorted(tokenizer.eos_token_ids)
    assert "structured_outputs" not in fields


def test_a_request_without_wishes_has_none(tokenizer: HfTokenizer) -> None:
    """vLLM refuses an empty salt, and a priority where it does not schedule by it."""
    body = request_body([1], GenerateParams(max_tokens=5, priority=2), tokenizer, DIALECT)
    assert not {"cache_salt", "priority", "reasoning_ended"} & body.keys()
    assert body["sampling_params"]["logit_bias"] is None
    assert body["sampling_params"]["detokenize"] is False


@pytest.mark.parametrize(
    ("kind", "name"),
    [("regex", "regex"), ("json_schema", "json"), ("lark", "grammar"), ("structural_tag", "structural_tag")],
)
def test_a_grammar_has_vllms_name(tokenizer: HfTokenizer, kind: str, name: str) -> None:
    params = GenerateParams(max_tokens=5, grammar=Grammar(kind, "spec"))  # type: ignore[arg-type]  # parametrized
    body = request_body([1], params, tokenizer, DIALECT)
    assert body["sampling_params"]["structured_outputs"] == {name: "spec"}
    assert body["reasoning_ended"] is True


def test_more_biases_than_the_table_has_places_are_refused() -> None:
    """The padded ids count; an entry too many would end the replica for all."""
    params = GenerateParams(max_tokens=1, logit_bias=tuple((token, 1.0) for token in range(1000)))
    check_room(params, DIALECT)
    with pytest.raises(UnsupportedParam, match="logit_bias"):
        check_room(params, Dialect(model="m", max_model_len=9, padded=range(25)))


def test_an_event_has_tokens_and_probabilities() -> None:
    """A probability of zero, for which JSON has no number, is one."""
    entry = {"token_id": 7, "logprob": -0.5, "top_logprobs": [{"token_id": 9, "logprob": -9999.0}]}
    choice = {"token_ids": [7], "finish_reason": "length", "stop_reason": None, "logprobs": {"content": [entry]}}
    event = read_event({"choices": [choice], "usage": None})

    assert isinstance(event, Event)
    assert (event.completion.token_ids, event.completion.finish_reason, event.stopped_at) == ((7,), "length", None)
    assert {token: one.logprob for token, one in event.completion.logprobs[0].items()} == {7: -0.5, 9: -math.inf}


def test_a_stop_string_is_no_end_token() -> None:
    """Its last token has text; the end is decided by the reader of the tokens."""
    event = read_event({"choices": [{"token_ids": [7], "finish_reason": "stop", "stop_reason": "]->"}]})
    assert isinstance(event, Event)
    assert (event.completion.finish_reason, event.stopped_at) == (None, "]->")


def test_usage_says_whether_cached_tokens_are_counted() -> None:
    details = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    assert read_event({"choices": [], "usage": details}) == Usage(2)
    assert read_event({"choices": [], "usage": {"prompt_tokens": 3}}) == Usage(None)
    assert read_event({"choices": [], "usage": None}) is None


@pytest.mark.parametrize("data", [[], {}, {"choices": 3}, {"choices": [{"token_ids": 3}]}, None, "x"])
def test_an_event_of_another_form_is_a_failure_of_the_replica(data: object) -> None:
    with pytest.raises(ReplicaLost):
        read_event(data)


def test_an_error_belongs_to_the_request_or_to_the_replica() -> None:
    """What another replica would refuse too is told; the rest is tried there."""
    plain = GenerateParams(max_tokens=1)
    constrained = GenerateParams(max_tokens=1, grammar=Grammar("regex", "(", param="response_format"))
    with pytest.raises(ReplicaRefused) as caught:
        read_event({"error": {"message": "bad regex\nsecond line", "code": 400, "param": None}})

    error = caught.value.as_error(constrained)
    assert isinstance(error, ModelError) and GRAMMAR_INVALID.is_of(error)
    assert (error.message, error.param) == ("bad regex", "response_format")
    assert isinstance(caught.value.as_error(plain), UnsupportedParam)
    assert ENGINE_FULL.is_of(ReplicaRefused(429, "full", None).as_error(plain))
    for status in (401, 404, 500, 503):
        assert isinstance(ReplicaRefused(status, "no", None).as_error(plain), ReplicaLost)


def test_a_grammar_with_free_text_binds_no_whole_output() -> None:
    assert binds_whole_output(GenerateParams(max_tokens=1, grammar=Grammar("structural_tag", "{}")))
    assert not binds_whole_output(GenerateParams(max_tokens=1, grammar=FREE))
    assert not binds_whole_output(GenerateParams(max_tokens=1))
