"""A site's own MCP servers, real ones made with the SDK: Auto answers from what they find, and a dead one is a step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from cryptography.fernet import Fernet
from server_process import Served
from site_mcp_server import NOTE
from waiting import wait_until

from models.catalog import EMBEDDED_NAME

SCRIPT = Path(__file__).parents[1] / "data" / "site_mcp_server.py"
QUESTION = "Which drug does this hospital use to treat quorn fever?"
WEATHER = "How is the weather in Oslo?"
pytestmark = [pytest.mark.server, pytest.mark.weights]


@pytest.fixture(scope="module")
def shelf_url() -> Iterator[str]:
    """A server over HTTP, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SCRIPT), str(port)], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        wait_until(lambda: _answers(url), "the MCP server answers")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5).status_code > 0
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def site(
    host_with: Callable[..., AbstractContextManager[Served]],
    embedded_settings: dict[str, str | None],
    shelf_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Served, Path]]:
    """Arrowhead with three servers: over HTTP, a command, and one that is not there."""
    log = tmp_path_factory.mktemp("site") / "audit.jsonl"
    servers = f"shelf={shelf_url},notes={sys.executable} {SCRIPT},dead=http://127.0.0.1:9/mcp"
    own = {"ARROWHEAD_MCP__SERVERS": servers, "ARROWHEAD_MCP__TOOLS": "shelf/find,notes/find,dead/find"}
    with host_with(embedded_settings | own | {"ARROWHEAD_AUDIT__PATH": str(log)}) as server:
        yield server, log


def test_auto_answers_from_what_the_sites_tools_find(site: tuple[Served, Path]) -> None:
    """The quote is of the tool, the dead server a step, each call on the audit log, and nothing left."""
    server, log = site
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=300, max_retries=0) as client:
        reply: Any = client.chat.completions.create(
            model="arrowhead", messages=[{"role": "user", "content": QUESTION}], extra_body={"arrowhead": {}}
        )
    message = reply.choices[0].message
    assert NOTE.rstrip(".") in message.content
    assert message.arrowhead["answered_by"] == "medrag"
    assert message.arrowhead["egress"] == "no data left this machine"
    trace = httpx.get(f"{server.url}/v1/traces/{reply.id}", trust_env=False).json()["choices"][0]
    assert any("the tools of dead failed" in step for step in trace["steps"])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = {line["where"] for line in lines if line["event"] == "local" and line["endpoint"] == "mcp_find"}
    assert asked == {"mcp:shelf", "mcp:notes"}
    assert QUESTION not in log.read_text()


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"server_label": "unknown"}, "it knows: shelf, notes, dead"),
        ({"server_label": "shelf"}, "chat"),
        ({"server_label": "shelf", "server_url": "https://x.example"}, "mcp.servers"),
    ],
    ids=["unknown", "a model without tools", "an address"],
)
def test_what_the_plain_model_cannot_use_is_refused(site: tuple[Served, Path], tool: dict[str, Any], said: str) -> None:
    body = {"model": EMBEDDED_NAME, "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "mcp"} | tool]}
    reply = httpx.post(f"{site[0].url}/v1/chat/completions", json=body, trust_env=False, timeout=60)
    assert (reply.status_code, said in reply.json()["error"]["message"]) == (422, True), reply.text


@pytest.fixture(scope="module")
def chatting(
    host_with: Callable[..., AbstractContextManager[Served]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A model that calls a tool, and answers from what it found; the site has that tool and a dead server.

    It calls a function for the weather, and what is answered is stored.
    """
    folder = tmp_path_factory.mktemp("chatting")
    script, keys = folder / "script.json", folder / "responses.key"
    keys.write_bytes(Fernet.generate_key())
    call = '<tool_call>\n{"name": "notes__find", "arguments": {"question": "quorn fever"}}\n</tool_call>'
    weather = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    rules = [
        {"suffix": NOTE, "text": "Zorbamide."},
        {"suffix": QUESTION, "text": call},
        {"suffix": WEATHER, "text": weather},
        {"suffix": "12 degrees", "text": "Mild."},
        {"suffix": "And tomorrow?", "text": "The same."},
        {"suffix": "What treats asthma?", "text": "Flunisolide."},
    ]
    script.write_text(json.dumps({"rules": rules, "tools": True}))
    servers = f"notes={sys.executable} {SCRIPT},dead=http://127.0.0.1:9/mcp"
    model = {"ARROWHEAD_MODEL__SCRIPT": str(script), "ARROWHEAD_MODEL__PROMPT_FORM": "chat"}
    model["ARROWHEAD_STATE__RESPONSES_KEY_FILE"] = str(keys)
    with host_with(model | {"ARROWHEAD_MCP__SERVERS": servers}) as server:
        yield server


TOOLS: list[Any] = [
    {"type": "mcp", "server_label": "notes", "allowed_tools": ["find"], "require_approval": "never"},
    {"type": "mcp", "server_label": "dead", "require_approval": "never"},
]


def test_a_response_has_the_tools_and_their_calls_as_items(chatting: Served) -> None:
    """In the types of the SDK; the stream's events end in the same response."""
    with openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", timeout=60, max_retries=0) as client:
        asked: dict[str, Any] = {"model": "scripted", "input": QUESTION, "tools": TOOLS}
        whole = client.responses.create(**asked)
        events = list(client.responses.create(stream=True, **asked))
        follow: Any = [{"role": "user", "content": "x"}, *whole.output, {"role": "user", "content": QUESTION}]
        again = client.responses.create(**(asked | {"input": follow}))
    listed, dead, _, call, message = whole.output
    assert listed.type == "mcp_list_tools" and [tool.name for tool in listed.tools] == ["find"] and not listed.error
    assert dead.type == "mcp_list_tools" and dead.server_label == "dead" and dead.error and not dead.tools
    assert call.type == "mcp_call" and (call.server_label, call.name, call.status) == ("notes", "find", "completed")
    assert (json.loads(call.arguments), call.output, call.error) == ({"question": "quorn fever"}, NOTE, None)
    assert message.type == "message" and whole.output_text.strip() == "Zorbamide." == again.output_text.strip()
    assert [tool.type for tool in whole.tools] == ["mcp", "mcp"]
    names = [event.type for event in events]
    assert {
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    } <= {*names} and names[-1] == "response.completed"
    assert [item.type for item in events[-1].response.output] == [item.type for item in whole.output]


def _ended(client: openai.OpenAI, response: Any) -> Any:
    """The response, once it has been answered in the background."""
    wait_until(lambda: client.responses.retrieve(response.id).status == "completed", "the answer ends")
    return client.responses.retrieve(response.id)


@pytest.mark.parametrize("background", [False, True])
def test_a_stored_response_with_the_sites_tools_is_followed(chatting: Served, background: bool) -> None:
    """Its items are stored with it; the next response reads its question and answer again, and may call tools too."""
    with openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", timeout=60, max_retries=0) as client:
        asked: dict[str, Any] = {"model": "scripted", "tools": TOOLS, "store": True, "background": background}
        made = client.responses.create(input=QUESTION, **asked)
        first = _ended(client, made)
        kinds = [item.type for item in first.output]
        assert kinds == ["mcp_list_tools", "mcp_list_tools", "reasoning", "mcp_call", "message"]
        assert first.output_text.strip() == "Zorbamide." and first.tools[0].server_label == "notes"
        second = _ended(client, client.responses.create(input=QUESTION, previous_response_id=first.id, **asked))
        assert second.output_text.strip() == "Zorbamide." and "mcp_call" in [item.type for item in second.output]
        asked.pop("tools")
        last = _ended(client, client.responses.create(input="And tomorrow?", previous_response_id=second.id, **asked))
        assert last.output_text.strip() == "The same."


@pytest.mark.parametrize("background", [False, True])
def test_a_stored_call_of_a_function_is_followed_by_its_result(chatting: Served, background: bool) -> None:
    """The result alone is sent: question and call are read again."""
    function: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
    with openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", timeout=60, max_retries=0) as client:
        asked: dict[str, Any] = {"model": "scripted", "tools": [function], "background": background}
        first = _ended(client, client.responses.create(input=WEATHER, **asked))
        (call,) = first.output
        assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"city": "Oslo"})
        result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}]
        second = _ended(client, client.responses.create(input=result, previous_response_id=first.id, **asked))
        assert second.output_text.strip() == "Mild."
        (item,) = client.responses.input_items.list(second.id)
        assert item.type == "function_call_output" and item.output == "12 degrees"
        plain: Any = asked | {"background": False, "store": False}
        third = client.responses.create(input="And tomorrow?", previous_response_id=second.id, **plain)
        assert third.output_text.strip() == "The same."


def test_a_conversation_has_calls_of_functions_and_tools(chatting: Served) -> None:
    function: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
    with openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", timeout=60, max_retries=0) as client:
        talk = client.conversations.create()
        fields: Any = {"model": "scripted", "conversation": talk.id}
        (call,) = client.responses.create(input=WEATHER, tools=[function], **fields).output
        result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}]
        assert client.responses.create(input=result, tools=[function], **fields).output_text.strip() == "Mild."
        assert client.responses.create(input=QUESTION, tools=TOOLS, **fields).output_text.strip() == "Zorbamide."
        kinds = [item.type for item in client.conversations.items.list(talk.id, order="asc")]
        assert kinds[:4] == ["message", "function_call", "function_call_output", "message"]
        assert kinds[-2:] == ["mcp_call", "message"]
        assert client.responses.create(input="And tomorrow?", **fields).output_text.strip() == "The same."
        method = client.responses.create(input="What treats asthma?", **fields | {"model": "scripted:kg-rag"})
        assert method.status == "completed"  # a method reads what was said, and no calls


def test_a_clients_own_server_is_refused_in_a_response(chatting: Served) -> None:
    with (
        openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", timeout=60, max_retries=0) as client,
        pytest.raises(openai.UnprocessableEntityError, match=r"send server_label, a name of mcp\.servers"),
    ):
        tool: Any = {"type": "mcp", "server_label": "notes", "server_url": "https://x.example"}
        client.responses.create(model="scripted", input=QUESTION, tools=[tool])
