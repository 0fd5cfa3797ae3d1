"""Generate one continuation on the model's server, sending it again when the replica that makes it is lost.

The ids so far go to the same address as a prompt, and the stream goes on where it was. Under a grammar of the whole
output, no rest of which can be sampled alone, the output is sampled again and must begin as it did.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from models.engines.base import Tokenizer
from models.engines.remote_engine.connection import Reply, events_of, read_whole
from models.engines.remote_engine.handshake import refusal_of
from models.engines.remote_engine.model_server import ModelServer
from models.engines.remote_engine.wire import (
    GENERATE,
    SESSION,
    Completion,
    Dialect,
    Event,
    ReplicaLost,
    ReplicaRefused,
    Usage,
    binds_whole_output,
    read_event,
    request_body,
)
from models.engines.vllm_engine.stream import VllmStream
from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams

log = logging.getLogger(__name__)

# A request that ends each replica it reaches must not end all of them.
_MOST_REPEATS: Final = 3
# The count of cached tokens comes right behind the last token.
_SETTLE_S: Final = 2.0
_PAUSE_S: Final = 0.3
_T = TypeVar("_T")


class Aborted(Exception):
    """Signal that the request was aborted from outside."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Hold one request. By ``session`` a router chooses the replica; requests of one answer have the same."""

    prompt_ids: Sequence[int]
    params: GenerateParams
    session: str
    request_id: str


class Generation:
    """Run one request to its end. ``stream`` turns its tokens into deltas and counts them."""

    def __init__(self, ask: Ask, server: ModelServer, tokenizer: Tokenizer, silence_s: float) -> None:
        self.stream = VllmStream(ask.prompt_ids, ask.params, tokenizer)
        self._ask = ask
        self._server = server
        self._tokenizer = tokenizer
        self._silence_s = silence_s
        self._ids: list[int] = []
        self._repeats = 0
        self._waiting: asyncio.Timeout | None = None

    def abort(self) -> None:
        """End the request; its stream ends with ``abort``."""
        self.stream.aborted = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """Yield the deltas, the last with a finish reason.

        Raises:
            UnsupportedParam, ModelError: the replica refuses the request.
            EngineUnavailable: no replica could generate it to its end.
        """
        while True:
            try:
                if self._repeats > 1:
                    # A router needs a moment to notice that a replica has gone.
                    await self._wait(asyncio.sleep(_PAUSE_S * self._repeats), None)
                dialect = await self._wait(self._server.ready(), None)
                async with aclosing(self._attempt(dialect)) as deltas:
                    async for delta in deltas:
                        yield delta
                        if delta.finish_reason is not None:
                            return
            except Aborted:
                yield self.stream.abort()
                return
            except ReplicaRefused as error:
                failure = error.as_error(self._ask.params)
                if not isinstance(failure, ReplicaLost):
                    raise failure from error
                self._repeat(failure)
            except ReplicaLost as lost:
                self._repeat(lost)

    async def _attempt(self, dialect: Dialect) -> AsyncGenerator[Delta, None]:
        """Yield what one replica adds to the tokens so far; it may end them at a stop that is none here."""
        body, again = self._body(dialect)
        done = len(self._ids)
        if body is None:
            yield self.stream.advance(Event(Completion(finish_reason="length")))
            return
        async with AsyncExitStack() as stack:
            sent = self._server.connection.open(GENERATE, body, [(SESSION, self._ask.session.encode())])
            response = await self._wait(stack.enter_async_context(sent), self._silence_s)
            if response.status_code != 200:
                reply = await self._wait(read_whole(response), self._silence_s)
                raise refusal_of(Reply(response.status_code, reply))
            events = await stack.enter_async_context(aclosing(events_of(response)))
            fresh = await stack.enter_async_context(aclosing(self._new(events, again)))
            async for event in fresh:
                self._ids += event.completion.token_ids
                delta = self.stream.advance(event)
                if delta.finish_reason is not None:
                    is_over = event.completion.finish_reason is not None or event.stopped_at is not None
                    cached = await self._cached_tokens(events) if is_over else 0
                    delta = replace(delta, num_cached_tokens=cached)
                    await stack.aclose()
                yield delta
        if len(self._ids) == done:
            raise ReplicaLost("the stream ended without a token")

    def _body(self, dialect: Dialect) -> tuple[dict[str, Any] | None, list[int]]:
        """Return the request, None where nothing is left to generate, and the ids that it generates again."""
        ask, done = self._ask, self._ids
        params, prompt_ids, again = ask.params, [*ask.prompt_ids, *done], list[int]()
        if len(done) >= params.max_tokens or len(prompt_ids) >= dialect.max_model_len:
            return None, []
        if binds_whole_output(params):
            prompt_ids, again = list(ask.prompt_ids), list(done)
        else:
            params = replace(params, max_tokens=params.max_tokens - len(done))
        return request_body(prompt_ids, params, self._tokenizer, dialect), again

    async def _new(self, events: AsyncIterator[Any], again: list[int]) -> AsyncGenerator[Event, None]:
        """Yield the events with tokens that come after those that were sampled ``again``.

        Raises:
            EngineUnavailable: the events begin with other tokens.
            ReplicaLost: the replica gave the request up.
        """
        while (data := await self._wait(anext(events, None), self._silence_s)) is not None:
            event = read_event(data)
            if not isinstance(event, Event):
                continue
            ids, reason = event.completion.token_ids, event.completion.finish_reason
            if reason == "abort":
                raise ReplicaLost("the replica gave the request up")
            number = min(len(ids), len(again))
            if list(ids[:number]) != again[:number] or (reason is not None and number < len(again)):
                raise self._other_beginning()
            del again[:number]
            if len(ids) > number or reason is not None:
                yield event.without(number)

    async def _cached_tokens(self, events: AsyncIterator[Any]) -> int:
        """Return how many tokens of the prompt were cached, which the replica says behind the last token; 0 if not."""
        try:
            async with self._server.connection.bounded(_SETTLE_S):
                async for data in events:
                    usage = read_event(data)
                    if isinstance(usage, Usage):
                        return min(usage.num_cached_tokens or 0, len(self._ask.prompt_ids))
        except (ReplicaLost, ReplicaRefused) as error:
            log.debug("no usage: request_id=%s cause=%s", self._ask.request_id, type(error).__name__)
        return 0

    def _repeat(self, cause: Exception) -> None:
        """Prepare the next attempt.

        Raises:
            EngineUnavailable: there is none.
        """
        self._repeats += 1
        self._server.suspect()
        log.warning("stream repeated: request_id=%s tokens=%d cause=%s", self._ask.request_id, len(self._ids), cause)
        if self._repeats > _MOST_REPEATS:
            raise EngineUnavailable(f"the request failed {self._repeats} times, each time with a replica") from cause

    def _other_beginning(self) -> EngineUnavailable:
        grammar = self._ask.params.grammar
        return EngineUnavailable(
            f"the replica was lost in mid-answer, and {grammar.param if grammar else 'grammar'} holds for the whole of "
            "it: another one samples another beginning; ask again, or with temperature 0"
        )

    async def _wait(self, awaitable: Awaitable[_T], seconds: float | None) -> _T:
        """Wait for ``seconds`` at most, or until the request is aborted.

        Raises:
            Aborted: it was.
            ReplicaLost: the time is over.
        """
        limit = asyncio.timeout(0 if self.stream.aborted else seconds)
        try:
            async with limit:
                self._waiting = limit
                return await awaitable
        except TimeoutError as error:
            if not limit.expired():
                raise
            if self.stream.aborted:
                raise Aborted from error
            raise ReplicaLost("the replica does not answer") from error
        finally:
            self._waiting = None
