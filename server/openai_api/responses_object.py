"""Build the response object of the Responses API without its items. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from server.openai_api.rendering import Choice, usage_object
from server.openai_api.responses_schemas import ResponsesRequest
from server.traces import TraceHead

Status = Literal["in_progress", "completed", "incomplete", "failed"]


def response_object(head: TraceHead, body: ResponsesRequest, status: Status) -> dict[str, Any]:
    """Return the response object with the request's parameters, as OpenAI repeats them.

    Constant members reflect that nothing is stored and that clients cannot define tools.
    """
    asked = body.fields
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "max_tool_calls": None,
        "metadata": asked.metadata or {},
        "model": head.model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls,
        "previous_response_id": None,
        "prompt_cache_key": asked.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": asked.safety_identifier,
        "service_tier": "default",
        "store": False,
        "temperature": asked.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": asked.top_logprobs or 0,
        "top_p": asked.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": asked.user,
    }


def usage_of_response(choice: Choice, encode: Callable[[str], list[int]]) -> dict[str, Any] | None:
    """Return the usage, None for an incomplete answer.

    Reasoning tokens are those of the text before the answer: reasoning and calls.
    """
    if choice.done is None:
        return None
    usage = usage_object([choice.done.usage])
    sampled = usage["completion_tokens"]
    # The re-encoded text can have more tokens than were sampled.
    before = len(encode(_before_the_answer(choice)))
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
            "cache_write_tokens": 0,
        },
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": max(0, min(before, sampled - len(encode(choice.done.answer))))},
        "total_tokens": usage["total_tokens"],
    }


def _before_the_answer(choice: Choice) -> str:
    written = "".join(delta.text for delta in choice.transcript if delta.origin == "sampled")
    answer = choice.done.answer if choice.done else ""
    return (written.rpartition(answer)[0] if answer else written).strip()
