"""Run the answers of one request with their events and traces.

Shared by the routes; knows no wire format.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

from server.admission.fair_queue import Ticket, estimated_tokens
from server.api.answers.rendering import Choice
from server.api.answers.sanitize import EventSanitizer
from server.error_mapping import error_reply
from server.errors import AnswerTimeout, InvalidRequest
from server.methods.base import AnswerRequest, Done, Event, Method
from server.observability.logging_setup import request_id
from server.observability.observer import AnswerMetrics, log_answer
from server.traces import TraceHead, TraceRecorder
from server.wiring.services import DIRECT, ServedModel, Services

# Distance between the seeds of choices: the segments of one answer use consecutive seeds from its own.
_SEED_STRIDE = 1000


class Indexed(NamedTuple):
    """Pair an event with the index of its choice."""

    choice: int
    event: Event


def fan_out(ask: AnswerRequest, n: int) -> list[AnswerRequest]:
    """Return ``n`` copies of the request with distinct ids and, where the client set a seed, distinct seeds."""
    seed = ask.sampling.seed
    return [
        replace(
            ask,
            request_id=f"{ask.request_id}-{i}",
            sampling=replace(ask.sampling, seed=None if seed is None else seed + _SEED_STRIDE * i),
        )
        for i in range(n)
    ]


def prompt_of(ask: AnswerRequest) -> str:
    """Return the id that all copies of one ``fan_out`` share; they have the same prompt."""
    return ask.request_id.rpartition("-")[0]


async def run_all(method: Method, asks: Sequence[AnswerRequest]) -> AsyncGenerator[Indexed, None]:
    """Yield the events of all answers as they occur.

    The first failure of an answer cancels the others and is raised.
    """
    queue: asyncio.Queue[Indexed | BaseException | None] = asyncio.Queue(maxsize=64)

    async def pump(index: int, ask: AnswerRequest) -> None:
        try:
            async with aclosing(method.answer(ask)) as events:
                async for event in events:
                    await queue.put(Indexed(index, event))
        except Exception as error:
            await queue.put(error)
        else:
            await queue.put(None)

    tasks = [asyncio.create_task(pump(i, ask)) for i, ask in enumerate(asks)]
    try:
        running = len(tasks)
        while running:
            item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        # The cancelled tasks free engine slots and pending calls; callers must not continue before that.
        await asyncio.gather(*tasks, return_exceptions=True)


TIMEOUT_HEADER: Final = "X-Request-Timeout"


class AnswerSession:
    """Run the answers of one request.

    Feeds every event to its choice and its trace, and stores the trace however the answer ends.
    """

    def __init__(self, services: Services, served: ServedModel, asks: Sequence[AnswerRequest], head: TraceHead) -> None:
        self.head = head
        self.choices = [Choice(trace_id=head.id) for _ in asks]
        self._services = services
        self._served = served
        self._asks = services.with_namespaces(head.owner, asks)
        self._recorders = [TraceRecorder(ask) for ask in self._asks]
        unsafe = served.name == DIRECT or services.settings.server.answer_images == "on"
        self._safe = None if unsafe else [EventSanitizer() for _ in asks]
        self._watch = AnswerMetrics(services.observer, head.id, served.id, [prompt_of(ask) for ask in asks])
        self._deadline = asyncio.get_running_loop().time() + services.settings.server.request_timeout_s
        self.is_admitted = False

    def set_side_job(self, job: str | None) -> None:
        """Set the side job's name in every choice."""
        for choice in self.choices:
            choice.side_job = job

    def check(self, timeout: str | None = None) -> None:
        """Check the request as far as possible before any work.

        ``timeout`` is the client's ``X-Request-Timeout``, which can only shorten the server's.

        Raises:
            InvalidRequest: the timeout or the number of choices is not valid.
            ArrowheadError: the server stops, the model is not available, or the method refuses the request.
        """
        self._services.admission.check()
        if timeout is not None:
            self._deadline = min(self._deadline, asyncio.get_running_loop().time() + timeout_seconds(timeout))
        limit = self._services.settings.server.max_n
        if len(self._asks) > limit:
            raise InvalidRequest(f"n: at most {limit} choices are served at once", param="n")
        self._services.lifecycle.get()
        self._served.method.check(self._asks[0])

    async def events(self) -> AsyncGenerator[Indexed, None]:
        """Yield the events of all choices.

        Raises:
            ArrowheadError: whatever ``Admission.place`` raises, before the first event.
            AnswerTimeout: the deadline passed, at any time.
            ServerStopping: the server stops, at any time.
        """
        failure: str | None = "cancelled"
        request = request_id.get()
        async with self._services.admission.place(self._ticket(), self._deadline) as cancel_scope:
            self.is_admitted = True
            request_id.set(self.head.id)
            self._watch.begin()
            try:
                async with aclosing(cancel_scope.iterate(run_all(self._served.method, self._asks))) as merged:
                    async for item in merged:
                        self._watch.feed(item.event)
                        self._recorders[item.choice].feed(item.event)
                        if isinstance(item.event, Done):
                            self._record_egress(item.choice)
                        for event in self._safe[item.choice].of(item.event) if self._safe else (item.event,):
                            self.choices[item.choice].feed(event)
                            yield Indexed(item.choice, event)
                failure = None
            except AnswerTimeout as error:
                failure = error_reply(error).code
                # A reply that is not streamed can return the id only in the message.
                raise AnswerTimeout(f"{error.message}; what there was is in the trace {self.head.id}") from None
            except Exception as error:
                failure = error_reply(error).code
                raise
            finally:
                self._release_egress_records()
                request_id.set(request)  # the request's access-log line follows later
                self._log(failure, request)
                await asyncio.shield(self._store(failure))

    async def collect(self) -> None:
        """Run to the end; the answers are in ``choices``."""
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass

    def _ticket(self) -> Ticket:
        """Return the queue ticket with the estimated tokens of all choices.

        Without a limit from the client, an answer counts with the most tokens that a method may generate.
        """
        default = self._services.settings.loop.max_answer_tokens
        most = self._services.lifecycle.card.context_length
        tokens = (
            min(estimated_tokens(_num_chars(ask), ask.sampling.max_tokens or default), most) for ask in self._asks
        )
        return Ticket(self._asks[0].key_id, sum(tokens))

    async def _store(self, failure: str | None) -> None:
        both = zip(self._recorders, self.choices, strict=True)
        await self._services.traces.put(self.head, [recorder.record(failure, choice.left) for recorder, choice in both])

    def _record_egress(self, index: int) -> None:
        if self._services.egress is not None:
            self.choices[index].left = self._services.egress.departures_of(self._asks[index].request_id)

    def _release_egress_records(self) -> None:
        """Record the outbound calls of all answers, including those that ended early, then clear the egress records."""
        for index, ask in enumerate(self._asks):
            self._record_egress(index)
            if self._services.egress is not None:
                self._services.egress.forget(ask.request_id)

    def _log(self, failure: str | None, request: str) -> None:
        self._services.spend(self.head.owner, sum(choice.sampled for choice in self.choices))
        record = self._watch.end(failure, [choice.done.usage if choice.done else None for choice in self.choices])
        log_answer(record, request)


def timeout_seconds(text: str) -> float:
    """Parse the value of ``X-Request-Timeout``.

    Raises:
        InvalidRequest: the value is not a positive finite number.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(f"{TIMEOUT_HEADER}: a number of seconds above 0", param=TIMEOUT_HEADER)
    return seconds


def _num_chars(ask: AnswerRequest) -> int:
    return len(ask.prompt or "") + sum(len(message.content) for message in ask.messages)
