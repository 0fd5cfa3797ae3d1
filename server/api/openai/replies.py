"""Describe the replies of the OpenAI endpoints for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from models.decoding.types import LoopFinish
from server.api.declarations import Reply

Finish = Literal["stop", "length", "tool_calls"]


class PromptTokensDetails(Reply):
    """Count the prompt's tokens by kind."""

    cached_tokens: int


class Usage(Reply):
    """Count tokens; the model wrote completion_tokens, and injected replies count as prompt."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class RecordedCall(Reply):
    """Describe a call that a method made."""

    url: str
    status: str
    summary: str


class AnswerRecord(Reply):
    """Describe how an answer was found."""

    trace_id: str
    answer: str = Field(description="bare: without reference list and markers")
    finish_reason: LoopFinish
    calls: list[RecordedCall]
    egress: str = Field(description="what left this machine for the answer, in words")


class AnswerMessage(Reply):
    """Describe the message of an answer."""

    role: Literal["assistant"]
    content: str | None
    annotations: list[dict[str, Any]] = Field(description="url_citation: title, url, place")
    arrowhead: AnswerRecord


class ChatChoice(Reply):
    """Describe one answer."""

    index: int
    message: AnswerMessage
    finish_reason: Finish


class ChatCompletion(Reply):
    """Describe the answers to a chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatChunkChoice(Reply):
    """Describe a part of an answer."""

    index: int
    delta: dict[str, Any]
    finish_reason: Finish | None


class ChatCompletionChunk(Reply):
    """Describe one chunk of a streamed chat completion."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]


class CompletionChoice(Reply):
    """Describe one text."""

    index: int
    text: str
    finish_reason: Finish
    arrowhead: AnswerRecord


class Completion(Reply):
    """Describe the texts of a completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunkChoice(Reply):
    """Describe a part of a text."""

    index: int
    text: str
    finish_reason: Finish | None


class CompletionChunk(Reply):
    """Describe one chunk of a streamed completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChunkChoice]
