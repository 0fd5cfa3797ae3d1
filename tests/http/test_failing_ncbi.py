"""Whatever NCBI does wrong, the server answers: the error stands in the transcript and the answer is finished."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest
from ncbi_server import Answer, NcbiServer, Seen

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
CUT = json.dumps({"header": {}, "esearchresult": {"count": "1", "idlist": ["5699"]}})[:40].encode()
PAGE = b"<!DOCTYPE html><html><body>NCBI is being maintained</body></html>"
HALF = {"header": {}, "esearchresult": {"ERROR": "no term \ud800 \udc00 \udfff\ud800"}}
HALF_ID = {"header": {}, "esearchresult": {"count": "1", "idlist": ["7\udfff"], "translationset": ["\ud83d"]}}
JSON = {"Content-Type": "application/json"}
FAILURES = {
    "half a character": Answer(body=json.dumps(HALF).encode(), headers=JSON),
    "throttled": Answer(status=429, headers={"Retry-After": "0"}, body=b'{"error":"API rate limit exceeded"}'),
    "failing": Answer(status=500, body=b"Internal Server Error"),
    "hanging": Answer(hang=True),
    "dropped": Answer(drop=True),
    "cut": Answer(body=CUT, headers={"Content-Type": "application/json"}),
    "broken off": Answer(body=CUT, announced=5000),
    "page": Answer(body=PAGE, headers={"Content-Type": "text/html"}),
    "huge": Answer(stream_bytes=50 * 2**20, headers={"Content-Type": "application/json"}),
    "huge, unannounced": Answer(stream_bytes=50 * 2**20, announced=-1),
}
ODD = {"half an id": Answer(body=json.dumps(HALF_ID).encode(), headers=JSON)}
ENDING = "Answer: not found, the call failed\n\n"


def _answer(seen: Seen) -> Answer:
    return (FAILURES | ODD)[seen.params["term"].replace("_", " ")]


@pytest.fixture(scope="module")
def failing_ncbi() -> Iterator[str]:
    """Address of a loopback NCBI that fails in the way the term names."""
    loop, started, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    server = NcbiServer(_answer)

    async def run() -> None:
        async with server:
            started.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert started.wait(120)
    yield server.url
    loop.call_soon_threadsafe(ended.set)
    thread.join(120)


@pytest.fixture(scope="module")
def client(
    failing_ncbi: str, host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    script = tmp_path_factory.mktemp("failing") / "script.json"
    calls = [
        {"suffix": f"Question: {name}\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term={name.replace(' ', '_')}]->"}
        for name in (*FAILURES, *ODD)
    ]
    script.write_text(json.dumps([*calls, {"regex": r"\[(error: |1 id)[^\]]+\]\n$", "text": ENDING}]))
    settings = {
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_NCBI__EUTILS_URL": failing_ncbi,
        "ARROWHEAD_NCBI__TOTAL_TIMEOUT_S": "2",
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
    }
    with host_with(settings) as running, running.client() as made:
        yield made


def _ask(client: openai.OpenAI, failure: str) -> tuple[str, str, dict[str, Any]]:
    """Answer, finish reason and the one call of the trace."""
    reply = client.chat.completions.create(
        model="scripted:genegpt", messages=[{"role": "user", "content": failure}], timeout=60
    )
    url = str(client.base_url).rstrip("/") + f"/traces/{reply.id}"
    with urllib.request.urlopen(url, timeout=120) as found:
        (choice,) = json.load(found)["choices"]
    (call,) = choice["calls"]
    return reply.choices[0].message.content or "", reply.choices[0].finish_reason, call


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_call_ends_in_a_finished_answer(client: openai.OpenAI, failure: str) -> None:
    """200, an answer that says so, and the call's typed error in the trace."""
    answer, finish_reason, call = _ask(client, failure)

    assert answer.startswith("not found, the call failed\n\n(The look-up failed (error: ")
    assert finish_reason == "stop"
    assert call["status"] == "error"


def test_a_storm_of_failures_costs_no_answer(client: openai.OpenAI) -> None:
    """Four of every failure at once: all are answered, and the server goes on."""
    with ThreadPoolExecutor(36) as pool:
        answers = list(pool.map(lambda failure: _ask(client, failure), [*FAILURES] * 4))

    assert {(reason, call["status"]) for _, reason, call in answers} == {("stop", "error")}
    assert all("(The look-up failed (error: " in answer for answer, _, _ in answers)
    assert client.models.list().data


@pytest.mark.parametrize("failure", ["half a character", "half an id"])
def test_halves_of_characters_in_a_reply_reach_no_client(client: openai.OpenAI, failure: str) -> None:
    """They are replaced where the reply comes in: the answer, its stream and its trace can be sent."""
    messages: Any = [{"role": "user", "content": failure}]
    whole = client.chat.completions.create(model="scripted:genegpt", messages=messages)
    stream = client.chat.completions.create(
        model="scripted:genegpt", messages=messages, stream=True, extra_body={"arrowhead": {"events": True}}
    )
    pieces = list(stream)
    with urllib.request.urlopen(f"{client.base_url}traces/{whole.id}", timeout=120) as reply:
        trace = json.load(reply)

    assert whole.choices[0].message.content
    assert pieces[-1].choices == [] or pieces[-1].choices[0].finish_reason == "stop"
    assert "\ufffd" in json.dumps(trace["choices"][0]["calls"], ensure_ascii=False)
    json.dumps(trace, ensure_ascii=False).encode()
