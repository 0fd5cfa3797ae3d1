"""Run the answers of one request: admission, deadline, events, traces, accounting.

Every answer has an ``AnswerSession``, also one that vLLM's own layer writes; ``Answers`` runs those of a method in one.
Knows no wire format.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from server.admission import CancelScope, Ticket, estimated_tokens
from server.api.answers.file_search import FileCitations, FileScope
from server.api.answers.rendering import Choice, EventAddresses
from server.api.answers.sanitize import EventSanitizer
from server.api.http_io import MAX_CHOICES
from server.error_mapping import error_reply
from server.errors import ANSWER_TIMEOUT, EgressRaised, RequestError
from server.methods.base import DIRECT, AnswerRequest, Done, Event, Method
from server.observability.observer import AnswerMetrics, TokenCounts, log_answer, request_id, token_counts
from server.tape import RecordingTape, use
from server.traces import TraceHead, TraceRecorder
from server.wiring.services import ServedModel, Services

TIMEOUT_HEADER: Final = "X-Request-Timeout"
# Distance between the seeds of choices: the segments of one answer use consecutive seeds from its own.
_SEED_STRIDE: Final = 1000


def deadline_of(services: Services, timeout: str | None) -> float:
    """Return the deadline of a request, on the event loop's clock.

    ``timeout`` is the client's ``X-Request-Timeout``, which can only shorten the server's.

    Raises:
        RequestError: the value is not a positive finite number.
    """
    seconds = services.settings.server.request_timeout_s
    if timeout is not None:
        seconds = min(seconds, _positive_seconds(timeout))
    return asyncio.get_running_loop().time() + seconds


def _positive_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise RequestError(f"{TIMEOUT_HEADER}: a number of seconds above 0", param=TIMEOUT_HEADER)
    return seconds


class Account(NamedTuple):
    """State what an answer has used when it ends.

    ``sampled`` is charged to the key. ``outcome`` is that of a session whose block raised nothing. ``fields`` are
    added to the log line.
    """

    tokens: TokenCounts
    sampled: int
    outcome: str = "ok"
    fields: Mapping[str, str] = {}


class AnswerSession:
    """Admit the answers of one request, and account for them however they end.

    ``metrics`` has the answer's id. ``owner`` is the digest of the key that is charged.
    """

    def __init__(self, services: Services, metrics: AnswerMetrics, owner: str) -> None:
        self.metrics = metrics
        self.is_admitted = False
        self._services = services
        self._owner = owner

    @asynccontextmanager
    async def admitted(
        self, ticket: Ticket, deadline: float, account: Callable[[], Account]
    ) -> AsyncIterator[CancelScope]:
        """Hold a place for the block, in which log lines have the answer's id.

        At its end, reports the answer to the observer, charges its key and writes its log line. ``account`` is called
        once then; a cancelled block has the outcome ``cancelled``.

        Raises:
            ArrowheadError: whatever ``Admission.place`` raises, before the block.
        """
        request = request_id.get()
        async with self._services.admission.place(ticket, deadline) as cancel_scope:
            self.is_admitted = True
            request_id.set(self.metrics.id)
            self.metrics.begin()
            failure: str | None = "cancelled"
            try:
                yield cancel_scope
                failure = None
            except Exception as error:
                failure = error_reply(error).code
                raise
            finally:
                request_id.set(request)  # the request's access-log line follows later
                used = account()
                self._services.spend(self._owner, used.sampled)
                log_answer(self.metrics.end(failure or used.outcome, used.tokens), request, used.fields)


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


async def run_all(
    method: Method, asks: Sequence[AnswerRequest], tapes: Sequence[RecordingTape | None] = ()
) -> AsyncGenerator[Indexed, None]:
    """Yield the events of all answers as they occur; each one's look-ups go on its tape.

    The first failure of an answer cancels the others and is raised.
    """
    queue: asyncio.Queue[Indexed | BaseException | None] = asyncio.Queue(maxsize=64)

    async def pump(index: int, ask: AnswerRequest) -> None:
        use(tapes[index] if tapes else None)
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


class Answers:
    """Run a method's answers to one request.

    Feeds every event to its choice and its trace, and stores the trace however the answers end.
    """

    def __init__(self, services: Services, served: ServedModel, asks: Sequence[AnswerRequest], head: TraceHead) -> None:
        self.head = head
        self.choices = [Choice(trace_id=head.id) for _ in asks]
        self._services = services
        self._served = served
        self._asks = [replace(ask, salt=services.salt_for(ask.key_id)) for ask in asks]
        self._recorders = [TraceRecorder(ask) for ask in self._asks]
        is_plain = served.name == DIRECT
        calls_nobody = is_plain and not any(ask.site_tools for ask in asks)
        self._egress = None if calls_nobody else services.egress
        self._safe = None if is_plain else [EventSanitizer() for _ in asks]
        self._addresses = [EventAddresses("") for _ in asks]
        metrics = AnswerMetrics(services.observer, head.id, served.id, len(self._asks))
        self._session = AnswerSession(services, metrics, head.owner)
        self._deadline = math.inf

    @property
    def is_admitted(self) -> bool:
        return self._session.is_admitted

    def set_side_job(self, job: str | None) -> None:
        """Set the side job's name in every choice."""
        for choice in self.choices:
            choice.side_job = job

    def cite_files(self, scope: FileScope | None) -> None:
        """Let every choice cite the files of a search; None: they search none."""
        for choice in self.choices:
            choice.files = None if scope is None else FileCitations(scope)

    def set_own_address(self, base: str) -> None:
        """Set what the addresses of this server's own passages begin with, "" for nothing."""
        self._addresses = [EventAddresses(base) for _ in self._asks]

    async def check(self, timeout: str | None = None) -> None:
        """Check the request as far as possible before any work, and set its deadline and its namespaces.

        Raises:
            RequestError: the timeout or the number of choices is not valid.
            UNAUTHORIZED: the key was revoked in the meantime.
            ArrowheadError: the server stops, the model is not available, or the method refuses the request.
        """
        self._services.admission.check()
        self._deadline = deadline_of(self._services, timeout)
        if len(self._asks) > MAX_CHOICES:
            raise RequestError(f"n: at most {MAX_CHOICES} choices are served at once", param="n")
        self._services.lifecycle.get()
        self._asks = await self._services.with_namespaces(self._served, self.head.owner, self._asks)
        self._recorders = [TraceRecorder(ask) for ask in self._asks]
        self._served.method.check(self._asks[0])

    async def events(self) -> AsyncGenerator[Indexed, None]:
        """Yield the events of all choices; ``check`` comes first.

        Raises:
            ArrowheadError: whatever ``Admission.place`` raises, before the first event.
            ANSWER_TIMEOUT: the deadline passed, at any time.
            RequestError: the server stops, at any time.
        """
        failure: str | None = "cancelled"
        self._tell_egress()
        tapes = [recorder.tape for recorder in self._recorders]
        async with self._session.admitted(self._ticket(), self._deadline, self._account) as cancel_scope:
            try:
                async with aclosing(cancel_scope.iterate(run_all(self._served.method, self._asks, tapes))) as merged:
                    async for item in merged:
                        for event in self._fed(item):
                            yield Indexed(item.choice, event)
                failure = None
            except Exception as error:
                failure = error_reply(error).code
                if isinstance(error, EgressRaised) and self._egress is not None:
                    await self._egress.recorded()
                if not isinstance(error, RequestError) or not ANSWER_TIMEOUT.is_of(error):
                    raise
                # A reply that is not streamed can return the id only in the message.
                raise RequestError(
                    f"{error.message}; what there was is in the trace {self.head.id}", ANSWER_TIMEOUT
                ) from None
            finally:
                self._release_egress_records()
                await asyncio.shield(self._store(failure))

    async def collect(self) -> None:
        """Run to the end; the answers are in ``choices``."""
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass

    def _fed(self, item: Indexed) -> Sequence[Event]:
        """Feed one event of a method to metrics, trace and choice, and return the events that may be shown."""
        index, event = item
        self._session.metrics.feed(event)
        self._recorders[index].feed(event)
        if isinstance(event, Done):
            self._record_egress(index)
        events = list(self._addresses[index].of(event))
        if self._safe:
            events = [safe for one in events for safe in self._safe[index].of(one)]
        for one in events:
            self.choices[index].feed(one)
        return events

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
        both = list(zip(self._recorders, self.choices, strict=True))
        records = await asyncio.to_thread(lambda: [one.record(failure, choice.left) for one, choice in both])
        await self._services.traces.put(self.head, records)

    def _tell_egress(self) -> None:
        """Tell what the person wrote: the identifiers in it may leave for the answer, those of a model may not."""
        if self._egress is None:
            return
        for ask in self._asks:
            self._egress.hear(ask.request_id, written_by_person(ask))

    def _record_egress(self, index: int) -> None:
        if self._egress is not None:
            self.choices[index].left = self._egress.departures_of(self._asks[index].request_id)

    def _release_egress_records(self) -> None:
        """Record the outbound calls of all answers, including those that ended early, then clear the egress records."""
        for index, ask in enumerate(self._asks):
            self._record_egress(index)
            if self._egress is not None:
                self._egress.forget(ask.request_id)

    def _account(self) -> Account:
        usages = [choice.done.usage if choice.done else None for choice in self.choices]
        tokens = token_counts([prompt_of(ask) for ask in self._asks], usages)
        return Account(tokens, sum(choice.sampled for choice in self.choices))


def written_by_person(ask: AnswerRequest) -> list[str]:
    """Return the texts of a request that are no model's: the prompt, the user's messages, and articles in options."""
    texts = [ask.prompt or "", *(message.content for message in ask.messages if message.role == "user")]
    chosen = ask.options.get("articles") or ()
    articles = chosen if isinstance(chosen, list | tuple) else ()
    return texts + [f"PMID {article}" for article in articles if article]


def _num_chars(ask: AnswerRequest) -> int:
    return len(ask.prompt or "") + sum(len(message.content) for message in ask.messages)
