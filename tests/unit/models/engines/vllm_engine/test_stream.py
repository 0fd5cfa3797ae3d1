"""vLLM's outputs as deltas. The outputs are plain records of vLLM's shape; no engine runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from models.engines.scripted_engine import ByteTokenizer
from models.engines.vllm_engine.stream import VllmStream
from models.errors import GRAMMAR_INVALID, EngineUnavailable, ModelError
from models.types import Delta, GenerateParams, Grammar

TOKENIZER = ByteTokenizer()
EOS = min(TOKENIZER.eos_token_ids)


def output(ids: list[int], reason: str | None = None, logprobs: list[dict[int, float]] | None = None) -> Any:
    entries: Any = logprobs and [
        {i: SimpleNamespace(logprob=value) for i, value in entry.items()} for entry in logprobs
    ]
    completion = SimpleNamespace(token_ids=ids, finish_reason=reason, stop_reason=None, logprobs=entries)
    return SimpleNamespace(outputs=[completion], num_cached_tokens=64, finished=reason is not None)


def stream(**params: Any) -> VllmStream:
    return VllmStream(range(70), GenerateParams(**{"max_tokens": 50, **params}), TOKENIZER)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def test_a_stop_string_ends_the_answer_where_its_last_token_is() -> None:
    """What the engine sampled beyond the stop string in the same step is dropped, ids too."""
    running = stream(stop=("->",))
    first = running.advance(output(ids("a-")))
    last = running.advance(output(ids("> more")))

    assert (first.text, first.finish_reason) == ("a", None)
    assert (last.text, last.token_ids) == ("", tuple(ids(">")))
    assert (last.finish_reason, last.stop_reason) == ("stop", "->")
    assert running.finished


def test_counts_come_with_the_last_delta_only() -> None:
    """Prompt and cached tokens are reported once, at the end."""
    running = stream()
    first, last = running.advance(output(ids("a"))), running.advance(output(ids("b"), "length"))

    assert (first.num_prompt_tokens, first.num_cached_tokens) == (0, 0)
    assert (last.num_prompt_tokens, last.num_cached_tokens, last.finish_reason) == (70, 64, "length")


def test_an_end_token_has_an_id_and_no_text() -> None:
    """EOS ends with stop and no stop reason."""
    last = stream().advance(output([*ids("b"), EOS], "stop"))

    assert last == Delta(
        text="b", token_ids=(*ids("b"), EOS), finish_reason="stop", num_prompt_tokens=70, num_cached_tokens=64
    )


def test_an_abort_by_vllm_releases_what_was_withheld() -> None:
    """The last delta of an aborted request has no token but the rest of the text."""
    running = stream(stop=("->",))
    running.advance(output(ids("a-")))
    last = running.advance(output([], "abort"))

    assert (last.text, last.token_ids, last.finish_reason) == ("-", (), "abort")


def test_logprobs_are_sorted_cut_and_free_of_what_a_grammar_forbids() -> None:
    """vLLM adds the sampled token to the alternatives and reports forbidden ones as minus infinity."""
    a, b, c = ids("abc")
    entry = {c: -3.0, b: -0.5, a: -1.5, 7: float("-inf"), TOKENIZER.vocab_size + 3: -0.1}
    delta = stream(logprobs=2).advance(output([c], logprobs=[entry]))

    assert delta.logprobs is not None
    assert delta.logprobs[0].logprob == -3.0
    assert delta.logprobs[0].top == ((b, -0.5), (a, -1.5))


def test_logprobs_end_with_the_stop_string_too() -> None:
    """One entry for each id that is reported."""
    entries = [{i: -1.0} for i in ids("->x")]
    delta = stream(logprobs=0, stop=("->",)).advance(output(ids("->x"), logprobs=entries))

    assert delta.logprobs is not None
    assert [found.token_id for found in delta.logprobs] == list(delta.token_ids) == ids("->")
    assert all(found.top == () for found in delta.logprobs)


def test_a_grammar_that_fails_before_any_token_is_at_fault() -> None:
    """vLLM compiles grammars late; what fails there is the caller's grammar."""
    with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
        stream(grammar=Grammar("regex", "a")).advance(output([], "error"))


def test_a_failure_in_mid_answer_is_the_engines() -> None:
    """Without a grammar, or after tokens, the engine gave up."""
    running = stream(grammar=Grammar("regex", "a*"))
    running.advance(output(ids("a")))

    with pytest.raises(EngineUnavailable):
        running.advance(output([], "error"))
    with pytest.raises(EngineUnavailable):
        stream().advance(output([], "error"))


def test_a_request_that_repeats_itself_ends_within_an_output() -> None:
    """``finished`` makes the engine close vLLM's request; what was sampled beyond is dropped."""
    running = stream(stop_on_repetition=True)
    first, last = running.advance(output(ids("ab" * 60))), running.advance(output(ids("ab" * 60)))

    assert first.finish_reason is None
    assert (last.finish_reason, last.stop_reason, len(last.token_ids)) == ("length", "repetition", 8)
    assert running.finished


def test_without_the_guard_a_request_may_repeat_itself() -> None:
    """Plain text for a client that asks for it."""
    assert stream().advance(output(ids("ab" * 300))).finish_reason is None
