"""No name that a client gives stands in the log: not at INFO, not at DEBUG, whatever the name is made of."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

MARK = "zq7hostile"
NAMES = (
    f"{MARK}\n2026-11-22 00:00:00,000 ERROR server.audit.log [-] {MARK} forged",
    f'{MARK}\n{{"time": "2026-11-22", "level": "ERROR", "logger": "server", "message": "{MARK}"}}',
    f"{MARK}\r\x1b[2J\x1b]0;{MARK}\x07\x9b31m\x00\x7f",
    f"{MARK}\u2028\u2029\x85\u202e\u2066",
    f"{MARK} %s %(name)s {{0}}",
    MARK + "x" * 1_000_000,
)
WORD = re.compile(r"[^\x21-\x7e]")
TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ [\w.]+ \[[\w-]+\] .*")


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every method and path of the API's own description, and what is not in it."""
    for path, operations in document["paths"].items():
        for method in operations:
            if method in {"get", "post", "put", "delete", "patch"}:
                yield method.upper(), path
    yield from (("POST", "/v1/nothing"), ("BREW", "/v1/models"), ("GET", "/docs"))


def _bodies(name: str) -> Iterator[tuple[str, bytes]]:
    """JSON with the name as a key, deep and shallow, as model, as option, as namespace; a form with it as file name."""
    values: list[Any] = [
        {name: 1},
        {"model": name, "messages": [{"role": "user", "content": "hello"}], name: name},
        {"model": "scripted", "messages": [{"role": "user", "content": "x", name: {}}], "logit_bias": {name: 1}},
        {"model": "scripted:genegpt", "messages": [{"role": name, "content": "x"}], "arrowhead": {name: name}},
        {"model": "scripted", "prompt": "x", "metadata": {name: {name: [name]}}, "stream_options": {name: True}},
        {"model": "scripted", "input": [{"type": name, name: 1}], "text": {"format": {"type": name}}},
        {"query": "x", "namespaces": [name], "retriever": name, "filter": {name: 1}, "encoder": name},
        {"name": name, "encoder": name, "documents": [{"id": name, "text": "x", "metadata": {name: 1}}]},
    ]
    for value in values:
        yield "application/json", json.dumps(value).encode()
    quoted = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A").encode("utf-8", "replace")
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + quoted + b'"\r\n\r\nx\r\n--b--\r\n'
    yield "multipart/form-data; boundary=b", form
    yield f"{MARK}/plain", b"x"


def _requests(operations: list[tuple[str, str]]) -> Iterator[tuple[str, str, bytes, tuple[str, str]]]:
    """Each name with each body, each of them at each route, but not all three in each combination."""
    for number, name in enumerate(NAMES):
        for other, (kind, body) in enumerate(_bodies(name)):
            for operation in operations[(number + other) % 6 :: 6]:
                yield name, kind, body, operation


def _send(url: str, method: str, path: str, kind: str, body: bytes, name: str) -> None:
    word = WORD.sub("_", name)[:2000]
    address = re.sub(r"\{\w+\}", quote(name[:300], safe="", errors="replace"), path)
    query = f"?{quote(name[:2000], safe='', errors='replace')}=1&wait={word[:50]}"
    headers = {"Content-Type": kind, "x-request-id": word, "traceparent": word, "X-Request-Timeout": word[:90],
               "User-Agent": word, f"X-{MARK}": word, "Accept": word[:90], "Referer": word}  # fmt: skip
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, address + query, body, headers)
        connection.getresponse().read()
    except (http.client.HTTPException, OSError):
        pass  # what a server does with a head that is no head is its own matter
    finally:
        connection.close()


@pytest.mark.parametrize(("log_format", "level"), [("text", "INFO"), ("json", "DEBUG")])
def test_hostile_names_leave_no_word_in_the_log(
    serve_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path, log_format: str, level: str
) -> None:
    """At every route: as keys, parameters, query names, header values, models, methods and file names."""
    settings = {
        "ARROWHEAD_LOG__FORMAT": log_format,
        "ARROWHEAD_LOG__LEVEL": level,
        "ARROWHEAD_SERVER__MAX_BODY_BYTES": str(2**23),
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "namespaces"),
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
    }
    with serve_with(settings) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        connection.request("GET", "/openapi.json")
        operations = list(_operations(json.load(connection.getresponse())))
        connection.close()
        before = len(server.log())
        for name, kind, body, (method, path) in _requests(operations):
            if len(body) < 1_000_000 or method == "POST":
                _send(server.url, method, path, kind, body, name)
        time.sleep(0.5)
        said = server.log()[before:]
    lines = [line for line in said.split("\n") if line]

    assert len(operations) > 20 and len(lines) > len(operations) * len(NAMES)
    assert [line[:300] for line in lines if MARK in line] == []
    assert [line for line in lines if not line.isprintable() or len(line) > 2500] == []
    if log_format == "json":
        assert {"request"} <= {json.loads(line).get("event") for line in lines}
    else:
        assert [line for line in lines if not TEXT_LINE.fullmatch(line)] == []
