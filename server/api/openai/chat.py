"""Serve ``POST /v1/chat/completions``."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from models.types import TokenLogprob
from server.api.answers.rendering import (
    Decode,
    OpenWebUiRenderer,
    chat_delta,
    chat_logprobs,
    chat_message,
    model_for,
    own_address,
    renderer_for,
    side_job,
    tool_call_deltas,
    usage_object,
)
from server.api.answers.session import TIMEOUT_HEADER, Answers, fan_out
from server.api.answers.streaming import Chunk, stream_reply
from server.api.declarations import ANSWER_ERRORS, SSE_ENDS, TIMEOUT, Reads, streamed
from server.api.http_request import RawRoute, cancel_on_disconnect, read_json
from server.api.openai.constraints import require_plain
from server.api.openai.replies import ChatCompletion, ChatCompletionChunk
from server.api.openai.schemas import ChatRequest, parse_chat
from server.api.vllm_passthrough.dispatch import dispatch_plain
from server.auth.keys import Principal
from server.methods.base import AnswerRequest, Done, Event, Evidence, TextDelta, ToolCalled
from server.traces import TraceHead
from server.wiring.services import Services

router = APIRouter(route_class=RawRoute, tags=["Answers"])


@router.post(
    "/v1/chat/completions",
    summary="Answer a conversation; the model's name says by which method",
    openapi_extra=Reads(ChatRequest, [TIMEOUT], event=ChatCompletionChunk),
    responses=ANSWER_ERRORS
    | streamed(ChatCompletion, f"Server-sent events: each `data:` line is a ChatCompletionChunk, {SSE_ENDS}"),
)
async def chat_completions(request: Request) -> Response:
    services: Services = request.app.state.services
    sent = await read_json(request, services.settings.server.max_body_bytes)
    if services.lifecycle.may_serve_openai and (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body = parse_chat(sent)
    renderer, options = renderer_for(request.headers, body.arrowhead or {})
    job = side_job(request.headers, body.messages[-1].text)
    answers = _answers(services, body, request.state.principal, job, options)
    answers.set_own_address(own_address(request, services.settings.server.allowed_hosts))
    answers.check(request.headers.get(TIMEOUT_HEADER))
    decode = services.lifecycle.get().tokenizer.decode
    if body.stream:
        return await stream_reply(request, answers, _chunks(answers, body, decode, renderer))
    async with cancel_on_disconnect(request.receive):
        await answers.collect()
    return JSONResponse(_completion(answers, body, decode))


def _answers(
    services: Services, body: ChatRequest, principal: Principal, job: str | None, options: Mapping[str, Any]
) -> Answers:
    head = TraceHead(f"chatcmpl-{uuid.uuid4().hex}", body.model, principal.owner, int(time.time()))
    ask = AnswerRequest(
        request_id=head.id,
        messages=tuple(message.to_message() for message in body.messages),
        sampling=body.sampling,
        options={} if job else options,
        key_id=principal.key_id,
        grammar=body.grammar,
        tools=body.tool_use,
    )
    served = model_for(services, body.model, job, principal)
    require_plain(served, ask, body.model)
    answers = Answers(services, served, fan_out(ask, body.n or 1), head)
    answers.set_side_job(job)
    return answers


def _completion(answers: Answers, body: ChatRequest, decode: Decode) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": chat_message(choice),
            "logprobs": chat_logprobs(choice.logprobs, decode) if body.logprobs else None,
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate(answers.choices)
    ]
    usage = usage_object([choice.done.usage for choice in answers.choices if choice.done])
    return _envelope(answers, "chat.completion") | {"choices": choices, "usage": usage}


def _envelope(answers: Answers, kind: str) -> dict[str, Any]:
    head = answers.head
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}


async def _chunks(
    answers: Answers, body: ChatRequest, decode: Decode, renderer: OpenWebUiRenderer | None
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of the reply; ``renderer`` renders Open WebUI's additional events for the first choice."""
    base = _envelope(answers, "chat.completion.chunk") | ({"usage": None} if body.include_usage else {})
    greeted: set[int] = set()
    async with aclosing(answers.events()) as events:
        async for index, event in events:
            if index not in greeted:
                greeted.add(index)
                yield base | {"choices": [_choice(index, {"role": "assistant", "content": ""})]}
            if renderer is not None and index == 0:
                for rendered in renderer.of(event, answers.choices[0]):
                    yield base | {"choices": [_choice(0, {})], "event": rendered}
                if isinstance(event, Evidence):
                    continue  # Open WebUI makes a source of each annotation, which would duplicate it
            for choice in _choices(index, event, answers, decode if body.logprobs else None):
                yield base | {"choices": [choice]}
    if body.include_usage:
        usage = usage_object([choice.done.usage for choice in answers.choices if choice.done])
        yield base | {"choices": [], "usage": usage}


def _choices(index: int, event: Event, answers: Answers, decode: Decode | None) -> list[dict[str, Any]]:
    """Return the chunk of one event; ``decode`` is None where no logprobs are requested."""
    if isinstance(event, Done):
        choice = answers.choices[index]
        return [_choice(index, {"arrowhead": choice.extra}) | {"finish_reason": choice.finish_reason}]
    if isinstance(event, ToolCalled):
        return [_choice(index, delta) for delta in tool_call_deltas(event)]
    delta = chat_delta(event)
    logprobs: tuple[TokenLogprob, ...] = ()
    if decode is not None and isinstance(event, TextDelta):
        logprobs = event.logprobs or ()
    if not delta or ("content" in delta and not delta["content"] and not logprobs):
        return []
    choice_object = _choice(index, delta)
    if decode is not None and logprobs:
        choice_object["logprobs"] = chat_logprobs(logprobs, decode)
    return [choice_object]


def _choice(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
