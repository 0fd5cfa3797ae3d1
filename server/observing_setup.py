"""Puts metrics and, where a collector is named, spans together. Imports no tracing library where none is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from retrieval.ncbi.transport import HttpSender
from server.metrics import Metrics
from server.observing import HttpRequest, Observer
from server.tracing_settings import TracingSettings


class RequestSpans(Protocol):
    """A span around each request."""

    def begin_request(self, traceparent: str, tracestate: str) -> object:
        """``traceparent``, ``tracestate``: W3C headers of the request, "" where they are not sent."""
        ...

    def end_request(self, span: object, request: HttpRequest) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observing:
    """``observer`` is told everything. ``spans`` None: none are made. ``send_through`` names the way out, on the
    event loop that it runs on."""

    metrics: Metrics
    observer: Observer
    spans: RequestSpans | None = None
    send_through: Callable[[HttpSender], None] = lambda _: None
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()


def counted() -> Observing:
    """Metrics alone."""
    metrics = Metrics()
    return Observing(metrics=metrics, observer=metrics)


def build_observing(settings: TracingSettings) -> Observing:
    """Raises SettingsInvalid: spans are wanted and their library is not installed."""
    if settings.endpoint is None:
        return counted()
    try:
        from server.tracing import SenderExporter, Tracing
    except ImportError as error:
        from server.settings_loading import SettingsInvalid, variable_name

        name = variable_name("tracing", "endpoint")
        raise SettingsInvalid(f"{name} (tracing.endpoint): {error.name} is missing: install arrowhead[otel]") from error
    metrics, exporter = Metrics(), SenderExporter(settings.endpoint)
    tracing = Tracing(metrics, settings, exporter)
    return Observing(
        metrics=metrics, observer=tracing, spans=tracing, send_through=exporter.send_through, closers=(tracing.close,)
    )
