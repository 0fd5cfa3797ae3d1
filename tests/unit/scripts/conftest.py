"""A loopback endpoint of chat completions whose replies a test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from loopback import listening


@dataclass
class Endpoint:
    """``answer``: body to (status, headers, reply); a str is a chat completion's content. ``asked``: all bodies."""

    url: str = ""
    answer: Callable[[dict[str, Any]], Any] = lambda body: "B"
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    traces: dict[str, Any] = field(default_factory=dict)

    @property
    def questions(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.asked]


def completion(content: str, **message: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": content, **message}
    return {
        "id": "chatcmpl-1",
        "choices": [{"index": 0, "message": told, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            trace = endpoint.traces.get(self.path.rsplit("/", 1)[-1])
            self._send(200 if trace is not None else 404, {}, trace)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.asked.append(body)
            endpoint.headers.append(dict(self.headers))
            answer = endpoint.answer(body)
            if answer is None:
                self.close_connection = True  # the connection is lost before any reply
                return
            if isinstance(answer, tuple):
                self._send(*answer)
            else:
                self._send(200, {}, completion(answer) if isinstance(answer, str) else answer)

        def _send(self, status: int, headers: dict[str, str], reply: Any) -> None:
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                return

    return Handler


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with listening(_handler(made)) as url:
        made.url = f"{url}/v1"
        yield made


@pytest.fixture
def completion_of() -> Callable[..., dict[str, Any]]:
    """``completion_of(content, **fields of the message)``."""
    return completion
