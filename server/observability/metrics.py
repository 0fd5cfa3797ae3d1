"""Count and time the work of server and egress service for Prometheus; join these metrics with tracing if configured.

Label values come from closed sets: route templates, served models, endpoints, codes. Any other value becomes ``other``,
so that no client can create a time series and no text of a user occurs in one. No tracing library is imported without a
collector of spans.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Final, Protocol, Unpack, get_args

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from models.decoding.types import CallStatus
from models.errors import ArrowheadError
from models.types import EngineStats
from retrieval.corpus.search.ranking import RANKERS
from retrieval.index.backends.card import CardUse
from retrieval.ncbi.client.transport import HttpSender
from retrieval.observer import NULL_PART, Encoded, PartName, SpanAttributes, TraceSpan
from retrieval.types import Endpoint
from server.admission import Admission
from server.auth.rate_limits import RateLimiter
from server.engine.lifecycle import EngineLifecycle, State
from server.error_mapping import error_codes
from server.observability.observer import HTTP_METHODS, AnswerRecord, Generation, HttpRequest, Observer, TokenCounts
from server.settings.server import TracingSettings
from server.version import installed_version

_COUNTED: Final = {
    "requests": ("requests_finished", "Sequences that have ended"),
    "prompt_tokens_computed": ("prompt_tokens_computed", "Prompt tokens that were computed"),
    "prompt_tokens_cached": ("prompt_tokens_cached", "Prompt tokens taken from the prefix cache"),
    "generated_tokens": ("tokens_generated", "Tokens written by the model, those of unfinished answers too"),
}


class ServerState(Protocol):
    """Provide the state to collect; ``Services`` implements it."""

    @property
    def draining(self) -> bool: ...

    @property
    def lifecycle(self) -> EngineLifecycle: ...

    @property
    def running_jobs(self) -> int: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def rates(self) -> RateLimiter: ...

    @property
    def egress_refusals(self) -> Mapping[str, int]: ...

    @property
    def card_use(self) -> CardUse | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class StateCollector(Collector):
    """Collect the state without blocking, as it runs on the event loop."""

    state: ServerState

    def collect(self) -> Iterator[Metric]:
        state = self.state
        yield from self._admission()
        yield _gauge("draining", "1 while the server stops", float(state.draining))
        yield _gauge("jobs_running", "Changes of namespaces under way", state.running_jobs)
        yield self._egress()
        yield from self._vectors()
        yield from self._engine()
        build = GaugeMetricFamily(
            "arrowhead_build_info", "What runs, always 1", labels=("version", "python", "engine", "model")
        )
        build.add_metric(
            (installed_version(), platform.python_version(), engine_kind(state.lifecycle), state.lifecycle.card.name), 1
        )
        yield build

    def _admission(self) -> Iterator[Metric]:
        admission, limits = self.state.admission, self.state.admission.limits
        yield _gauge("requests_in_flight", "Requests being answered", admission.in_flight)
        yield _gauge("requests_waiting", "Requests that wait for a place", admission.waiting)
        yield _gauge("admission_tokens", "Estimated tokens of all that run and wait", admission.tokens)
        bounds = GaugeMetricFamily("arrowhead_admission_limit", "Bounds that are set", labels=("of",))
        for name in ("running", "running_per_key", "waiting", "tokens"):
            if (bound := getattr(limits, name)) is not None:
                bounds.add_metric((name,), bound)
        yield bounds
        ends = CounterMetricFamily(
            "arrowhead_admissions", "Requests for a place, by what came of it", labels=("result",)
        )
        for name, number in asdict(admission.counts).items():
            ends.add_metric((name,), number)
        yield ends
        help_text = "Requests that were refused because of their key's rate, by what there was none left of"
        rates = CounterMetricFamily("arrowhead_rate_refusals", help_text, labels=("unit",))
        for unit, number in self.state.rates.refused.items():
            rates.add_metric((unit,), number)
        yield rates

    def _egress(self) -> Metric:
        text = "Calls that were kept on this machine, by what kept them"
        refusals = CounterMetricFamily("arrowhead_egress_refusals", text, labels=("reason",))
        for reason, number in self.state.egress_refusals.items():
            refusals.add_metric((reason,), number)
        return refusals

    def _vectors(self) -> Iterator[Metric]:
        use = self.state.card_use
        if use is None:
            return
        segments = GaugeMetricFamily("arrowhead_vector_segments", "Open segments of vectors", labels=("place",))
        sizes = GaugeMetricFamily("arrowhead_vector_bytes", "Bytes that they take on a card", labels=("place",))
        for place, number, size in (("card", use.segments, use.bytes), ("processor", use.segments_off, use.bytes_off)):
            segments.add_metric((place,), number)
            sizes.add_metric((place,), size)
        yield segments
        yield sizes
        text = "Searches of segments that the processor did, as the card had no room for them"
        yield CounterMetricFamily("arrowhead_vector_searches_off_card", text, value=use.searches_off)

    def _engine(self) -> Iterator[Metric]:
        lifecycle = self.state.lifecycle
        states = GaugeMetricFamily("arrowhead_engine_state", "1 for the state it is in", labels=("state",))
        for name in get_args(State):
            states.add_metric((name,), float(lifecycle.state == name))
        yield states
        yield CounterMetricFamily(
            "arrowhead_engine_restarts", "Tries to bring a dead engine back", lifecycle.restarts.total
        )
        stats = _stats(lifecycle)
        sequences = GaugeMetricFamily("arrowhead_engine_sequences", "Sequences in the engine", labels=("state",))
        sequences.add_metric(("running",), stats.running)
        sequences.add_metric(("waiting",), stats.waiting)
        yield sequences
        if stats.kv_cache_used is not None:
            text = "Share of the memory for keys and values that is taken"
            yield _gauge("engine_kv_cache_used_ratio", text, stats.kv_cache_used)
        for name, (field, text) in _COUNTED.items():
            yield CounterMetricFamily(f"arrowhead_engine_{name}", text, value=getattr(stats, field))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"arrowhead_{name}", text, value=value)


def _stats(lifecycle: EngineLifecycle) -> EngineStats:
    """Return the statistics of the engine, zeros while there is none.

    The counters then start from zero again, as they do at a restart.
    """
    try:
        return lifecycle.get().stats()
    except ArrowheadError:
        return EngineStats()


def engine_kind(lifecycle: EngineLifecycle) -> str:
    """Return ``vllm``, ``transformers``, ``remote`` or ``scripted``, "" while there is no engine."""
    try:
        engine = lifecycle.get()
    except ArrowheadError:
        return ""
    return type(getattr(engine, "inner", engine)).__name__.removesuffix("Engine").lower()


class EgressServiceState(Protocol):
    """Provide the state to collect; ``server.serving.egress_service.ServiceState`` implements it."""

    @property
    def kept(self) -> Mapping[str, int]: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def refused(self) -> Mapping[str, int]: ...


def watch_service(metrics: Metrics, state: EgressServiceState) -> None:
    """Add the state of the service to what is exposed; call once."""
    metrics.registry.register(_ServiceCollector(state))


@dataclass(frozen=True, slots=True, eq=False)
class _ServiceCollector(Collector):
    """Collect the state without blocking, as it runs on the event loop."""

    state: EgressServiceState

    def collect(self) -> Iterator[Metric]:
        text = "Calls of servers that the egress service answers"
        yield GaugeMetricFamily("arrowhead_egress_service_calls_in_flight", text, value=self.state.in_flight)
        text = "Requests that the egress service refused, by what was wrong"
        refused = CounterMetricFamily("arrowhead_egress_service_refusals", text, labels=("cause",))
        for cause, number in self.state.refused.items():
            refused.add_metric((cause,), number)
        yield refused
        text = "Calls that were kept on this machine, by what kept them"
        kept = CounterMetricFamily("arrowhead_egress_refusals", text, labels=("reason",))
        for reason, number in self.state.kept.items():
            kept.add_metric((reason,), number)
        yield kept
        version = GaugeMetricFamily("arrowhead_egress_service_info", "What runs, always 1", labels=("version",))
        version.add_metric((installed_version(),), 1)
        yield version


_CODES: Final = error_codes()
_ENDPOINTS: Final = frozenset(get_args(Endpoint))
_STATUSES: Final = frozenset(get_args(CallStatus))
_RETRIEVERS: Final = frozenset(RANKERS)
_OTHER: Final = "other"
# Class name of a failure -> value of the label ``outcome``.
FAILURES: Final = {
    "": "ok",
    "CallRejected": "rejected",
    "NcbiRefusedByEgress": "egress_refused",
    "NcbiThrottled": "throttled",
    "NcbiUnavailable": "unavailable",
    "NcbiBlocked": "blocked",
    "EgressServiceUnavailable": "service_unavailable",
    "NcbiTimeout": "timeout",
    "NcbiTooLarge": "too_large",
    "NcbiMalformed": "malformed",
    "NcbiReplyError": "reply_error",
    "BlastFailed": "blast_failed",
    "cancelled": "cancelled",
}
_ORIGINS: Final = tuple(field.name for field in fields(TokenCounts))
_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_FIRST: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 2, 5, 10, 30, 60)
_LONG: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)


class Metrics:
    """Record reports as Prometheus metrics; implements ``Observer``.

    Thread-safe.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"arrowhead_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"arrowhead_{name}", text, labels, registry=registry, buckets=buckets)

        self._requests = counter("http_requests", "HTTP requests that have ended", "route", "method", "status")
        self._request_s = histogram("http_request_seconds", "Until the last byte", _LONG, "route")
        self._errors = counter("error_replies", "Requests that got an error reply, by its code", "code")
        self._answers = counter("answers", "Answers that have ended", "model", "outcome")
        self._outcomes = counter(
            "answer_outcomes", "Finished answers of methods, by what they amount to", "model", "outcome"
        )
        self._unsupported = counter("unsupported_identifiers", "Identifiers of answers that nothing read has", "model")
        self._first_s = histogram("time_to_first_token_seconds", "Until the model's first text", _FIRST, "model")
        self._answer_s = histogram("answer_seconds", "Whole answers", _LONG, "model")
        self._tokens = counter("tokens", "Tokens of finished answers, as usage counts them", "model", "origin")
        self._calls = counter("calls", "Calls that answers made", "endpoint", "status")
        self._ncbi = counter("ncbi_requests", "Requests to NCBI or its stand-in, retries too", "endpoint", "outcome")
        self._ncbi_s = histogram("ncbi_request_seconds", "One request", _LONG, "endpoint")
        self._waited_s = histogram("ncbi_limiter_wait_seconds", "For the rate limit, before one request", _FAST)
        self._cache = counter("ncbi_cache_lookups", "Calls looked up in the reply cache", "result")
        self._search_s = histogram("retrieval_seconds", "One search of namespaces", _FAST, "retriever", "namespaces")
        self._encode_s = histogram("encoder_seconds", "One batch of texts to vectors or scores", _FAST, "kind")
        self._encoded = counter("encoder_texts", "Texts encoded", "kind")

    def watch(self, state: ServerState) -> None:
        """Add the state of the server to what is exposed; call once."""
        self.registry.register(StateCollector(state))

    def expose(self, accept: str) -> tuple[bytes, str]:
        """Return body and content type, in OpenMetrics if ``accept`` names it, else in Prometheus' text format."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def replied(self, request: HttpRequest) -> None:
        verb = _of(HTTP_METHODS, request.method)
        self._requests.labels(request.route or "none", verb, str(request.status)).inc()
        self._request_s.labels(request.route or "none").observe(request.seconds)
        if request.code:
            self._errors.labels(_of(_CODES, request.code)).inc()

    def answer_began(self, answer_id: str, model: str) -> None:
        """Ignore the start; only ended answers are counted."""

    def answer_ended(self, record: AnswerRecord) -> None:
        outcome = record.outcome if record.outcome in {"ok", "cancelled"} else _of(_CODES, record.outcome)
        self._answers.labels(record.model, outcome).inc()
        self._answer_s.labels(record.model).observe(record.seconds)
        if record.first_s is not None:
            self._first_s.labels(record.model).observe(record.first_s)
        for origin in _ORIGINS:
            self._tokens.labels(record.model, origin).inc(getattr(record.tokens, origin))
        for amounts_to, number in record.outcomes.items():
            self._outcomes.labels(record.model, amounts_to).inc(number)
        if record.unsupported:
            self._unsupported.labels(record.model).inc(record.unsupported)
        for (endpoint, status), number in record.calls.items():
            self._calls.labels(_of(_ENDPOINTS, endpoint), _of(_STATUSES, status)).inc(number)

    def generated(self, generation: Generation) -> None:
        """Ignore the generation, which the engine's own statistics cover."""

    def part(self, name: PartName, **facts: Unpack[SpanAttributes]) -> AbstractContextManager[TraceSpan]:
        """Return a part that records nothing, since parts are counted by the reports at their end."""
        return NULL_PART

    def ncbi_request(self, endpoint: Endpoint, failure: str, seconds: float) -> None:
        self._ncbi.labels(endpoint, FAILURES.get(failure, _OTHER)).inc()
        self._ncbi_s.labels(endpoint).observe(seconds)

    def ncbi_waited(self, seconds: float) -> None:
        self._waited_s.observe(seconds)

    def ncbi_cache(self, *, hit: bool) -> None:
        self._cache.labels("hit" if hit else "miss").inc()

    def searched(self, retriever: str, num_namespaces: int, seconds: float) -> None:
        bucket = "1" if num_namespaces == 1 else "2-4" if num_namespaces < 5 else "5+"
        self._search_s.labels(_of(_RETRIEVERS, retriever), bucket).observe(seconds)

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None:
        self._encode_s.labels(kind).observe(seconds)
        self._encoded.labels(kind).inc(num_texts)


def _of(known: frozenset[str], value: str) -> str:
    return value if value in known else _OTHER


class RequestSpans(Protocol):
    """Create a span for each request."""

    def begin_request(self, traceparent: str, tracestate: str) -> object:
        """Start the span of a request.

        ``traceparent``, ``tracestate``: W3C headers of the request, "" if they are absent.
        """
        ...

    def end_request(self, span: object, request: HttpRequest) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability:
    """Hold metrics and tracing.

    ``observer`` receives all reports. ``spans`` None: no spans are created. ``set_sender`` sets the sender of the
    spans; it is called on the event loop that the sender runs on.
    """

    metrics: Metrics
    observer: Observer
    spans: RequestSpans | None = None
    set_sender: Callable[[HttpSender], None] = lambda _: None
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()


def metrics_only() -> Observability:
    """Return metrics without tracing."""
    metrics = Metrics()
    return Observability(metrics=metrics, observer=metrics)


def build_observability(settings: TracingSettings) -> Observability:
    """Build metrics and, if an endpoint is set, tracing.

    Raises:
        SettingsInvalid: an endpoint is set and the tracing library is not installed.
    """
    if settings.endpoint is None:
        return metrics_only()
    try:
        from server.observability.tracing import SenderExporter, Tracing
    except ImportError as error:
        from server.settings.loading import SettingsInvalid, variable_name

        name = variable_name("tracing", "endpoint")
        raise SettingsInvalid(f"{name} (tracing.endpoint): {error.name} is missing: install arrowhead[otel]") from error
    metrics, exporter = Metrics(), SenderExporter(settings.endpoint)
    tracing = Tracing(metrics, settings, exporter)
    return Observability(
        metrics=metrics, observer=tracing, spans=tracing, set_sender=exporter.set_sender, closers=(tracing.close,)
    )
