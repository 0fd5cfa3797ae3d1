"""MCP as agents speak it: the official SDK over HTTP and standard input, the lines of an older client, keys, scopes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from own_folders import own_environment
from server_process import Served

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes
from server.wiring.data_folder import DataFolder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
NCBI = ["ncbi_esearch", "ncbi_esummary", "ncbi_efetch", "ncbi_elink", "ncbi_blast"]
TOOLS = ["search", "read_passage", *NCBI, "graph_context", "verify", "ask"]
OPERATOR = "an-operators-key"


@pytest.fixture(scope="module")
def keyed(
    host_with: Callable[..., AbstractContextManager[Served]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server with keys: one for passages alone."""
    file = tmp_path_factory.mktemp("mcp-keys") / "keys.json"
    store = FileKeyStore(file)
    wishes = [NewKey(name="reader", scopes=Scopes(methods=("medrag",), requests_per_minute=30))]
    keys = {"operator": OPERATOR} | {wish.name: store.create(wish)[0] for wish in wishes}
    settings = {"ARROWHEAD_SERVER__API_KEYS": OPERATOR, "ARROWHEAD_SERVER__KEYS_FILE": str(file)}
    with host_with(settings) as server:
        yield server, keys


def _client(server: Served, key: str = "") -> Client:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60)
    return Client(streamable_http_client(f"{server.url}/mcp", http_client=http))


async def _called(client: Client, name: str, **arguments: Any) -> tuple[bool, str, Any]:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    return result.is_error, content.text, result.structured_content


async def test_an_agent_looks_up_searches_and_reads(running: Served) -> None:
    """By the SDK's client, with the newest protocol; a passage is a resource too."""
    async with _client(running) as client:
        assert client.protocol_version == "2026-07-28" and client.instructions
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS

        failed, text, data = await _called(client, "ncbi_esearch", db="gene", term="LMP10")
        assert (failed, text, data["ids"]) == (False, "[1 id: 5699]", ["5699"])
        assert data["egress"] == "no data left this machine"
        failed, text, data = await _called(client, "ncbi_esummary", db="gene", id="5699")
        assert not failed and "PSMB10 (human)" in text and data["records"][0]["id"] == "5699"

        _, text, data = await _called(client, "search", query="Which drug reverses heparin?", k=3.0)
        assert len(data["passages"]) == 3 and "Heparin" in text
        passage = data["passages"][0]
        _, text, data = await _called(client, "read_passage", namespace=passage["namespace"], id=passage["id"])
        assert data["text"] == passage["text"] and data["text"] in text
        read = await client.read_resource(f"arrowhead://passages/{passage['namespace']}/{passage['id']}")
        assert json.loads(read.contents[0].text)["text"] == passage["text"]  # type: ignore[union-attr]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "arrowhead://passages/{namespace}/{id}",
            "arrowhead://traces/{id}",
        ]


async def test_statements_of_the_graph_and_answers_have_a_trace(running: Served) -> None:
    async with _client(running) as client:
        failed, text, data = await _called(client, "graph_context", question="What treats rheumatoid arthritis?", k=2)
        assert not failed and len(data["statements"]) == 2 <= data["num_found"]
        assert text.splitlines() == data["statements"] and "rheumatoid arthritis" in text
        failed, text, data = await _called(
            client, "ask", question="What is the official gene symbol of LMP10?", method="genegpt"
        )
        assert not failed and text.startswith("PSMB10 [1]")
        assert data["sources"][0]["url"] == "https://www.ncbi.nlm.nih.gov/gene/5699"
        trace = await client.read_resource(f"arrowhead://traces/{data['trace_id']}")
        assert json.loads(trace.contents[0].text)["id"] == data["trace_id"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("ncbi_esearch", {"db": "nothing", "term": "x"}, "'nothing' is not one of"),
        ("ncbi_esearch", {"db": "gene"}, "'term' is a required property"),
        ("ncbi_efetch", {"db": "gene", "id": "1; DROP"}, "call refused"),
        ("search", {"query": "heparin", "namespaces": ["nobodys"]}, "there is no namespace 'nobodys'"),
        ("read_passage", {"namespace": "notes", "id": "1"}, "namespace notes has no such passage"),
        ("ask", {"question": "x", "method": "magic"}, "'magic' is not one of"),
        ("verify", {"claim": "Aspirin works.", "evidence": ["It does."]}, "cannot be loaded"),
    ],
)
async def test_what_is_refused_or_fails_is_told_to_the_agents_model(
    running: Served, name: str, arguments: dict[str, Any], told: str
) -> None:
    async with _client(running) as client:
        failed, text, _ = await _called(client, name, **arguments)
        assert failed and told in text


async def test_unknown_tools_and_resources_are_errors_of_the_protocol(running: Served) -> None:
    async with _client(running) as client:
        with pytest.raises(MCPError, match="there is no tool 'rm'"):
            await client.call_tool("rm", {})
        for uri, told in (("arrowhead://secrets/1", "resources are"), ("arrowhead://traces/none", "no such trace")):
            with pytest.raises(MCPError, match=told):
                await client.read_resource(uri)


def test_a_client_of_2025_begins_with_initialize(running: Served) -> None:
    """A raw one: the handshake, and then a call without a session."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    call = {"name": "ncbi_esearch", "arguments": {"db": "gene", "term": "LMP10"}}
    with httpx.Client(base_url=running.url, headers=headers, trust_env=False, timeout=60) as http:
        begun = http.post("/mcp", json=first).json()["result"]
        assert begun["protocolVersion"] == "2025-06-18" and begun["serverInfo"]["name"] == "arrowhead"
        assert http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        made = http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).json()
        assert made["result"]["content"][0]["text"] == "[1 id: 5699]"
        assert http.get("/mcp").status_code == 405


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"{}", "application/json", -32602),
        (b"[]", "application/json", -32602),
        (b"{", "application/json", -32700),
        (b"\xff\xfe", "application/json", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nothing/at_all"}', "application/json", -32601),
        (b"{}", "text/plain", None),
    ],
)
def test_what_is_no_request_is_refused_in_the_protocols_shape(
    running: Served, body: bytes, kind: str, code: int | None
) -> None:
    """By the SDK; a body of another type has no id that an error could go to."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": kind}
    reply = httpx.post(f"{running.url}/mcp", content=body, headers=headers, trust_env=False, timeout=60)

    assert reply.status_code < 500
    if code is not None:
        assert reply.json()["error"]["code"] == code


async def test_a_key_sees_the_tools_of_its_methods_alone(keyed: tuple[Served, dict[str, str]]) -> None:
    """And a call counts once against its rate."""
    server, keys = keyed
    async with _client(server, keys["operator"]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
    async with _client(server, keys["reader"]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "read_passage", "verify", "ask"]
        with pytest.raises(MCPError, match="there is no tool 'graph_context' for this key"):
            await client.call_tool("graph_context", {"question": "x"})
        failed, text, _ = await _called(client, "ask", question="x", method="genegpt")
        assert failed and "there is no model 'scripted:genegpt'" in text and "kg-rag" not in text

    def left() -> int:
        headers = {"Authorization": f"Bearer {keys['reader']}"}
        return int(httpx.get(f"{server.url}/v1/models", headers=headers).headers["x-ratelimit-remaining-requests"])

    async with _client(server, keys["reader"]) as client:
        before = left()
        await _called(client, "ask", question="hello", method="genegpt")
        assert before - left() == 2  # the call, and this look


def test_without_a_key_nothing_is_answered(keyed: tuple[Served, dict[str, str]]) -> None:
    reply = httpx.post(f"{keyed[0].url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")


def _command(folder: Path, *words: str) -> StdioServerParameters:
    environment = own_environment(folder) | {
        "PYTHONPATH": str(ROOT),
        "ARROWHEAD_MODEL__ENGINE": "scripted",
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder / "namespaces"),
    }
    (folder / "script.json").write_text("[]")
    environment["ARROWHEAD_MODEL__SCRIPT"] = str(folder / "script.json")
    return StdioServerParameters(command=sys.executable, args=["-m", "server", "mcp", *words], env=environment)


@pytest.mark.server
@pytest.mark.parametrize("is_own", [True, False])
async def test_the_command_speaks_on_standard_input(running: Served, tmp_path: Path, is_own: bool) -> None:
    """With a server of its own, or passing all on to one that runs."""
    words = () if is_own else ("--url", running.url)
    async with Client(_command(tmp_path, *words), read_timeout_seconds=120) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        failed, text, _ = await _called(client, "ncbi_esearch", db="gene", term="PSMB10")
        assert not failed and ("5699" in text) == is_own
        with pytest.raises(MCPError, match="there is no tool 'rm'"):
            await client.call_tool("rm", {})


@pytest.mark.server
def test_beside_a_server_of_the_same_data_the_command_says_how_to_speak_for_it(tmp_path: Path) -> None:
    command, held = _command(tmp_path), DataFolder(tmp_path / "namespaces")
    try:
        words = [command.command, *command.args]
        ended = subprocess.run(words, env=command.env, input="", capture_output=True, text=True, timeout=120)
    finally:
        held.close()
    assert ended.returncode == 2 and "arrowhead mcp --url http://127.0.0.1:8000" in ended.stderr, ended.stderr


@pytest.mark.weights
def test_the_pages_example_runs(embedded_model: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program.replace("http://127.0.0.1:8000", embedded_model.url), "mcp.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "5699" in shown and "rotamine" in shown
