"""A collector of spans on loopback, and what it was sent as trees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    """One span. ``children`` in the order in which they began."""

    name: str
    attributes: dict[str, Any]
    is_error: bool
    children: list[Seen] = field(default_factory=list)

    def lines(self, depth: int = 0) -> list[str]:
        """Names, each child two blanks further in than its parent."""
        return ["  " * depth + self.name, *(line for child in self.children for line in child.lines(depth + 1))]

    def all(self, name: str) -> list[Seen]:
        """Those of this name, itself among them."""
        below = [found for child in self.children for found in child.all(name)]
        return [self, *below] if self.name == name else below


class _Handler(BaseHTTPRequestHandler):
    received: list[tuple[str, str, bytes]]

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.end_headers()


class SpanCollector:
    """``received``: path, content type and body of each batch."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, bytes]] = []
        handler = type("_Own", (_Handler,), {"received": self.received})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SpanCollector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def everything(self) -> bytes:
        """All bodies."""
        return b"".join(body for _, _, body in self.received)

    def trees(self, trace_id: str) -> list[Seen]:
        """Of one trace, those whose parent was not sent. ``trace_id``: 32 hexadecimal digits."""
        spans = sorted(self._spans(bytes.fromhex(trace_id)), key=lambda span: span.start_time_unix_nano)
        seen = {span.span_id: Seen(span.name, _attributes(span), span.status.code == 2) for span in spans}
        roots: list[Seen] = []
        for span in spans:
            above = seen.get(span.parent_span_id)
            (roots if above is None else above.children).append(seen[span.span_id])
        return roots

    def _spans(self, trace_id: bytes) -> Iterator[Any]:
        for _, _, body in self.received:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    yield from (span for span in scope.spans if span.trace_id == trace_id)


def _attributes(span: Any) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)
