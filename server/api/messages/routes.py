"""Serve ``POST /v1/messages`` for every model and method, as Anthropic's SDKs read it.

The plain model on the vLLM engine is answered by the engine's own layer. Faults have Anthropic's shape
(``ErrorReply.body_at``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.api.answers.rendering import model_for, own_address, side_job, usage_object
from server.api.answers.session import TIMEOUT_HEADER, Answers, Indexed, fan_out
from server.api.declarations import ANSWER_ERRORS, TIMEOUT, Reads, streamed
from server.api.http_io import EVENTS, Chunk, RawRoute, cancel_on_disconnect, read_json, stream_reply
from server.api.messages.blocks import MessageBlocks
from server.api.messages.schemas import (
    CountRequest,
    MessageCount,
    MessageEvent,
    MessageReply,
    MessageRequest,
    parse_count,
    parse_message,
)
from server.api.vllm_passthrough.dispatch import dispatch_plain
from server.auth.authentication import Principal
from server.error_mapping import error_reply
from server.methods.base import AnswerRequest
from server.middleware import log_failure
from server.traces import TraceHead
from server.wiring.services import Services

router = APIRouter(route_class=RawRoute, tags=["Answers"])
_STREAM: Final = (
    "Server-sent events with names: each is a MessageEvent, comments keep the connection alive. The last one is "
    "message_stop, or error."
)


@router.post(
    "/v1/messages",
    summary="Answer messages in Anthropic's form",
    openapi_extra=Reads(MessageRequest, [TIMEOUT], event=MessageEvent),
    responses=ANSWER_ERRORS | streamed(MessageReply, _STREAM),
)
async def create_message(request: Request) -> Response:
    services: Services = request.app.state.services
    sent = await read_json(request)
    if (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body = parse_message(sent)
    answers = _answers(services, body, request)
    answers.set_own_address(own_address(request, services.settings.server.allowed_hosts))
    await answers.check(request.headers.get(TIMEOUT_HEADER))
    message = _Message(answers, body)
    if body.stream:
        return await stream_reply(request, answers, message.events(), EVENTS)
    async with cancel_on_disconnect(request.receive):
        await message.collect()
    return JSONResponse(message.ended())


@router.post(
    "/v1/messages/count_tokens",
    summary="Count the tokens of messages in Anthropic's form, before what a method adds to them",
    openapi_extra=Reads(CountRequest),
    responses=ANSWER_ERRORS | {200: {"model": MessageCount}},
)
async def count_tokens(request: Request) -> Response:
    services: Services = request.app.state.services
    sent = await read_json(request)
    if (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body = parse_count(sent)
    services.find(body.model, request.state.principal)
    encode = services.lifecycle.get().tokenizer.encode
    texts = [turn.content for turn in body.conversation()]
    counted = await services.compute(request.state.owner, lambda: sum(len(encode(text)) for text in texts))
    return JSONResponse({"input_tokens": counted})


def _answers(services: Services, body: MessageRequest, request: Request) -> Answers:
    principal: Principal = request.state.principal
    messages = body.conversation()
    job = side_job(request.headers, messages[-1].content)
    head = TraceHead(f"msg_{uuid.uuid4().hex}", body.model, principal.owner, int(time.time()))
    ask = AnswerRequest(
        request_id=head.id,
        messages=messages,
        sampling=body.sampling,
        options={} if job else body.arrowhead or {},
        key_id=principal.key_id,
    )
    answers = Answers(services, model_for(services, head.model, job, principal), fan_out(ask, 1), head)
    answers.set_side_job(job)
    return answers


class _Message:
    """Build one message, complete or as a stream of events."""

    def __init__(self, answers: Answers, body: MessageRequest) -> None:
        self._answers = answers
        self._choice = answers.choices[0]
        self._body = body
        self._blocks = MessageBlocks(answers.head.id.removeprefix("msg_"), shows_thinking=body.shows_thinking)

    async def collect(self) -> None:
        async with aclosing(self._answers.events()) as events:
            async for _, event in events:
                self._blocks.feed(event)
        self._blocks.end()

    def ended(self) -> dict[str, Any]:
        return self._head() | self._stopped | {"usage": self._usage, "arrowhead": self._choice.extra}

    async def events(self) -> AsyncGenerator[Chunk, None]:
        """Yield the stream's events.

        Errors before the answer's first event are raised; later errors are the stream's last event.
        """
        async with aclosing(self._answers.events()) as events:
            first = await anext(events, None)
            started = self._head() | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": self._usage}
            yield {"type": "message_start", "message": started}
            try:
                async with aclosing(self._rest(first, events)) as rest:
                    async for chunk in rest:
                        yield chunk
            except Exception as error:
                log_failure(error)
                yield error_reply(error).anthropic

    async def _rest(self, first: Indexed | None, events: AsyncGenerator[Indexed, None]) -> AsyncGenerator[Chunk, None]:
        for wire in self._blocks.feed(first.event) if first else ():
            yield wire
        async for _, event in events:
            for wire in self._blocks.feed(event):
                yield wire
        for chunk in self._last():
            yield chunk

    def _last(self) -> Iterator[Chunk]:
        yield from self._blocks.end()
        extra = self._choice.extra
        # Of this event the SDK's final message keeps known members alone, those with what is unknown in them.
        searches = {"web_search_requests": self._blocks.num_searches, "web_fetch_requests": 0, "arrowhead": extra}
        usage = self._usage | {"server_tool_use": searches}
        yield {"type": "message_delta", "delta": self._stopped, "usage": usage, "arrowhead": extra}
        yield {"type": "message_stop"}

    def _head(self) -> dict[str, Any]:
        head = {"id": self._answers.head.id, "type": "message", "role": "assistant", "model": self._answers.head.model}
        return head | {"content": self._blocks.content}

    @property
    def _stopped(self) -> dict[str, Any]:
        done = self._choice.done
        if self._choice.finish_reason != "stop":
            return {"stop_reason": "max_tokens", "stop_sequence": None}
        sequence = done.stop_reason if done and done.stop_reason in (self._body.stop_sequences or ()) else None
        return {"stop_reason": "stop_sequence" if sequence else "end_turn", "stop_sequence": sequence}

    @property
    def _usage(self) -> dict[str, int]:
        done = self._choice.done
        usage = usage_object([done.usage] if done else [])
        return {
            "input_tokens": usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"],
            "output_tokens": usage["completion_tokens"],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        }
