"""Serve ``POST /v1/responses``: a request carries its own history, or follows what is stored where that is switched on.

A stream's events are in OpenAI's order, each with its ``sequence_number``. The last one is ``response.completed``,
``response.incomplete`` or ``response.failed`` and contains the response that the same request without ``stream`` gets.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from models.decoding.tool_calls import tool_format
from models.errors import UnsupportedParam
from retrieval.errors import STATE_UNAVAILABLE, DatabaseUnavailable
from server.api.answers.file_search import FileCitations, FileScope, scope_of, searching_model, take_file_search
from server.api.answers.rendering import Choice, model_for, own_address, side_job, usage_object
from server.api.answers.session import TIMEOUT_HEADER, Answers, Indexed, fan_out
from server.api.answers.site_tools import take_site_tools
from server.api.declarations import ANSWER_ERRORS, TIMEOUT, Reads, streamed
from server.api.http_io import EVENTS, Chunk, cancel_on_disconnect, read_json, stream_reply
from server.api.openai.schemas import MAX_MESSAGES, require_plain
from server.api.responses.background import BackgroundAnswers
from server.api.responses.functions import without_calls
from server.api.responses.items import Ending, FileItems, ResponseItems, ToolItems, Wire
from server.api.responses.schemas import (
    ResponseEvent,
    ResponseReply,
    ResponseRequest,
    ResponsesRequest,
    parse_responses,
)
from server.api.responses.state import Keeper, Kept, history_of, input_items, take_kept
from server.api.responses.stored import settled
from server.api.vllm_passthrough.dispatch import dispatch_plain, is_plain
from server.auth.authentication import Principal
from server.error_mapping import error_reply
from server.errors import RequestError
from server.methods.base import AnswerRequest
from server.middleware import log_failure
from server.traces import TraceHead
from server.wiring.services import Services

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
# An answer in the background that has not ended so long after its deadline was lost with its server.
_LATE_S: Final = 60.0


def response_object(head: TraceHead, body: ResponsesRequest, status: Status) -> dict[str, Any]:
    """Return the response object with the request's parameters, as OpenAI repeats them."""
    fields = body.fields
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": fields.instructions,
        "max_output_tokens": fields.max_output_tokens,
        "max_tool_calls": None,
        "metadata": fields.metadata or {},
        "model": head.model,
        "output": [],
        "parallel_tool_calls": fields.parallel_tool_calls is not False,
        "prompt_cache_key": fields.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": fields.safety_identifier,
        "service_tier": "default",
        "temperature": fields.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": fields.model_dump(include={"tool_choice"})["tool_choice"] or "auto",
        "tools": list(body.tools),
        "top_logprobs": fields.top_logprobs or 0,
        "top_p": fields.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": fields.user,
    } | body.kept.fields


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


router = APIRouter(tags=["Answers"])
_STREAM = (
    "Server-sent events with names: each is a ResponseEvent, comments keep the connection alive. The last one is "
    "response.completed or response.incomplete, or, after the event error, response.failed."
)


@router.post(
    "/v1/responses",
    summary="Answer typed input items; stored where the server stores responses",
    openapi_extra=Reads(ResponseRequest, [TIMEOUT], event=ResponseEvent),
    responses=ANSWER_ERRORS | streamed(ResponseReply, _STREAM),
)
async def create_response(request: Request) -> Response:
    services: Services = request.app.state.services
    whole: Any = await read_json(request)
    sent, search = take_file_search(whole)
    sent, site = take_site_tools(sent)
    sent, kept = take_kept(sent, is_on=services.responses is not None)
    is_openai = (
        services.lifecycle.may_serve_openai and search is None and not site and _may_pass_on(services, sent, kept)
    )
    if is_openai and (plain := await dispatch_plain(request, sent)) is not None:
        return plain
    body, keeper = await _kept_body(request, sent, kept)
    body = replace(body, tools=tuple(whole.get("tools") or ()), site_tools=site)
    job = side_job(request.headers, body.messages[-1].content)
    scope = None if search is None else await scope_of(services, request.state.principal, search)
    answers = _answers(services, body, request.state.principal, job, scope)
    answers.set_own_address(own_address(request, services.settings.server.allowed_hosts))
    await answers.check(request.headers.get(TIMEOUT_HEADER))
    answer = _Answer(answers, body, services, scope, keeper)
    if keeper is not None and kept.background:
        return await _begun(request, answer, keeper)
    if body.fields.stream:
        return await stream_reply(request, answers, answer.events(), EVENTS)
    async with cancel_on_disconnect(request.receive):
        await answer.collect()
    return JSONResponse(await answer.ended())


def _may_pass_on(services: Services, sent: object, kept: Kept) -> bool:
    """Return whether the engine's own layer may answer, which stores nothing.

    Where nothing is said of storing, it answers only what this server's own form has no room for, such as calls of
    functions in a form that is not read here.
    """
    if kept.is_named or not kept.store:
        return not kept.is_named
    try:
        if parse_responses(sent).tool_use is not None:
            tool_format(services.lifecycle.get().tokenizer)
    except (RequestError, UnsupportedParam):
        return True
    return False


async def _kept_body(request: Request, sent: Any, kept: Kept) -> tuple[ResponsesRequest, Keeper | None]:
    """Return the request behind the messages that it follows, and what stores its response, None where it is not."""
    services: Services = request.app.state.services
    stored, owner = services.responses, request.state.owner
    body = replace(parse_responses(sent), kept=kept)
    if stored is None or not (kept.store or kept.conversation or kept.previous):
        return body, None
    items = input_items(sent["input"])
    if kept.previous:
        await settled(request, kept.previous, "previous_response_id")
    before = await history_of(stored, owner, kept, len(items) + 1)
    before = before if is_plain(services, body.fields.model) else without_calls(before)
    head = 1 if body.fields.instructions else 0
    messages = (*body.messages[:head], *before, *body.messages[head:])
    if len(messages) > MAX_MESSAGES:
        name = "conversation" if kept.conversation else "previous_response_id"
        raise RequestError(f"{name}: at most {MAX_MESSAGES} messages are read, with those before", param=name)
    return replace(body, messages=messages), Keeper(stored, owner, kept, items)


async def _begun(request: Request, answer: _Answer, keeper: Keeper) -> Response:
    """Answer in the background; reply with the response that waits."""
    background: BackgroundAnswers = request.app.state.background
    services: Services = request.app.state.services
    until = time.time() + services.settings.server.request_timeout_s + _LATE_S
    async with background.admission:
        background.check_room(keeper.owner)
        waiting = await keeper.keep(answer.waiting("in_progress"), until)
        if not waiting["store"]:
            raise DatabaseUnavailable(
                "the response cannot be stored, so that it could not be read again", STATE_UNAVAILABLE
            )
        background.begin(keeper.owner, waiting["id"], answer.run(keeper))
    return JSONResponse(answer.waiting("queued"))


def _answers(
    services: Services, body: ResponsesRequest, principal: Principal, job: str | None, scope: FileScope | None
) -> Answers:
    head = TraceHead(f"resp_{uuid.uuid4().hex}", body.fields.model, principal.owner, int(time.time()))
    ask = AnswerRequest(
        request_id=head.id,
        messages=body.messages,
        sampling=body.sampling,
        options={} if job else body.fields.arrowhead or {},
        key_id=principal.key_id,
        tools=body.tool_use,
        site_tools=body.site_tools,
    )
    if scope is None:
        served = model_for(services, head.model, job, principal)
    else:
        served, ask = searching_model(services, head.model, principal), scope.narrowed(ask)
    require_plain(served, ask, head.model, "input")
    answers = Answers(services, served, fan_out(ask, 1), head)
    answers.set_side_job(job)
    return answers


class _Answer:
    """Build one response, complete or as a stream of events."""

    def __init__(
        self,
        answers: Answers,
        body: ResponsesRequest,
        services: Services,
        scope: FileScope | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self._keeper = keeper
        self._answers = answers
        self._choice = answers.choices[0]
        self._body = body
        self._tokenizer = services.lifecycle.get().tokenizer
        decode = self._tokenizer.decode if body.wants_logprobs else None
        stem = answers.head.id.removeprefix("resp_")
        self._items = (
            (ToolItems if body.site_tools else ResponseItems)(stem, decode)
            if scope is None
            else FileItems(
                stem, FileCitations(scope), body.messages[-1].content, with_results=body.wants_results, decode=decode
            )
        )
        self._numbers = count()

    async def collect(self) -> None:
        async with aclosing(self._answers.events()) as events:
            async for _, event in events:
                self._items.feed(event)
        self._items.end(self._status)

    async def ended(self) -> dict[str, Any]:
        """Return the response, stored where the request wants it."""
        response = self._object(self._status)
        return response if self._keeper is None else await self._keeper.keep(response)

    def waiting(self, status: Status) -> dict[str, Any]:
        return response_object(self._answers.head, self._body, status)

    async def run(self, keeper: Keeper) -> None:
        """Answer, and store how that ends; one that is cancelled stores nothing."""
        try:
            await self.collect()
            ended = self._object(self._status)
        except Exception as error:
            log_failure(error)
            ended = self._failure(error)
        await keeper.replace(ended)

    async def events(self) -> AsyncGenerator[Chunk, None]:
        """Yield the stream's events.

        Errors before the answer's first event are raised; later errors are the stream's last events.
        """
        async with aclosing(self._answers.events()) as events:
            first = await anext(events, None)
            response = self._object("in_progress")
            for wire in self._numbered([{"type": f"response.{name}"} for name in ("created", "in_progress")]):
                yield wire | {"response": response}
            try:
                async with aclosing(self._rest(first, events)) as rest:
                    async for chunk in rest:
                        yield chunk
            except Exception as error:
                log_failure(error)
                for wire in await self._failed(error):
                    yield wire

    async def _rest(self, first: Indexed | None, events: AsyncGenerator[Indexed, None]) -> AsyncGenerator[Chunk, None]:
        for wire in self._numbered(self._items.feed(first.event) if first else ()):
            yield wire
        async for _, event in events:
            for wire in self._numbered(self._items.feed(event)):
                yield wire
        ended = self._items.end(self._status)
        for wire in self._numbered([*ended, {"type": f"response.{self._status}", "response": await self.ended()}]):
            yield wire

    async def _failed(self, error: Exception) -> Iterator[Wire]:
        reply = error_reply(error)
        self._items.fail()
        failure = self._failure(error)
        failure = failure if self._keeper is None else await self._keeper.keep(failure)
        event = {"type": "error", "code": reply.code, "message": reply.message, "param": reply.param}
        return self._numbered([event, {"type": "response.failed", "response": failure}])

    def _failure(self, error: Exception) -> dict[str, Any]:
        reply = error_reply(error)
        # OpenAI's list of codes is closed; a stream's event before this has the exact one.
        code = "rate_limit_exceeded" if reply.status == 429 else "server_error"
        return self._object("failed") | {"error": {"code": code, "message": reply.message}}

    def _numbered(self, wires: Sequence[Wire]) -> Iterator[Wire]:
        for wire in wires:
            yield wire | {"sequence_number": next(self._numbers)}

    @property
    def _status(self) -> Ending:
        return "incomplete" if self._choice.finish_reason == "length" else "completed"

    def _object(self, status: Status) -> dict[str, Any]:
        response = response_object(self._answers.head, self._body, status)
        if status == "in_progress":
            return response
        usage = usage_of_response(self._choice, self._tokenizer.encode)
        return response | {"output": self._items.items, "usage": usage, "arrowhead": self._choice.extra}
