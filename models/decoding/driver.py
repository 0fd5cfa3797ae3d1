"""Run the interception loop with an engine, call handlers and a clock.

Does all I/O of the loop and owns deadlines, cancellation and the order of events; ``call_loop`` makes every decision
about text and calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from models.decoding.call_loop import CallLoop, Fetch, Finish, Generate, LoopRequest, Segment
from models.decoding.types import Call, CallFinished, CallHandler, CallReply, CallStarted, LoopEvent, TextSampled
from models.engines.base import Engine
from models.errors import kind_of
from models.types import Delta, TokenLogprob

log = logging.getLogger(__name__)


async def run(engine: Engine, request: LoopRequest, handler: CallHandler) -> AsyncGenerator[LoopEvent, None]:
    """Generate one answer, making its calls, and yield its events, the last of them ``LoopDone``.

    The text of all ``TextSampled`` together is what the model wrote. An event's ids and logprobs are as sampled: they
    may spell more than its text (a stop string, a token beyond an arrow). A handler that raises or exceeds
    ``call_timeout_s`` gives a reply with status ``error``. Cancelling the task cancels the pending call and frees the
    engine; so does closing the iterator.

    Raises:
        UnsupportedParam, EngineUnavailable or another ModelError: from the engine, at any segment.
    """
    try:
        async with aclosing(_events(engine, request, handler)) as events:
            async for event in events:
                yield event
    finally:
        # An engine may keep the sequence while a call is made, for a part that then never comes.
        await engine.abort(request.request_id)


async def _events(engine: Engine, request: LoopRequest, handler: CallHandler) -> AsyncGenerator[LoopEvent, None]:
    loop = CallLoop(request, engine.tokenizer, engine.max_model_len)
    timer = _Timer(request.limits.total_timeout_s)
    action: Generate | Fetch | Finish = loop.begin()
    while not isinstance(action, Finish):
        if isinstance(action, Generate):
            reader = _SegmentReader(action.withheld)
            async with aclosing(_generate(engine, request, action, reader, timer)) as sampled:
                async for event in sampled:
                    yield event
            action = loop.on_segment(reader.segment(), timer.elapsed_s())
            if action.emit or reader.last.reasoning or reader.last.token_ids:
                yield replace(_as_event(reader.last), text=action.emit)
        else:
            yield CallStarted(action.call)
            started_at = timer.elapsed_s()
            reply = action.refusal or await _ask(handler, action.call, request, timer)
            resumed = loop.on_reply(reply, timer.elapsed_s())
            seconds = timer.elapsed_s() - started_at
            yield CallFinished(action.call, reply, resumed.injected, resumed.num_tokens, seconds)
            action = resumed.then
    yield action.done


class _Timer:
    """Measure the time since the answer began, on the event loop's monotonic clock."""

    def __init__(self, total_s: float) -> None:
        self._clock = asyncio.get_running_loop()
        self._started = self._clock.time()
        self.deadline = self._started + total_s

    def elapsed_s(self) -> float:
        return self._clock.time() - self._started

    def earlier(self, timeout_s: float) -> float:
        """Return the deadline of an operation that may take ``timeout_s`` from now, at most the answer's own."""
        return min(self.deadline, self._clock.time() + timeout_s)


@dataclass(slots=True)
class _SegmentReader:
    """Collect the deltas of one generation.

    The last delta's text is left to the loop, which may turn it into a call.
    """

    withheld: str
    last: Delta = field(default_factory=Delta)
    _deltas: list[Delta] = field(default_factory=list)
    _timed_out: bool = False

    def add(self, delta: Delta) -> TextSampled | None:
        """Add a delta and return the event that can be shown now, if any."""
        self._deltas.append(delta)
        if delta.finish_reason is not None:
            self.last = delta
            return None
        event = _as_event(delta)
        if delta.text and self.withheld:
            event, self.withheld = replace(event, text=self.withheld + delta.text), ""
        return event if event.text or event.reasoning or event.token_ids else None

    def time_out(self) -> None:
        self._timed_out = True

    def segment(self) -> Segment:
        deltas, last = self._deltas, self.last
        finish_reason: Literal["stop", "length", "abort", "timeout"] = last.finish_reason or "abort"
        return Segment(
            text="".join(delta.text for delta in deltas),
            token_ids=tuple(token for delta in deltas for token in delta.token_ids),
            num_reasoning_tokens=sum(delta.num_reasoning_tokens for delta in deltas),
            logprobs=_joined_logprobs(deltas),
            finish_reason="timeout" if self._timed_out else finish_reason,
            stop_reason=last.stop_reason,
            num_prompt_tokens=last.num_prompt_tokens,
            num_cached_tokens=last.num_cached_tokens,
            num_streamed=sum(len(delta.text) for delta in deltas if delta.finish_reason is None),
        )


async def _generate(
    engine: Engine, request: LoopRequest, action: Generate, reader: _SegmentReader, timer: _Timer
) -> AsyncGenerator[TextSampled, None]:
    request_id = f"{request.request_id}-s{action.ordinal}"
    async with _generating(engine, action, request_id) as deltas:
        while True:
            # No yield inside the timeout: it would cancel the consumer of the events instead of the engine.
            try:
                async with asyncio.timeout_at(timer.deadline) as timeout:
                    delta = await anext(deltas, None)
            except TimeoutError:
                if not timeout.expired():
                    raise
                reader.time_out()
                return
            if delta is None:
                return
            event = reader.add(delta)
            if event is not None:
                yield event


@asynccontextmanager
async def _generating(engine: Engine, action: Generate, request_id: str) -> AsyncIterator[AsyncIterator[Delta]]:
    deltas = engine.generate(action.prompt_ids, action.params, request_id)
    try:
        yield deltas
    finally:
        # The contract requires an iterator; only a generator can be closed.
        if isinstance(deltas, AsyncGenerator):
            await deltas.aclose()
        else:
            await engine.abort(request_id)


async def _ask(handler: CallHandler, call: Call, request: LoopRequest, timer: _Timer) -> CallReply:
    try:
        async with asyncio.timeout_at(timer.earlier(request.limits.call_timeout_s)) as timeout:
            return await handler(call)
    except Exception as error:
        overran = isinstance(error, TimeoutError) and timeout.expired()
        kind = "CallTimeout" if overran else kind_of(error)
        # The call's text may contain the question, so only the kind of failure is logged.
        log.warning("call failed request_id=%s ordinal=%d error=%s", request.request_id, call.ordinal, kind)
        text = "[error: the call took too long]" if overran else "[error: the call failed]"
        return CallReply(text, "error", {"error_type": kind})


def _as_event(delta: Delta) -> TextSampled:
    logprobs = None if delta.logprobs is None else delta.logprobs[delta.num_reasoning_tokens :]
    return TextSampled(delta.text, delta.token_ids, logprobs, delta.reasoning)


def _joined_logprobs(deltas: Sequence[Delta]) -> tuple[TokenLogprob, ...] | None:
    if all(delta.logprobs is None for delta in deltas):
        return None
    return tuple(logprob for delta in deltas for logprob in delta.logprobs or ())
