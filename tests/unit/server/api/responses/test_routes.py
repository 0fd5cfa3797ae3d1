"""Usage under the names of the Responses API."""

from __future__ import annotations

from models.decoding.types import LoopUsage
from server.api.answers.rendering import Choice
from server.api.responses.routes import usage_of_response
from server.methods.base import Done, TranscriptDelta


def _usage(written: str, answer: str, sampled: int) -> dict[str, int]:
    """One token a character."""
    choice = Choice(trace_id="t")
    choice.feed(TranscriptDelta(written))
    choice.feed(TranscriptDelta("a reply", "injected"))
    usage = LoopUsage(prompt_tokens=10, sampled_tokens=sampled, injected_tokens=7, cached_tokens=4)
    choice.feed(Done(answer=answer, finish_reason="stop", stop_reason=None, usage=usage))
    made = usage_of_response(choice, lambda text: list(text.encode()))
    assert made is not None
    return {
        "input": made["input_tokens"],
        "output": made["output_tokens"],
        "total": made["total_tokens"],
        "cached": made["input_tokens_details"]["cached_tokens"],
        "reasoning": made["output_tokens_details"]["reasoning_tokens"],
    }


def test_replies_are_input_and_thoughts_are_reasoning() -> None:
    """What was put in was not written by the model; what came before the answer was."""
    assert _usage("think Answer: yes", "yes", 17) == {
        "input": 17,
        "output": 17,
        "total": 34,
        "cached": 4,
        "reasoning": 13,
    }


def test_a_bare_answer_has_no_reasoning() -> None:
    """White space before it is none."""
    assert _usage(" yes", "yes", 4)["reasoning"] == 0


def test_the_answers_own_tokens_are_never_reasoning() -> None:
    """The count of a text made anew can be higher than the number of tokens that were sampled."""
    assert _usage("long thoughts. yes", "yes", 6)["reasoning"] == 3


def test_without_an_answer_all_is_reasoning() -> None:
    """The limit came first."""
    assert _usage("thinking", "", 8)["reasoning"] == 8


def test_what_did_not_end_has_no_usage() -> None:
    """A failed response says null."""
    assert usage_of_response(Choice(trace_id="t"), lambda text: []) is None
