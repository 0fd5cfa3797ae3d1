"""Assemble metrics and, if a collector is configured, tracing.

No tracing library is imported without a collector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from retrieval.ncbi.client.transport import HttpSender
from server.observability.metrics import Metrics
from server.observability.observer import HttpRequest, Observer
from server.settings.server import TracingSettings


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
