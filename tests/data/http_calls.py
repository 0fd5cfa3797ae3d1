"""Plain HTTP against a server under test: status and JSON of whatever comes back."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

JSON = "application/json"
# Encoders that need no weights.
SETTINGS = {"ARROWHEAD_RETRIEVAL__ENCODERS": "hashing", "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap"}


def namespace_settings(data_dir: Path) -> dict[str, str]:
    """Of a server whose namespaces lie in ``data_dir``, and which logs everything it can."""
    return SETTINGS | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(data_dir),
        "ARROWHEAD_RETRIEVAL__MAX_UPLOAD_BYTES": "4000000",
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
        "ARROWHEAD_LOG__LEVEL": "DEBUG",
    }


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Message
    body: bytes


def fetch(
    url: str, key: str = "", *, method: str | None = None, data: bytes | None = None, headers: Mapping[str, str] = {}
) -> Reply:
    """Whatever comes back, also where it is an error."""
    sent = {"Authorization": f"Bearer {key}"} | dict(headers) if key else dict(headers)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, sent, method=method), timeout=120) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        return Reply(error.code, error.headers, error.read())


class Site:
    """A server with namespaces. ``call`` never raises for a status."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url
        self._key = key

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, JSON if data is not None else "")

    def send(self, method: str, path: str, data: bytes | None, kind: str = "") -> tuple[int, Any]:
        reply = fetch(
            self.url + path, self._key, method=method, data=data, headers={"Content-Type": kind} if kind else {}
        )
        return reply.status, json.loads(reply.body)

    def create(self, name: str, **fields: Any) -> None:
        status, reply = self.call("POST", "/v1/namespaces", {"name": name, **fields})
        assert status == 201, reply

    def add(self, name: str, *documents: dict[str, Any]) -> dict[str, Any]:
        """Documents as JSON, until they can be found."""
        job = self.call("POST", f"/v1/namespaces/{name}/documents?wait=60", {"documents": list(documents)})
        return self.done(job)

    def upload(self, name: str, filename: str, data: bytes, **fields: Any) -> tuple[int, Any]:
        query = urlencode({"filename": filename} | fields, quote_via=quote)
        return self.send("PUT", f"/v1/namespaces/{name}/files?{query}", data)

    def done(self, answer: tuple[int, Any]) -> dict[str, Any]:
        """The job of an answer, when it has ended well."""
        job = self.ended(answer)
        assert job["state"] == "done", job
        return job

    def ended(self, answer: tuple[int, Any]) -> dict[str, Any]:
        status, job = answer
        assert status in (200, 202), job
        until = time.monotonic() + 120
        while job["state"] in ("queued", "running") and time.monotonic() < until:
            time.sleep(0.02)
            _, job = self.call("GET", f"/v1/jobs/{job['id']}")
        return dict(job)

    def search(self, **body: Any) -> list[dict[str, Any]]:
        """The passages of one query."""
        status, reply = self.call("POST", "/v1/search", body)
        assert status == 200, reply
        return list(reply["data"])


def snippets(first: int, many: int) -> bytes:
    """Lines of a cut textbook, each a document."""
    rows = (
        {"id": f"Book_{n}", "title": "Book", "content": f"Gene G{n} codes for protein P{n}."}
        for n in range(first, first + many)
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
