"""Create OpenTelemetry spans of requests, of answers and of the steps inside them that take time.

This is the only file that imports opentelemetry; it is imported only if ``tracing.endpoint`` is set. Spans hold names,
numbers and codes, never a text, an id of a person or a key. Spans that have children are open while these are created;
the others are created from the reports that the metrics count, after their time is over. The context that a report
comes from determines the parent. Names are OpenTelemetry's where it defines them (``gen_ai.*``, ``http.*``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Unpack, get_args

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from models.decoding.types import CallStatus
from models.errors import kind_of
from retrieval.corpus.search.ranking import RANKERS
from retrieval.errors import NcbiError
from retrieval.ncbi.calls.urls import OutgoingRequest
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.observer import Encoded, PartName, SpanAttributes
from retrieval.types import Endpoint
from server.observability.observer import AnswerRecord, Generation, HttpRequest, Observer
from server.settings.server import TracingSettings
from server.version import installed_version

log = logging.getLogger(__name__)
_LIMITS: Final = SendLimits(connect_timeout_s=2.0, timeout_s=10.0, max_reply_bytes=2**20)
_MAX_OPEN: Final = 65_536
_NS: Final = 1_000_000_000
Attributes = Mapping[str, str | int | float | bool | tuple[str, ...]]
_CANCELLED: Final = "cancelled"
# Fixed attributes of parts, added to the reported ones.
_KINDS: Final[dict[PartName, dict[str, str]]] = {
    "search": {"gen_ai.operation.name": "retrieval"},
    "call": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "extension"},
    "link": {},
    "lookup": {},
    "round": {},
}
_NAMES: Final = {"tool": "gen_ai.tool.name"}
# The only texts of a part that a span holds, whatever is reported.
_WORDS: Final = frozenset(
    (*get_args(Endpoint), *get_args(CallStatus), *RANKERS, "here", "spoke", "dictionary", "model")
)
_ENCODINGS: Final[dict[Encoded, str]] = {"query": "encode", "passage": "encode", "pair": "rerank"}


class Tracing:
    """Create spans from reports and pass the reports on to ``inner``; implements ``Observer``.

    Parts become spans and are not passed on. ``close`` exports the pending spans.
    """

    def __init__(self, inner: Observer, settings: TracingSettings, exporter: SpanExporter) -> None:
        self._inner = inner
        resource = Resource({"service.name": "arrowhead", "service.version": installed_version()})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("arrowhead")
        self._answers: OrderedDict[str, Span] = OrderedDict()

    async def close(self) -> None:
        await asyncio.to_thread(self._provider.shutdown)

    def begin_request(self, traceparent: str, tracestate: str) -> object:
        """Start the span of a request and attach its context to the caller; ``end_request`` ends the span."""
        carrier = {"traceparent": traceparent, "tracestate": tracestate}
        parent = TraceContextTextMapPropagator().extract(carrier, Context()) if traceparent else Context()
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        otel_context.attach(set_span_in_context(span))
        return span

    def end_request(self, span: object, request: HttpRequest) -> None:
        if not isinstance(span, Span):
            return
        span.update_name(f"{request.method} {request.route}" if request.route else request.method)
        attributes: dict[str, str | int] = {
            "http.request.method": request.method,
            "http.route": request.route,
            "http.response.status_code": request.status,
        }
        span.set_attributes(attributes | ({"error.type": request.code} if request.code else {}))
        if request.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def replied(self, request: HttpRequest) -> None:
        self._inner.replied(request)

    def answer_began(self, answer_id: str, model: str) -> None:
        self._inner.answer_began(answer_id, model)
        span = self._tracer.start_span(
            "answer", attributes={"arrowhead.model": model, "arrowhead.answer.id": answer_id}
        )
        self._answers[answer_id] = span
        while len(self._answers) > _MAX_OPEN:
            self._answers.popitem(last=False)
        # The tasks of the answer run in copies of this context; it is never detached.
        otel_context.attach(set_span_in_context(span))

    def answer_ended(self, record: AnswerRecord) -> None:
        self._inner.answer_ended(record)
        span = self._answers.pop(record.id, None)
        if span is None:
            return
        tokens = record.tokens
        span.set_attributes(
            {
                "arrowhead.outcome": record.outcome,
                "arrowhead.choices": record.choices,
                "arrowhead.calls": record.num_calls,
                "gen_ai.usage.input_tokens": tokens.prompt + tokens.injected,
                "gen_ai.usage.output_tokens": tokens.sampled,
                "gen_ai.usage.cache_read.input_tokens": tokens.cached,
                "arrowhead.tokens.computed": tokens.computed,
            }
        )
        if record.first_s is not None:
            span.set_attribute("arrowhead.time_to_first_token", record.first_s)
        if record.outcome not in {"ok", "cancelled"}:
            span.set_status(Status(StatusCode.ERROR, record.outcome))
        span.end()

    def generated(self, generation: Generation) -> None:
        self._inner.generated(generation)
        attributes: dict[str, str | int | float | bool | tuple[str, ...]] = {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.provider.name": "arrowhead",
            "gen_ai.request.model": generation.model,
            "gen_ai.request.max_tokens": generation.max_tokens,
            "gen_ai.usage.input_tokens": generation.prompt_tokens,
            "gen_ai.usage.output_tokens": generation.sampled_tokens,
            "gen_ai.usage.cache_read.input_tokens": generation.cached_tokens,
            "gen_ai.response.finish_reasons": (generation.finish_reason,),
        }
        if generation.first_s is not None:
            attributes["gen_ai.response.time_to_first_chunk"] = generation.first_s
        self._span("generate", generation.seconds, attributes, failure=generation.failure)

    def part(self, name: PartName, **facts: Unpack[SpanAttributes]) -> _Part:
        return _Part(self._tracer.start_span(name, attributes={**_KINDS[name], **_attributes(facts)}))

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None:
        self._inner.ncbi_request(endpoint, failure, seconds)
        self._span("ncbi", seconds, {"arrowhead.ncbi.endpoint": endpoint}, SpanKind.CLIENT, failure)

    def ncbi_waited(self, seconds: float) -> None:
        self._inner.ncbi_waited(seconds)
        if seconds >= 0.001:
            self._span("wait for the rate limit", seconds, {})

    def ncbi_cache(self, *, hit: bool) -> None:
        self._inner.ncbi_cache(hit=hit)

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None:
        self._inner.searched(retriever, num_namespaces, seconds)

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None:
        self._inner.encoded(kind, num_texts, seconds)
        self._span(_ENCODINGS[kind], seconds, {"arrowhead.encode.kind": kind, "arrowhead.encode.texts": num_texts})

    def _span(
        self, name: str, seconds: float, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL, failure: str = ""
    ) -> None:
        """Record a span of the given duration that ends now."""
        end = time.time_ns()
        span = self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=end - int(seconds * _NS))
        _fail(span, failure)
        span.end(end)


class _Part:
    """Run the enclosed block in the context of a span."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._outside = otel_context.get_current()
        self._inside = set_span_in_context(span)

    def __enter__(self) -> _Part:
        otel_context.attach(self._inside)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # A generator may be closed in another context than it was opened in.
        if otel_context.get_current() is self._inside:
            otel_context.attach(self._outside)
        if error is not None:
            is_cancelled = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            self.failed(_CANCELLED if is_cancelled else kind_of(error))
        self._span.end()

    def annotate(self, **facts: Unpack[SpanAttributes]) -> None:
        self._span.set_attributes(_attributes(facts))

    def failed(self, kind: str) -> None:
        _fail(self._span, kind)


def _attributes(facts: SpanAttributes) -> dict[str, str | int]:
    return {_NAMES.get(name, f"arrowhead.{name}"): _number_or_word(value) for name, value in facts.items()}


def _number_or_word(value: object) -> str | int:
    if isinstance(value, int):
        return value
    return str(value) if value in _WORDS else "other"


def _fail(span: Span, failure: str) -> None:
    """Mark a span as failed or cancelled; a cancellation is no error.

    ``failure``: "" for none, ``cancelled``, or a class name.
    """
    if failure == _CANCELLED:
        span.set_attribute("arrowhead.outcome", _CANCELLED)
    elif failure:
        span.set_attribute("error.type", failure)
        span.set_status(Status(StatusCode.ERROR))


class SenderExporter(SpanExporter):
    """Export batches of spans through the one outbound sender of the process.

    Therefore no proxy settings come from the environment. It is called from the thread of the batch processor. Batches
    that the collector does not accept are dropped.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._sender_loop: tuple[HttpSender, asyncio.AbstractEventLoop] | None = None
        self._failing = False

    def set_sender(self, sender: HttpSender) -> None:
        """Set the sender; called on the event loop that ``sender`` runs on."""
        self._sender_loop = sender, asyncio.get_running_loop()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._sender_loop is None or self._sender_loop[1].is_closed():
            return self._failed("the server has stopped")
        sender, loop = self._sender_loop
        body = encode_spans(spans).SerializeToString()
        request = OutgoingRequest("POST", self._endpoint, body, "application/x-protobuf")
        try:
            future = asyncio.run_coroutine_threadsafe(sender.send(request, _LIMITS), loop)
            reply = future.result(_LIMITS.timeout_s + 5)
        except (NcbiError, TimeoutError, RuntimeError) as error:
            return self._failed(kind_of(error))
        if reply.status >= 300:
            return self._failed(str(reply.status))
        self._failing = False
        return SpanExportResult.SUCCESS

    def _failed(self, cause: str) -> SpanExportResult:
        """Log the first of consecutive failures, not each batch, and return the result."""
        if not self._failing:
            log.warning("spans are not taken by the collector and are dropped: cause=%s", cause)
        self._failing = True
        return SpanExportResult.FAILURE
