"""A small pooling server: `POST /v1/embeddings` over token ids, computed with the local encoder's own weights.

It replies as vLLM 0.32 was seen to, and can fail as servers do. ``reencodes`` makes it treat ids as the source of
text-embeddings-inference does: it decodes them to text and encodes that again.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.encoders.base import EncoderOptions, Floats
from models.encoders.resolve import ResolvedEncoder, resolve_encoder
from models.encoders.texts import load_tokenizer
from models.encoders.transformers_encoder.encoder import Inputs, PooledForward
from models.encoders.transformers_encoder.loading import load_transformer, place

OPTIONS = EncoderOptions(device="cpu", dtype="float32", batch_tokens=256)


@dataclass(slots=True)
class Failing:
    """How the server fails; ``statuses`` are given to the next requests, one each. ``tilt`` is the tangent of the angle
    by which its vectors differ from the encoder's."""

    statuses: list[int] = field(default_factory=list)
    silent_s: float = 0.0
    drops: bool = False
    one_less: bool = False
    width: int | None = None
    not_finite: bool = False
    turned: bool = False
    backwards: bool = False
    floats: bool = False
    reencodes: bool = False
    bfloat16: bool = False
    tilt: float = 0.0
    key: str | None = None


class Model:
    """The weights of one folder, one text at a time."""

    def __init__(self, resolved: ResolvedEncoder) -> None:
        self._tokenizer = load_tokenizer(resolved.passage.path)
        weights = load_transformer(resolved.passage, place(OPTIONS))
        self._forward = PooledForward(weights, self._tokenizer, resolved.spec.pooling, normalise=False)
        # Each thread that computes with torch has helper threads of its own, which would fill the machine.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="pooling-server")

    def vectors(self, rows: Sequence[Sequence[int]], *, normalise: bool) -> Floats:
        found = np.concatenate(list(self._worker.map(self._vector, rows)))
        return found / np.linalg.norm(found, axis=1, keepdims=True) if normalise else found

    def reencoded(self, row: Sequence[int]) -> list[int]:
        backend = self._tokenizer.backend_tokenizer
        text = backend.decode(list(row), skip_special_tokens=False)
        backend.no_truncation()
        backend.no_padding()
        return list(backend.encode(text, add_special_tokens=False).ids)

    def _vector(self, row: Sequence[int]) -> Floats:
        ids = torch.tensor([list(row)])
        with torch.inference_mode():
            found: Floats = self._forward(Inputs(ids, torch.zeros_like(ids), torch.ones_like(ids))).numpy()
        return found


@dataclass(slots=True)
class PoolingServer:
    """A running server; ``bodies`` are the requests that it got, ``busiest`` how many were there at once."""

    url: str
    model: Model
    failing: Failing = field(default_factory=Failing)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    busiest: int = 0
    inside: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def pooling_server(source: str | Path | Model, port: int = 0) -> Iterator[PoolingServer]:
    model = source if isinstance(source, Model) else Model(resolve_encoder(str(source), OPTIONS))
    listener = _Listener(("127.0.0.1", port), _Handler)
    running = listener.running = PoolingServer(f"http://127.0.0.1:{listener.server_address[1]}", model)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        listener.shutdown()
        listener.server_close()


class _Listener(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True
    block_on_close = False
    running: PoolingServer


class _Handler(BaseHTTPRequestHandler):
    server: _Listener

    def do_POST(self) -> None:
        running, failing = self.server.running, self.server.running.failing
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with running.lock:
            running.bodies.append(body)
            running.inside += 1
            running.busiest = max(running.busiest, running.inside)
            status = failing.statuses.pop(0) if failing.statuses else 200
        try:
            time.sleep(failing.silent_s)
            if failing.drops:
                return
            if failing.key is not None and self.headers.get("authorization") != f"Bearer {failing.key}":
                status = 401
            self._reply(status, _reply(running, body) if status == 200 else {"error": {"message": "no"}})
        finally:
            with running.lock:
                running.inside -= 1

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def _reply(running: PoolingServer, body: dict[str, Any]) -> dict[str, Any]:
    failing, rows = running.failing, body["input"]
    if failing.reencodes:
        rows = [running.model.reencoded(row) for row in rows]
    vectors = running.model.vectors(rows, normalise=failing.reencodes or body.get("use_activation") is not False)
    if failing.turned:
        vectors = np.roll(vectors, 1, axis=1)
    if failing.bfloat16:
        vectors = torch.from_numpy(vectors).bfloat16().float().numpy()
    if failing.tilt:
        vectors = _tilted(vectors, failing.tilt)
    if failing.not_finite:
        vectors[0, 0] = np.nan
    vectors = vectors[: len(rows) - failing.one_less, : failing.width]
    data = [
        {"object": "embedding", "index": number, "embedding": _written(vector, floats=failing.floats)}
        for number, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data[::-1] if failing.backwards else data}


def _tilted(vectors: Floats, tangent: float) -> Floats:
    """Turn each vector by the same angle, in a direction that is its own."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / lengths
    aside = np.roll(units, 1, axis=1)
    aside -= (aside * units).sum(axis=1, keepdims=True) * units
    turned = units + tangent * aside / np.linalg.norm(aside, axis=1, keepdims=True)
    found: Floats = (lengths * turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32)
    return found


def _written(vector: Floats, *, floats: bool) -> str | list[float]:
    return vector.tolist() if floats else base64.b64encode(vector.astype("<f4").tobytes()).decode()
