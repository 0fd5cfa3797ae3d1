"""Spans: who is whose child, what stands in them, and that nothing of it is there when no collector is named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from span_collector import SpanCollector

from retrieval.ncbi.client.transport import HttpSender, SendLimits
from server.observability.metrics import Metrics
from server.observability.observer import AnswerRecord, HttpRequest, TokenCounts
from server.observability.tracing import SenderExporter, Tracing
from server.settings.loading import SettingsInvalid, load_settings
from server.settings.server import TracingSettings

ROOT = Path(__file__).parents[4]
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# Of one request below.
SPANS = 6
ENDED = HttpRequest(route="/v1/chat/completions", method="POST", status=200, code="", seconds=0.2)


async def _one_request(tracing: Tracing, traceparent: str = "") -> None:
    """As the layers call it: the answer's work runs in tasks and threads that were started in its context."""
    span = tracing.begin_request(traceparent, "")

    async def answer() -> None:
        tracing.answer_began("chatcmpl-1", "scripted:genegpt")
        await asyncio.create_task(call())
        tracing.answer_ended(
            AnswerRecord(
                id="chatcmpl-1", model="scripted:genegpt", outcome="ok", seconds=0.1, tokens=TokenCounts(prompt=5)
            )
        )

    async def call() -> None:
        with tracing.part("call") as part:
            tracing.ncbi_request("esearch", "NcbiTimeout", 0.05)
            part.annotate(tool="esearch", status="error")
            part.failed("NcbiTimeout")
        await asyncio.to_thread(search)

    def search() -> None:
        with tracing.part("search", retriever="dense", k=3):
            tracing.encoded("query", 1, 0.01)
        tracing.searched("dense", 1, 0.01)

    await asyncio.create_task(answer())
    tracing.end_request(span, ENDED)


def _traced(**settings: Any) -> tuple[Tracing, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    return Tracing(Metrics(), TracingSettings(endpoint="http://127.0.0.1:4318", **settings), exporter), exporter


async def test_spans_are_children_of_what_they_belong_to() -> None:
    """Request, its answer, the answer's call and search, over tasks and threads."""
    tracing, exporter = _traced()
    await asyncio.create_task(_one_request(tracing))
    await tracing.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}

    def parent(name: str) -> int | None:
        above = spans[name].parent
        return None if above is None else above.span_id

    def own(name: str) -> int:
        context = spans[name].context
        assert context is not None
        return int(context.span_id)

    assert set(spans) == {"POST /v1/chat/completions", "answer", "call", "ncbi", "search", "encode"}
    assert parent("POST /v1/chat/completions") is None
    assert parent("answer") == own("POST /v1/chat/completions")
    assert parent("call") == parent("search") == own("answer")
    assert (parent("ncbi"), parent("encode")) == (own("call"), own("search"))
    assert spans["ncbi"].attributes == {"arrowhead.ncbi.endpoint": "esearch", "error.type": "NcbiTimeout"}
    began, ended = spans["ncbi"].start_time, spans["ncbi"].end_time
    assert began is not None and ended is not None and ended - began == 50_000_000


@pytest.mark.parametrize(("traceparent", "trace"), [(PARENT, PARENT.split("-")[1]), ("no such thing", None)])
async def test_the_clients_trace_goes_on(traceparent: str, trace: str | None) -> None:
    """By W3C's header; one that cannot be read begins a trace of its own."""
    tracing, exporter = _traced()
    await asyncio.create_task(_one_request(tracing, traceparent))
    await tracing.close()
    traces = {format(span.context.trace_id, "032x") for span in exporter.get_finished_spans() if span.context}

    assert len(traces) == 1 and (traces == {trace} or trace is None)


async def test_metrics_are_counted_behind_spans() -> None:
    """Every report is passed on."""
    metrics = Metrics()
    tracing = Tracing(metrics, TracingSettings(endpoint="http://127.0.0.1:1"), InMemorySpanExporter())
    await asyncio.create_task(_one_request(tracing))
    await tracing.close()

    assert b'arrowhead_ncbi_requests_total{endpoint="esearch",outcome="timeout"} 1.0' in metrics.expose("")[0]


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    with SpanCollector() as made:
        yield made


async def test_a_collector_gets_what_it_can_read(collector: SpanCollector) -> None:
    """OTLP over HTTP, to its usual path, sent before the server has ended."""
    settings = TracingSettings(endpoint=collector.url)
    assert settings.endpoint is not None
    exporter, sender = SenderExporter(settings.endpoint), HttpSender(SendLimits())
    exporter.set_sender(sender)
    tracing = Tracing(Metrics(), settings, exporter)
    await asyncio.create_task(_one_request(tracing))
    await tracing.close()
    await sender.close()
    ((path, kind, body),) = collector.received
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans

    assert (path, kind) == ("/v1/traces", "application/x-protobuf")
    assert len(resource.scope_spans[0].spans) == SPANS
    assert {item.key for item in resource.resource.attributes} >= {"service.name", "service.version"}


async def test_a_collector_that_is_not_there_costs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """However many batches it does not take."""
    exporter, sender = SenderExporter("http://127.0.0.1:9/v1/traces"), HttpSender(SendLimits())
    exporter.set_sender(sender)
    with caplog.at_level(logging.WARNING, logger="server.observability.tracing"):
        for _ in range(3):
            await asyncio.to_thread(exporter.export, [])
    await sender.close()

    assert [record.getMessage() for record in caplog.records] == [
        "spans are not taken by the collector and are dropped: cause=NcbiUnavailable"
    ]


@pytest.mark.parametrize("host", ["collector.example", "10.0.0.7"])
def test_a_collector_elsewhere_is_refused_where_nothing_may_leave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str
) -> None:
    """The setting is named; on this machine one may be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ARROWHEAD_TRACING__ENDPOINT", f"http://{host}:4318")
    with pytest.raises(
        SettingsInvalid, match=r"ARROWHEAD_TRACING__ENDPOINT \(tracing\.endpoint\): .*egress\.mode is off"
    ):
        load_settings()

    monkeypatch.setenv("ARROWHEAD_TRACING__ENDPOINT", "http://127.0.0.1:4318/")
    assert load_settings().tracing.endpoint == "http://127.0.0.1:4318/v1/traces"
