"""Serve ``POST /v1/completions``, the raw text: its request, its replies and its stream.

For a method this text is the transcript: what the model generated and what was injected.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, ValidationError

from server.api.answers.rendering import Choice, CompletionLogprobs, Decode, usage_object
from server.api.answers.session import TIMEOUT_HEADER, Answers, fan_out
from server.api.declarations import ANSWER_ERRORS, MODEL, SSE_ENDS, TIMEOUT, Reads, Reply, Schema, streamed, with_unused
from server.api.http_io import Chunk, RawRoute, cancel_on_disconnect, first_error, read_json, stream_reply
from server.api.openai.schemas import (
    IGNORED,
    MAX_TEXT,
    NEUTRAL,
    AnswerRecord,
    Finish,
    Generation,
    Usage,
    check_stream_options,
    require_plain,
    served_fields,
)
from server.api.vllm_passthrough.dispatch import dispatch_plain
from server.auth.authentication import Principal
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.methods.base import AnswerRequest, Done, Sampling, TranscriptDelta
from server.traces import TraceHead
from server.wiring.services import Services

router = APIRouter(route_class=RawRoute, tags=["Answers"])


def _describe(schema: Schema) -> None:
    with_unused(schema, NEUTRAL, IGNORED)
    schema["examples"] = [{"model": MODEL, "prompt": "The official gene symbol of LMP10 is"}]


class CompletionRequest(Generation):
    """Request completions of one prompt or several."""

    model_config = ConfigDict(json_schema_extra=_describe)
    prompt: Annotated[str, Field(max_length=MAX_TEXT)] | Annotated[list[str], Field(min_length=1, max_length=64)]
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = Field(default=None, description="repeats the prompt in front of the text; not with logprobs")

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def sampling(self) -> Sampling:
        return self._sampling(self.max_tokens, self.logprobs)


def parse_completion(body: object) -> CompletionRequest:
    """Parse the body of a completion request.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
        UNSUPPORTED_FIELD: a field is not served; ``param`` names it.
    """
    if isinstance(body, dict) and isinstance(body.get("prompt"), list) and _holds_token_ids(body["prompt"]):
        raise RequestError("prompt: token ids are not served; send text", UNSUPPORTED_FIELD, param="prompt")
    try:
        request = CompletionRequest.model_validate(served_fields(body))
    except ValidationError as error:
        raise first_error(error) from None
    if not all(prompt.strip() for prompt in request.prompts):
        raise RequestError("prompt: is empty", param="prompt")
    if request.echo and request.logprobs is not None:
        raise RequestError(
            "echo: the prompt has no logprobs here; leave echo or logprobs out", UNSUPPORTED_FIELD, param="echo"
        )
    return check_stream_options(request)


def _holds_token_ids(prompt: list[Any]) -> bool:
    return any(isinstance(item, int | list) for item in prompt)


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


@router.post(
    "/v1/completions",
    summary="Continue a text; of a method, the whole transcript with its calls",
    openapi_extra=Reads(CompletionRequest, [TIMEOUT], event=CompletionChunk),
    responses=ANSWER_ERRORS
    | streamed(Completion, f"Server-sent events: each `data:` line is a CompletionChunk, {SSE_ENDS}"),
)
async def completions(request: Request) -> Response:
    services: Services = request.app.state.services
    sent = await read_json(request)
    if services.lifecycle.may_serve_openai and (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body = parse_completion(sent)
    answers = _answers(services, body, request.state.principal)
    await answers.check(request.headers.get(TIMEOUT_HEADER))
    decode = services.lifecycle.get().tokenizer.decode
    if body.stream:
        return await stream_reply(request, answers, _chunks(answers, body, decode))
    async with cancel_on_disconnect(request.receive):
        await answers.collect()
    return JSONResponse(_completion(answers, body, decode))


def _answers(services: Services, body: CompletionRequest, principal: Principal) -> Answers:
    """Build the requests of all choices, numbered prompt by prompt: all of the first, then all of the second."""
    head = TraceHead(f"cmpl-{uuid.uuid4().hex}", body.model, principal.owner, int(time.time()))
    asks: list[AnswerRequest] = []
    for number, prompt in enumerate(body.prompts):
        ask = AnswerRequest(
            request_id=f"{head.id}-{number}",
            prompt=prompt,
            sampling=body.sampling,
            options=body.arrowhead or {},
            key_id=principal.key_id,
            grammar=body.grammar,
        )
        asks += fan_out(ask, body.n or 1)
    served = services.find(body.model, principal)
    require_plain(served, asks[0], body.model)
    return Answers(services, served, asks, head)


def _completion(answers: Answers, body: CompletionRequest, decode: Decode) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "text": _echoed(body, index) + "".join(delta.text for delta in choice.transcript),
            "logprobs": _logprobs(choice, decode) if body.logprobs is not None else None,
            "finish_reason": choice.finish_reason,
            "arrowhead": choice.extra,
        }
        for index, choice in enumerate(answers.choices)
    ]
    return _envelope(answers) | {"choices": choices, "usage": _usage(answers, body)}


def _echoed(body: CompletionRequest, index: int) -> str:
    return body.prompts[index // (body.n or 1)] if body.echo else ""


def _logprobs(choice: Choice, decode: Decode) -> dict[str, Any]:
    """Return the logprobs of the sampled tokens; injected text has none. Offsets count in the whole text."""
    merged: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    rendering = CompletionLogprobs(decode)
    for delta in choice.transcript:
        for name, values in (rendering.feed(delta) or {}).items():
            merged[name] += values
    return merged


def _usage(answers: Answers, body: CompletionRequest) -> dict[str, Any]:
    """Return the total usage; each prompt counts once, however many choices it has."""
    n = body.n or 1
    total: dict[str, Any] = {}
    for first in range(0, len(answers.choices), n):
        group = [choice.done.usage for choice in answers.choices[first : first + n] if choice.done]
        total = _sum(total, usage_object(group))
    return total


def _sum(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    if not left:
        return right
    return {k: _sum(left[k], v) if isinstance(v, dict) else left[k] + v for k, v in right.items()}


def _envelope(answers: Answers) -> dict[str, Any]:
    head = answers.head
    return {"id": head.id, "object": "text_completion", "created": head.created, "model": head.model}


async def _chunks(answers: Answers, body: CompletionRequest, decode: Decode) -> AsyncGenerator[Chunk, None]:
    base = _envelope(answers) | ({"usage": None} if body.include_usage else {})
    renderings = [CompletionLogprobs(decode) for _ in answers.choices]
    echoed: set[int] = set()
    async with aclosing(answers.events()) as events:
        async for index, event in events:
            choice = answers.choices[index]
            if body.echo and index not in echoed:
                echoed.add(index)
                yield base | {"choices": [_choice(index, _echoed(body, index))]}
            if isinstance(event, Done):
                last = _choice(index, "") | {"finish_reason": choice.finish_reason, "arrowhead": choice.extra}
                yield base | {"choices": [last]}
            elif isinstance(event, TranscriptDelta) and (event.text or event.logprobs):
                logprobs = renderings[index].feed(event)
                part = {"logprobs": logprobs if body.logprobs is not None else None}
                yield base | {"choices": [_choice(index, event.text) | part]}
    if body.include_usage:
        yield base | {"choices": [], "usage": _usage(answers, body)}


def _choice(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": None}
