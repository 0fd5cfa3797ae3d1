"""Load a server by all its interfaces at once, and check that nothing of one key is seen by another.

Clients of OpenAI's, Anthropic's and MCP's SDKs, each with one of several keys, begin together: chats (streamed and
whole), responses, messages, MCP, files and vector stores, decisions, checks of claims. What a key sends has a word that
is its own; a reply that holds another key's word is a leak, and so is another key's file, response or trace that can be
read. A refusal for want of room (429) is tried again after its Retry-After; a status from 500 on is a fault.

    python scripts/benchmarks/serving/mixed_clients.py --clients 200

Prints a table by interface. Exit status: 0 no fault and no leak, 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import anthropic
import httpx
import httpx2
import openai
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from scripts.served import served

KEYS: Final = 5
TIMEOUT_S: Final = 300.0
START_S: Final = 900.0
# Codes of refusals for want of room that come inside a stream or a tool's reply.
NO_ROOM: Final = ("server_overloaded", "queue_full")
LONGEST_WAIT_S: Final = 10.0
FULL: Final = 429


@dataclass
class User:
    """One key with its SDKs; ``word`` stands in all that it sends, ``made`` are paths of what it made."""

    url: str
    key: str
    word: str
    model: str
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=TIMEOUT_S, trust_env=False
        )
        own: dict[str, Any] = {"api_key": self.key, "max_retries": 0, "timeout": TIMEOUT_S}
        self.openai = openai.AsyncOpenAI(base_url=f"{self.url}/v1", **own)
        self.anthropic = anthropic.AsyncAnthropic(base_url=self.url, **own)

    @property
    def question(self) -> str:
        return f"Which drug reverses heparin? My note is {self.word}."

    @property
    def text(self) -> str:
        return f"Protamine reverses heparin. {self.word} is the name of this note."

    async def close(self) -> None:
        await self.http.aclose()
        await self.openai.close()
        await self.anthropic.close()


@dataclass(slots=True)
class Tally:
    """What came of the clients of one interface."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    unserved: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    leaks: int = 0


async def chat_stream(user: User) -> str:
    messages: Any = [{"role": "user", "content": user.question}]
    chunks = await user.openai.chat.completions.create(model=user.model, messages=messages, stream=True)
    read = [chunk.model_dump_json() async for chunk in chunks]
    user.made.append(f"/v1/traces/{json.loads(read[0])['id']}")
    return "".join(read)


async def chat_whole(user: User) -> str:
    messages: Any = [{"role": "user", "content": user.question}]
    done = await user.openai.chat.completions.create(model=user.model, messages=messages)
    user.made.append(f"/v1/traces/{done.id}")
    return done.model_dump_json()


async def responses(user: User) -> str:
    done = await user.openai.responses.create(model=user.model, input=user.question)
    user.made.append(f"/v1/responses/{done.id}")
    again = await user.openai.responses.retrieve(done.id)
    return done.model_dump_json() + again.model_dump_json()


async def messages(user: User) -> str:
    asked: Any = [{"role": "user", "content": user.question}]
    async with user.anthropic.messages.stream(model=user.model, max_tokens=300, messages=asked) as stream:
        done = await stream.get_final_message()
    return done.model_dump_json()


async def mcp_tools(user: User) -> str:
    headers = {"Authorization": f"Bearer {user.key}"}
    http = httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False)
    async with http, Client(streamable_http_client(f"{user.url}/mcp", http_client=http)) as client:
        found = await client.call_tool("ncbi_esearch", {"db": "gene", "term": "LMP10"})
        passages = await client.call_tool("search", {"query": user.question})
    for one in (found, passages):
        code = (one.structured_content or {}).get("error", {}).get("code", "") if one.is_error else ""
        if code in NO_ROOM:
            raise Refused(1.0)
        if one.is_error:
            raise RuntimeError(f"mcp: {code}")
    return found.model_dump_json() + passages.model_dump_json()


async def vector_stores(user: User) -> str:
    store = await user.openai.vector_stores.create(name=f"Notes of {user.word}")
    user.made.append(f"/v1/vector_stores/{store.id}")
    file: Any = (f"{user.word}.txt", user.text.encode())
    added = await user.openai.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=file)
    user.made.append(f"/v1/files/{added.id}")
    if added.status != "completed":
        raise RuntimeError(f"vector store: {added.status}: {added.last_error}")
    found = await user.openai.vector_stores.search(store.id, query="heparin")
    listed = await user.openai.files.list()
    read = found.model_dump_json() + listed.model_dump_json()
    if user.word not in read:
        raise RuntimeError("vector store: its own file is not found")
    return read


async def decisions(user: User) -> str:
    question: Any = {"type": "predicate", "instructions": "Protamine reverses heparin."}
    api: Any = user.openai
    done = await api.decisions.create(model="arrowhead-verifier", input=user.text, questions=[question])
    return str(done.model_dump_json())


async def verify(user: User) -> str:
    body = {"claim": "Protamine reverses heparin.", "evidence": [user.text]}
    reply = await user.http.post("/v1/verify", json=body)
    reply.raise_for_status()
    return reply.text


INTERFACES: Final[Mapping[str, Callable[[User], Awaitable[str]]]] = {
    one.__name__: one
    for one in (chat_stream, chat_whole, responses, messages, mcp_tools, vector_stores, decisions, verify)
}


class Refused(Exception):
    """The server has no room; it may be asked again after ``after_s``."""

    def __init__(self, after_s: float) -> None:
        super().__init__()
        self.after_s = after_s


async def client(user: User, name: str, others: frozenset[str], tally: Tally, limit_s: float) -> None:
    """Ask by one interface until it is answered, and look for other keys' words in what came.

    One that is not answered within ``limit_s`` seconds of its beginning gives up and counts as unserved.
    """
    try:
        async with asyncio.timeout(limit_s):
            await _until_answered(user, name, others, tally)
    except TimeoutError:
        tally.unserved += 1


async def _until_answered(user: User, name: str, others: frozenset[str], tally: Tally) -> None:
    began = time.monotonic()
    while True:
        try:
            read = await INTERFACES[name](user)
        except Exception as error:  # each is counted by its kind
            after_s = _retry_after(error)
            if after_s is None:
                tally.faults[_kind(error)] += 1
                return
            tally.refused += 1
            await asyncio.sleep(min(after_s, LONGEST_WAIT_S))
            continue
        tally.seconds.append(time.monotonic() - began)
        tally.leaks += any(word in read for word in others)
        return


def _retry_after(error: Exception) -> float | None:
    """Return after how long a refusal may be tried again, None for any other error."""
    if isinstance(error, Refused):
        return error.after_s
    reply = _reply_of(error)
    if any(f"{code!r}" in str(error) for code in NO_ROOM) and (reply is None or reply.status_code < 400):
        return 1.0
    if reply is None or reply.status_code != FULL:
        return None
    after = reply.headers.get("Retry-After", "")
    return float(after) if after.isdigit() else None


def _reply_of(error: Exception) -> Any:
    """Return the HTTP reply behind an error, None where there is none."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return getattr(inner, "response", None)


def _kind(error: Exception) -> str:
    reply = _reply_of(error)
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    status = "" if reply is None else f" {reply.status_code}"
    return f"{type(inner).__name__}{status}: {str(inner)[:200]}"


async def crossed(users: list[User]) -> int:
    """Return how many things of one key another key can read by their addresses or in its lists."""
    seen = 0
    for user, other in zip(users, [*users[1:], users[0]], strict=True):
        for path in user.made:
            own, foreign = await user.http.get(path), await other.http.get(path)
            seen += foreign.status_code < 400
            if own.status_code >= 400:
                print(f"gone for its own key: {path.rpartition('/')[0]} {own.status_code}")
        for path in ("/v1/files", "/v1/vector_stores"):
            seen += user.word in (await other.http.get(path)).text
    return seen


async def load(url: str, keys: list[str], clients: int, model: str, limit_s: float) -> bool:
    """Run the clients, print the table, and return whether there was neither fault nor leak."""
    users = [User(url, key, f"Quornase{secrets.token_hex(4)}", model) for key in keys]
    words = frozenset(user.word for user in users)
    tallies = {name: Tally() for name in INTERFACES}
    names, began = list(INTERFACES), time.monotonic()
    jobs = []
    for number in range(clients):
        user, name = users[number % len(users)], names[number // len(users) % len(names)]
        jobs.append(client(user, name, words - {user.word}, tallies[name], limit_s))
    await asyncio.gather(*jobs)
    seconds, foreign = time.monotonic() - began, await crossed(users)
    for user in users:
        await user.close()
    print("interface      answered unserved refused(429)  median s     max s  faults  leaks")
    for name, tally in tallies.items():
        middle, most = (median(tally.seconds), max(tally.seconds)) if tally.seconds else (0.0, 0.0)
        counts = f"{len(tally.seconds):>8} {tally.unserved:>8} {tally.refused:>12} {middle:>9.1f} {most:>9.1f}"
        print(f"{name:<14} {counts} {tally.faults.total():>7} {tally.leaks:>6}")
        for kind, number in tally.faults.items():
            print(f"    {number} x {kind}")
    leaks = foreign + sum(tally.leaks for tally in tallies.values())
    faults = sum(tally.faults.total() for tally in tallies.values())
    print(f"{clients} clients of {len(keys)} keys in {seconds:.0f} s: {faults} faults, {leaks} leaks")
    return not faults and not leaks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--model", default="arrowhead", help="which model the chats ask")
    parser.add_argument("--serve", default="", help="which model is served, by default that of a fresh install")
    parser.add_argument("--limit-s", type=float, default=600.0, help="after which a client gives up")
    asked = parser.parse_args()
    keys = [f"key-{number}-{secrets.token_hex(8)}" for number in range(KEYS)]
    with tempfile.TemporaryDirectory() as folder:
        sealing = Path(folder) / "responses.key"
        sealing.write_bytes(base64.urlsafe_b64encode(secrets.token_bytes(32)))
        sealing.chmod(0o600)
        settings = {"SERVER__API_KEYS": ",".join(keys), "STATE__RESPONSES_KEY_FILE": str(sealing)}
        settings |= {"MODEL__NAME": asked.serve} if asked.serve else {}
        with served(settings=settings, start_s=START_S) as server:
            is_clean = asyncio.run(load(server.url, keys, asked.clients, asked.model, asked.limit_s))
            log = server.log.read_text(encoding="utf-8", errors="replace")
    for line in [line for line in log.splitlines() if "Traceback" in line or " ERROR " in line][:20]:
        print(f"log: {line}")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
