"""A stand-in for the model hub on loopback: the two routes that a download asks, with ranges and digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback import listening

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """``files`` by name; ``announced`` replaces the content for which a file's digest is given; ``cut`` files end after
    so many bytes, once."""

    files: dict[str, bytes]
    announced: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    licence: str = "apache-2.0"
    address: str = ""
    asked: list[str] = field(default_factory=list)

    def info(self) -> dict[str, Any]:
        siblings = [self._sibling(name) for name in self.files]
        card = {"license": self.licence}
        return {"id": "lab/tiny", "sha": COMMIT, "siblings": siblings, "cardData": card, "gated": False, "tags": []}

    def _sibling(self, name: str) -> dict[str, Any]:
        data = self.announced.get(name, self.files[name])
        large = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": _blob(data)}
        return entry | ({"lfs": large} if name.endswith(".safetensors") else {})


def _blob(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        return

    def _reply(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        if path.startswith("/api/models/lab/tiny"):
            revision = path.rpartition("/")[2]
            known = revision in ("tiny", "main", COMMIT)
            body = json.dumps(self.hub.info() if known else {"error": "Invalid rev id"}).encode()
            self._send(200 if known else 404, body, {"Content-Type": "application/json"}, with_body=with_body)
            return
        name = path.removeprefix(f"/lab/tiny/resolve/{COMMIT}/")
        if name not in self.hub.files:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"}, with_body=with_body)
            return
        self._send_file(name, with_body=with_body)

    def _send_file(self, name: str, *, with_body: bool) -> None:
        data = self.hub.files[name]
        headers = {"ETag": f'"{_blob(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = data[begin:]
        most = self.hub.cut.pop(name, None) if with_body else None
        self._send(206 if begin else 200, body, headers, with_body=with_body, most=most)

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str], *, with_body: bool, most: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body[:most])
        if most is not None:
            self.close_connection = True


def allow_library(monkeypatch: Any) -> None:
    """Undo for one test what loading a local model sets for the rest of a process: that the library stays offline."""
    import huggingface_hub.constants as constants

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@contextmanager
def serve_hub(hub: Hub) -> Iterator[Hub]:
    """Serve ``hub`` at its ``address`` until the block ends."""
    with listening(type("Handler", (_Handler,), {"hub": hub})) as hub.address:
        yield hub
