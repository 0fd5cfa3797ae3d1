"""Two servers behind HAProxy as it is shipped: one after the other is replaced, and no stream is lost."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_process import Running
from waiting import wait_until

from scripts.benchmarks.serving.streams import Outcome, Target

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")]
CONFIG = Path(__file__).parents[2] / "deploy" / "scale-out" / "haproxy.cfg"
KEY = "the-operators-own-key"
HEADERS = {"Authorization": f"Bearer {KEY}"}
LONG, SHORT = " word" * 24, " a few words"
RULES = [{"suffix": "Question: long\nAnswer:", "text": LONG}, {"suffix": "Question: short\nAnswer:", "text": SHORT}]
Start = Callable[[int], Running]


@dataclass(frozen=True)
class Site:
    """HAProxy's address, and its two servers with how to start another one in the place of each."""

    url: str
    log: Path
    servers: list[Running]
    start: Start

    def restore(self) -> None:
        """Bring both servers up, and wait until HAProxy has found them."""
        for number, server in enumerate(self.servers):
            if server.process.poll() is not None:
                self.servers[number] = self.start(int(server.url.rpartition(":")[2]))
        wait_until(self.has_both, "HAProxy has not found both servers")

    def has_both(self) -> bool:
        try:
            if httpx.get(f"{self.url}/haproxy-health", timeout=120).status_code != 200:
                return False
        except httpx.TransportError:
            return False
        said = self.log.read_text()
        return all(said.count(f"server-{n} is UP") >= said.count(f"server-{n} is DOWN") for n in (1, 2))

    def in_flight(self, number: int) -> int:
        reply = httpx.get(f"{self.servers[number].url}/ready", headers=HEADERS, timeout=120)
        return int(reply.json()["in_flight"])

    async def has_in_flight(self, expected: int) -> None:
        """Wait until both together have so many."""
        for _ in range(2400):
            found = [await asyncio.to_thread(self.in_flight, number) for number in (0, 1)]
            if sum(found) == expected:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"in flight: {found}, expected: {expected}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def haproxy(folder: Path, urls: list[str]) -> Iterator[str]:
    """The shipped file, with other addresses alone; the key of its checks comes from a file before it."""
    port = free_port()
    text = CONFIG.read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    for number, url in enumerate(urls, start=1):
        text = text.replace(f"server-{number}:8000", url.removeprefix("http://"))
    (folder / "key.cfg").write_text(f"global\n  setenv ARROWHEAD_PROBE_KEY {KEY}\n")
    (folder / "haproxy.cfg").write_text(text)
    files = ["-f", str(folder / "key.cfg"), "-f", str(folder / "haproxy.cfg")]
    with (folder / "haproxy.log").open("w") as log:
        process = subprocess.Popen(["haproxy", "-db", *files], stdout=log, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def both_servers(
    serve_with: Callable[..., AbstractContextManager[Running]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("behind-haproxy")
    script = folder / "script.json"
    script.write_text(json.dumps({"rules": RULES, "behaviour": {"token_delay_s": 0.05}}))
    settings = {
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_SERVER__API_KEYS": KEY,
        "ARROWHEAD_SERVER__DRAIN_NOTICE_S": "3",
        "ARROWHEAD_SERVER__SHUTDOWN_GRACE_S": "20",
    }
    with ExitStack() as stack:

        def start(port: int) -> Running:
            return stack.enter_context(serve_with(settings, port=port))

        with ThreadPoolExecutor() as threads:
            servers = list(threads.map(start, (0, 0)))
        url = stack.enter_context(haproxy(folder, [one.url for one in servers]))
        yield Site(url, folder / "haproxy.log", servers, start)
        for one in servers:
            one.process.kill()  # their end is slow, and was seen


@pytest.fixture
def site(both_servers: Site) -> Site:
    both_servers.restore()
    return both_servers


def question(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": text}], **fields}


def is_whole(outcome: Outcome) -> bool:
    return (outcome.status, outcome.text, outcome.done, outcome.error) == (200, LONG.lstrip(), True, "")


async def end_server(site: Site, number: int) -> list[Outcome]:
    """End one server under streams, see them whole, and return what new requests got meanwhile."""
    target, old = Target(site.url, KEY), site.servers[number]
    running = [asyncio.create_task(target.ask(question("long"))) for _ in range(6)]
    await site.has_in_flight(6)
    old.process.send_signal(signal.SIGTERM)
    asked: list[asyncio.Task[Outcome]] = []
    while old.process.poll() is None:
        asked.append(asyncio.create_task(target.ask(question("short", stream=len(asked) % 2 == 0))))
        await asyncio.sleep(0.1)
    streams = await asyncio.gather(*running)
    assert [one for one in streams if not is_whole(one)] == []
    # Pieces come as they are made, not when the reply is complete.
    assert all(one.first_s < one.total_s / 2 for one in streams)
    assert old.process.returncode == 0
    return list(await asyncio.gather(*asked))


async def test_a_client_that_leaves_ends_its_answer_behind_the_proxy(site: Site) -> None:
    """Its place is free again, whether the reply has begun or not; metrics are not for clients."""
    target = Target(site.url, KEY)
    metrics = await asyncio.to_thread(httpx.get, f"{site.url}/metrics", headers=HEADERS)
    assert metrics.status_code == 404
    stays = asyncio.create_task(target.ask(question("long")))
    opened = [await target.open(question("long", stream=stream)) for stream in (True, True, False, False)]
    await site.has_in_flight(5)
    for _, writer in opened:
        writer.close()
    await site.has_in_flight(1)  # while an answer as long goes on
    assert is_whole(await stays)


@pytest.mark.long
async def test_an_update_of_both_servers_loses_no_stream_and_refuses_nothing(site: Site) -> None:
    """Streams of the ending server are finished there; each new request is answered by the other at once."""
    meanwhile = await end_server(site, 0)
    await asyncio.to_thread(site.restore)
    meanwhile += await end_server(site, 1)
    assert len(meanwhile) > 20
    assert {(one.status, one.text, one.error) for one in meanwhile} == {(200, SHORT.lstrip(), "")}


async def test_a_killed_server_costs_its_own_streams_alone(site: Site) -> None:
    """Those end with an error, as part of them was sent; what was not answered yet is asked again at the other."""
    target = Target(site.url, KEY)
    running = [asyncio.create_task(target.ask(question("long"))) for _ in range(6)]
    whole = [asyncio.create_task(target.ask(question("long", stream=False))) for _ in range(2)]
    await site.has_in_flight(8)
    await asyncio.sleep(1)
    site.servers[1].process.kill()
    after = [await target.ask(question("short")) for _ in range(10)]
    streams, replies = await asyncio.gather(*running), await asyncio.gather(*whole)
    broken = [one for one in streams if not is_whole(one)]
    assert 2 <= len(broken) <= 4 and all(one.is_broken and not one.done for one in broken)
    assert {(one.status, one.text) for one in replies} == {(200, LONG.lstrip())}
    assert {(one.status, one.text, one.error) for one in after} == {(200, SHORT.lstrip(), "")}
