"""More requests than places, deadlines, clients that leave and clients that do not read, against real processes."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from scripts.benchmarks.serving.streams import Outcome, Target

Serve = Callable[..., AbstractContextManager[Any]]
WORDS = "".join(f" w{number:02}" for number in range(20))
RULES = [
    {"suffix": "Question: words\nAnswer:", "text": WORDS},
    {"suffix": "Question: endless\nAnswer:", "text": " and on" * 3000},
]
KEYS = ("key-of-a-flood", "key-of-another")


def _chat(question: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": question}], **fields}


def _settings(folder: Path, delay_s: float, **server: str) -> dict[str, str]:
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": RULES, "behaviour": {"token_delay_s": delay_s}}))
    named = {f"ARROWHEAD_SERVER__{name.upper()}": value for name, value in server.items()}
    return {
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_MODEL__MAX_NUM_SEQS": "64",
        "ARROWHEAD_MODEL__MAX_MODEL_LEN": "1000000",
        **named,
    }


@pytest.fixture(scope="module")
def small(serve_with: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """20 places, nobody waits; an answer takes four seconds."""
    folder = tmp_path_factory.mktemp("small")
    with serve_with(_settings(folder, 0.05, max_in_flight="20", max_waiting="0")) as server:
        yield server


def _get(url: str, key: str = "") -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=120) as reply:
        found: dict[str, Any] = json.load(reply)
        return found


def _ready(url: str, key: str = "") -> dict[str, Any]:
    return _get(f"{url}/ready", key)


def _num_files(process: Any) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


async def _until(url: str, key: str = "", **wanted: int) -> dict[str, Any]:
    for _ in range(12_000):
        found = await asyncio.to_thread(_ready, url, key)
        if all(found[name] == value for name, value in wanted.items()):
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"never {wanted}: {found}")


async def test_beyond_the_limit_exactly_the_rest_is_refused(small: Any) -> None:
    """50 against 20 places: 20 whole answers, 30 refusals before any work, each with a time to come back."""
    target = Target(small.url)

    outcomes = await asyncio.gather(*(target.ask(_chat("words")) for _ in range(50)))

    answered = [one for one in outcomes if one.status == 200]
    refused = [one for one in outcomes if one.status == 429]
    assert (len(answered), len(refused)) == (20, 30)
    assert all((one.text, one.done, one.error) == (WORDS.lstrip(), True, "") for one in answered)
    assert {one.error for one in refused} == {"server_overloaded"}
    assert all(1 <= int(one.headers["retry-after"]) <= 120 for one in refused)
    assert _ready(small.url)["in_flight"] == 0


async def test_a_client_can_shorten_the_time_of_its_answer(small: Any) -> None:
    """504 with the trace's id; the trace has what there was. A stream ends with the same error as a chunk."""
    target, short = Target(small.url), {"X-Request-Timeout": "0.6"}
    plain, stream = await asyncio.gather(
        target.ask(_chat("words", stream=False), short), target.ask(_chat("words"), short)
    )

    assert (plain.status, plain.error, plain.headers["x-should-retry"]) == (504, "timeout", "false")
    assert (stream.status, stream.error, stream.done) == (200, "timeout", True)
    assert WORDS.lstrip().startswith(stream.text) and stream.text != WORDS.lstrip()
    (choice,) = _get(f"{small.url}/v1/traces/{stream.trace_id}")["choices"]
    assert (choice["error"], choice["transcript"].strip()) == ("timeout", stream.text.strip())
    await _until(small.url, in_flight=0)


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf", "nan"])
async def test_a_time_that_is_none_is_named(small: Any, value: str) -> None:
    """422 with the header's name."""
    outcome = await Target(small.url).ask(_chat("words"), {"X-Request-Timeout": value})

    assert (outcome.status, outcome.error) == (422, "invalid_value")


@pytest.mark.parametrize("stream", [True, False])
async def test_many_abrupt_disconnects_leave_nothing(small: Any, stream: bool) -> None:
    """200 connections reset in the middle of their answers: no place and no file is left open."""

    async def leave() -> int:
        outcome = Outcome()
        reader, writer = await Target(small.url).open(_chat("words", stream=stream))
        if stream:
            await reader.readuntil(b"data:")
        else:
            await asyncio.sleep(0.1)
        writer.transport.abort()
        return outcome.status

    await _until(small.url, in_flight=0)
    before = _num_files(small.process)
    for _ in range(10):
        await asyncio.gather(*(leave() for _ in range(20)))
        await _until(small.url, in_flight=0)

    assert _num_files(small.process) <= before + 1
    assert "Traceback" not in small.log()


async def test_a_flood_does_not_hold_up_another_key(host_with: Serve, tmp_path: Path) -> None:
    """One place, two to wait in. A key that fills them all loses its newest to another key, which goes next."""
    settings = _settings(tmp_path, 0.02, max_in_flight="1", max_waiting="2", api_keys=",".join(KEYS))
    with host_with(settings) as server:
        flood, other = (Target(server.url, key) for key in KEYS)
        floods: list[asyncio.Task[Outcome]] = []
        for counts in ({"in_flight": 1}, {"waiting": 1}, {"waiting": 2}):
            floods.append(asyncio.create_task(flood.ask(_chat("words"))))
            await _until(server.url, KEYS[0], **counts)
        outcome = await other.ask(_chat("words"))
        done = [one.done() for one in floods]
        ends = await asyncio.gather(*floods)

    assert (outcome.status, outcome.text) == (200, WORDS.lstrip())
    assert [end.status for end in ends] == [200, 200, 429]
    assert ends[2].error == "rate_limit_exceeded"
    assert done == [True, False, True]


def _memory(process: Any) -> int:
    """Resident, bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def _deaf(url: str) -> tuple[socket.socket, str]:
    """A client that asks for a long stream and takes its beginning alone: the connection and the id of the trace."""
    parts = urlsplit(url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(120)
    connection.connect((parts.hostname, parts.port))
    body = json.dumps(_chat("endless")).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    begun = b""
    while (found := re.search(rb'"id":"([^"]+)"', begun)) is None:
        data = connection.recv(256)
        assert data, begun
        begun += data
    return connection, found[1].decode()


async def test_clients_that_do_not_read_hold_little_and_not_for_long(serve_with: Serve, tmp_path: Path) -> None:
    """50 of them: the server stops to generate for each when its buffers are full, and its answer ends when it is cut
    off. How fast the machine is decides when that is, but not how much is generated and held by then.
    """
    settings = _settings(tmp_path, 0.0, max_in_flight="50", slow_client_s="2")
    with serve_with(settings) as server:
        # What as many answers need is not held by clients, nor what is imported and allocated for the first ones.
        await asyncio.gather(*(Target(server.url).ask(_chat("words")) for _ in range(50)))
        before = _memory(server.process)
        deaf = await asyncio.gather(*(asyncio.to_thread(_deaf, server.url) for _ in range(50)))
        most = _memory(server.process)
        while (await asyncio.to_thread(_ready, server.url))["in_flight"]:
            most = max(most, _memory(server.process))
            await asyncio.sleep(0.05)
        choices = [_get(f"{server.url}/v1/traces/{trace_id}")["choices"][0] for _, trace_id in deaf]
        for connection, _ in deaf:
            connection.close()

    assert {choice["error"] for choice in choices} == {"cancelled"}
    # A piece of one letter takes 200 bytes of buffers that hold 330 kB together. A whole answer has 21,000.
    assert max(len(choice["transcript"]) for choice in choices) < 3_000
    # The scripted engine itself holds 0.2 MiB for each of these answers.
    assert most - before < 50 * 2**20
