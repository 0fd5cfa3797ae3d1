"""Every refusal that a client was told of is in the audit log, also where the server is killed in the next moment."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from server.audit.verification import snapshot, verify

CLIENTS = 12


def _asking(url: str, number: int, told: set[str], begun: threading.Barrier) -> None:
    """Ask for more than the key may, again and again over one connection, until the server is gone."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    body = json.dumps({"arrowhead": {"egress": "ncbi"}})
    try:
        for asked in range(100_000):
            request = f"{number:08x}{asked:024x}"
            headers = {"Content-Type": "application/json", "X-Request-Id": request}
            connection.request("POST", "/v1/namespaces/kept/update", body, headers)
            reply = connection.getresponse()
            code = json.loads(reply.read())["error"]["code"]
            assert (reply.status, code) == (403, "egress_not_allowed")
            told.add(request)
            if asked == 20:
                begun.wait(60)
    except (OSError, http.client.HTTPException, json.JSONDecodeError, threading.BrokenBarrierError):
        pass
    finally:
        connection.close()


def test_kill_9_loses_no_refusal_that_a_client_was_told_of(
    serve_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    """Twelve clients at once; the log is whole, with a line for each 403."""
    settings = {
        "ARROWHEAD_MODEL__ENGINE": "scripted",
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "ns"),
        "ARROWHEAD_GATEWAY__DATA_DIR": str(tmp_path / "gateway"),
        "ARROWHEAD_AUDIT__PATH": str(tmp_path / "audit.jsonl"),
    }
    told: list[set[str]] = [set() for _ in range(CLIENTS)]
    begun = threading.Barrier(CLIENTS + 1)
    with serve_with(settings) as running:
        created = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=30)
        created.request("POST", "/v1/namespaces", json.dumps({"name": "kept"}), {"Content-Type": "application/json"})
        assert created.getresponse().status in (200, 201)
        created.close()
        clients = [
            threading.Thread(target=_asking, args=(running.url, number, told[number], begun), daemon=True)
            for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        begun.wait(60)
        os.kill(running.process.pid, signal.SIGKILL)
        for client in clients:
            client.join(60)
    path = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    recorded = {line["request_id"] for line in lines if line["event"] == "refused"}

    refused = set().union(*told)
    assert len(refused) >= 20 * CLIENTS
    assert refused - recorded == set()
    assert verify(snapshot([path])).is_whole
