"""Serve ``POST /v1/chat/completions``: its request, its replies and its stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, ValidationError

from models.decoding.types import ToolUse
from models.types import TokenLogprob
from server.api.answers import file_search, site_tools
from server.api.answers.file_search import FileScope, scope_of, searching_model, take_file_search
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
from server.api.answers.site_tools import take_site_tools
from server.api.declarations import (
    ANSWER_ERRORS,
    KEEP,
    MODEL,
    QUESTION,
    SSE_ENDS,
    TIMEOUT,
    Reads,
    Reply,
    Schema,
    streamed,
    with_unused,
)
from server.api.http_io import Chunk, RawRoute, cancel_on_disconnect, first_error, read_json, stream_reply
from server.api.openai.schemas import (
    IGNORED,
    MAX_MESSAGES,
    NEUTRAL,
    AnswerRecord,
    ChatMessage,
    Choice,
    Finish,
    Generation,
    NamedTool,
    Tools,
    Usage,
    answer_schema,
    check_stream_options,
    refuse_other_parts,
    require_plain,
    served_fields,
    tool_use_of,
)
from server.api.vllm_passthrough.dispatch import dispatch_plain
from server.auth.authentication import Principal
from server.errors import RequestError
from server.methods.base import AnswerRequest, Done, Event, Evidence, Sampling, TextDelta, ToolCalled
from server.traces import TraceHead
from server.wiring.services import Services

router = APIRouter(route_class=RawRoute, tags=["Answers"])
_PARTS = frozenset({"text", "refusal"})


def _describe(schema: Schema) -> None:
    with_unused(schema, NEUTRAL, IGNORED)
    schema["properties"]["tools"]["anyOf"] += [file_search.tools_schema(), site_tools.tools_schema()]
    schema["examples"] = [{"model": MODEL, "messages": [{"role": "user", "content": QUESTION}]}]


class ChatRequest(Generation):
    """Request a chat completion."""

    model_config = ConfigDict(json_schema_extra=_describe)
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: Tools | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None

    @property
    def tool_use(self) -> ToolUse | None:
        choice = self.tool_choice.function if isinstance(self.tool_choice, NamedTool) else self.tool_choice
        functions = [tool.function for tool in self.tools or ()]
        use = tool_use_of(functions, choice, self.parallel_tool_calls, answer_schema(self.response_format))
        if use is not None and self.structured_outputs is not None:
            raise RequestError("structured_outputs: not together with tools", param="structured_outputs")
        return use

    @property
    def sampling(self) -> Sampling:
        return self._sampling(
            self.max_completion_tokens or self.max_tokens, (self.top_logprobs or 0) if self.logprobs else None
        )


def parse_chat(body: object) -> ChatRequest:
    """Parse the body of a chat request.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
        UNSUPPORTED_FIELD: a field is not served; ``param`` names it.
    """
    messages = body.get("messages") if isinstance(body, dict) else None
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        refuse_other_parts(message.get("content") if isinstance(message, dict) else None, f"messages[{place}]", _PARTS)
    try:
        request = ChatRequest.model_validate(served_fields(body))
    except ValidationError as error:
        raise first_error(error) from None
    if request.top_logprobs is not None and not request.logprobs:
        raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise RequestError("max_tokens and max_completion_tokens exclude each other", param="max_tokens")
    for place, message in enumerate(request.messages):
        _check_message(message, f"messages[{place}]")
    if not any(m.role == "user" and m.text.strip() for m in request.messages):
        raise RequestError("messages: there is no user message with text", param="messages")
    return check_stream_options(request)


def _check_message(message: ChatMessage, place: str) -> None:
    if message.content is None and not message.tool_calls:
        raise RequestError(f"{place}.content: Field required", param=f"{place}.content")
    if message.tool_calls and message.role != "assistant":
        raise RequestError(f"{place}.tool_calls: only of an assistant", param=f"{place}.tool_calls")
    if (message.role == "tool") != (message.tool_call_id is not None):
        raise RequestError(
            f"{place}.tool_call_id: belongs to each message of role tool, and to no other",
            param=f"{place}.tool_call_id",
        )


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


@router.post(
    "/v1/chat/completions",
    summary="Answer a conversation; the model's name says by which method",
    openapi_extra=Reads(ChatRequest, [TIMEOUT, KEEP], event=ChatCompletionChunk),
    responses=ANSWER_ERRORS
    | streamed(ChatCompletion, f"Server-sent events: each `data:` line is a ChatCompletionChunk, {SSE_ENDS}"),
)
async def chat_completions(request: Request) -> Response:
    services: Services = request.app.state.services
    sent, search = take_file_search(await read_json(request))
    sent, site = take_site_tools(sent)
    is_openai = services.lifecycle.may_serve_openai and search is None and not site
    if is_openai and (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body = parse_chat(sent)
    renderer, options = renderer_for(request.headers, body.arrowhead or {})
    job = side_job(request.headers, body.messages[-1].text)
    scope = None if search is None else await scope_of(services, request.state.principal, search)
    answers = _answers(services, body, request.state.principal, _Wanted(job, options, scope, site))
    answers.set_own_address(own_address(request, services.settings.server.allowed_hosts))
    await answers.check(request.headers.get(TIMEOUT_HEADER))
    decode = services.lifecycle.get().tokenizer.decode
    if body.stream:
        return await stream_reply(request, answers, _chunks(answers, body, decode, renderer))
    async with cancel_on_disconnect(request.receive):
        await answers.collect()
    return JSONResponse(_completion(answers, body, decode))


class _Wanted(NamedTuple):
    """Hold the side job that a chat client asks for, the options of the method, and what it searches and calls."""

    job: str | None
    options: Mapping[str, Any]
    scope: FileScope | None
    site: tuple[str, ...]


def _answers(services: Services, body: ChatRequest, principal: Principal, wanted: _Wanted) -> Answers:
    head = TraceHead(f"chatcmpl-{uuid.uuid4().hex}", body.model, principal.owner, int(time.time()))
    ask = AnswerRequest(
        request_id=head.id,
        messages=tuple(message.to_message() for message in body.messages),
        sampling=body.sampling,
        options={} if wanted.job else wanted.options,
        key_id=principal.key_id,
        grammar=body.grammar,
        tools=body.tool_use,
        site_tools=wanted.site,
    )
    if wanted.scope is None:
        served = model_for(services, body.model, wanted.job, principal)
    else:
        served, ask = searching_model(services, body.model, principal), wanted.scope.narrowed(ask)
    require_plain(served, ask, body.model)
    answers = Answers(services, served, fan_out(ask, body.n or 1), head)
    answers.set_side_job(wanted.job)
    answers.cite_files(wanted.scope)
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
        cited = {} if choice.files is None else {"annotations": choice.annotations}
        return [_choice(index, {"arrowhead": choice.extra} | cited) | {"finish_reason": choice.finish_reason}]
    if isinstance(event, Evidence) and answers.choices[index].files is not None:
        return []  # which files are cited is known at the end
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
