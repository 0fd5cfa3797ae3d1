"""The plain model over vLLM's own OpenAI layer, in a real server process on vLLM's CPU build."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]
USER: list[Any] = [{"role": "user", "content": "What is the official gene symbol of LMP10?"}]
KEY = "a-key-of-this-test"
OWN = {"type": "message", "role": "assistant", "status": "completed", "id": "m"}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(serve_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: Any) -> Iterator[Any]:
    """A random model with a chat template, with vLLM's reader of tool calls."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    build = runpy.run_path(str(Path(__file__).parents[1] / "tiny_models.py"))["build_llama"]
    directory = build(tmp_path_factory.mktemp("chat-llama") / "chat-llama", context=2048)
    variables: dict[str, str | None] = {
        "ARROWHEAD_MODEL__SCRIPT": None,
        "ARROWHEAD_MODEL__TOOL_CALL_PARSER": "hermes",
        "ARROWHEAD_MODEL__ENGINE": "vllm",
        "ARROWHEAD_MODEL__NAME": str(directory),
        "ARROWHEAD_MODEL__KV_CACHE_GIB": "0.25",
        "ARROWHEAD_SERVER__API_KEYS": KEY,
    }
    with serve_with(variables) as running:
        yield running


@pytest.fixture
def client(server: Any) -> Iterator[openai.OpenAI]:
    with server.client(KEY) as made:
        yield made


def _post(server: Any, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return httpx.post(server.url + path, json=body, headers={"Authorization": f"Bearer {KEY}"} | headers, timeout=60)


def test_choices_and_logprobs_of_chat(client: openai.OpenAI) -> None:
    """``n`` and ``top_logprobs``, as the SDK reads them."""
    made = client.chat.completions.create(
        model="chat-llama", messages=USER, n=2, max_tokens=4, logprobs=True, top_logprobs=2, seed=1
    )

    assert len(made.choices) == 2
    assert made.choices[0].logprobs is not None
    assert [len(token.top_logprobs) for token in made.choices[0].logprobs.content or ()] == [2] * 4
    assert made.usage is not None and made.usage.completion_tokens == 8


def test_a_schema_holds(client: openai.OpenAI) -> None:
    """``response_format``: what our own subset refuses."""
    shape: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    made = client.chat.completions.create(
        model="chat-llama", messages=USER, max_tokens=200, response_format=shape, temperature=0
    )

    if made.choices[0].finish_reason == "stop":
        assert 0 <= json.loads(made.choices[0].message.content or "")["a"] <= 9
    else:
        assert (made.choices[0].message.content or "").lstrip().startswith("{")


def test_a_tool_that_is_asked_for_is_called(client: openai.OpenAI) -> None:
    """``tool_choice`` with a name gives a call of that tool."""
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
    made = client.chat.completions.create(
        model="chat-llama",
        messages=USER,
        max_tokens=200,
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "look"}},
    )

    calls = made.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls if call.type == "function"] == ["look"]


def test_a_stream_ends_with_usage(client: openai.OpenAI) -> None:
    """Pieces come as vLLM sends them: on a busy machine several tokens at once."""
    chunks = list(
        client.chat.completions.create(
            model="chat-llama", messages=USER, max_tokens=4, stream=True, stream_options={"include_usage": True}
        )
    )

    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 4
    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) >= 1


def test_completions_echo_and_messages(server: Any) -> None:
    """Both of the layer's other forms."""
    echoed = _post(server, "/v1/completions", {"model": "chat-llama", "prompt": "hi", "max_tokens": 2, "echo": True})
    message = _post(server, "/v1/messages", {"model": "chat-llama", "messages": USER, "max_tokens": 3})
    counted = _post(server, "/v1/messages/count_tokens", {"model": "chat-llama", "messages": USER})

    assert echoed.json()["choices"][0]["text"].startswith("hi")
    assert message.json()["usage"]["output_tokens"] == 3
    assert counted.json()["input_tokens"] == message.json()["usage"]["input_tokens"]


def test_responses_are_the_layers(client: openai.OpenAI) -> None:
    """Whole and streamed for the plain model, with what our own subset refuses; a method's are ours."""
    schema: Any = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}
    whole = client.responses.create(model="chat-llama", input="hello", max_output_tokens=4)
    shaped = client.responses.create(model="chat-llama", input="hello", max_output_tokens=40, text=schema)
    events = list(client.responses.create(model="chat-llama", input="hello", max_output_tokens=4, stream=True))
    ours = client.responses.create(model="chat-llama:kg-rag", input="hello", max_output_tokens=3)

    assert whole.usage is not None and whole.usage.output_tokens == 4
    assert shaped.output_text.lstrip().startswith("{")
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert not hasattr(whole, "arrowhead") and hasattr(ours, "arrowhead")


@pytest.mark.parametrize(
    "item",
    [
        OWN | {"content": [{"type": "refusal", "refusal": "no"}]},
        OWN | {"content": []},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "I search."}]},
        {"type": "open_webui:code_interpreter", "id": "o"},
    ],
)  # fmt: skip
def test_items_of_an_earlier_reply_can_be_sent_back(server: Any, item: dict[str, Any]) -> None:
    """A conversation that began with a method goes on with the plain model; a refusal is read as text."""
    items = [{"role": "user", "content": "hi"}, item, {"role": "user", "content": "b"}]
    reply = _post(server, "/v1/responses", {"model": "chat-llama", "input": items, "max_output_tokens": 4})
    assert reply.status_code == 200, reply.text


def test_what_the_layer_would_not_keep_is_refused(server: Any) -> None:
    """A keyword that it ignores, and a field that it no longer knows."""
    schema = {"type": "object", "properties": {"x": {"type": "integer", "not": {"const": 1}}}}
    demand = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    for fields, word in (
        ({"response_format": demand}, "has not which"),
        ({"guided_choice": ["a"]}, "structured_outputs"),
    ):
        reply = _post(server, "/v1/chat/completions", {"model": "chat-llama", "messages": USER, **fields})
        assert (reply.status_code, word in reply.json()["error"]["message"]) == (422, True), reply.text


def test_tokens_are_those_of_the_layer(server: Any) -> None:
    """``/tokenize`` counts a chat as the layer's usage does."""
    counted = _post(server, "/tokenize", {"model": "chat-llama", "messages": USER})
    answered = _post(server, "/v1/chat/completions", {"model": "chat-llama", "messages": USER, "max_tokens": 1})

    assert counted.json()["count"] == answered.json()["usage"]["prompt_tokens"]


def test_methods_stay_ours(server: Any) -> None:
    """The same server answers a method with its own record, also in Anthropic's form."""
    asked = {"model": "chat-llama:kg-rag", "messages": USER, "max_tokens": 3}
    answered = _post(server, "/v1/chat/completions", asked)
    message = _post(server, "/v1/messages", asked)

    assert answered.json()["choices"][0]["message"]["arrowhead"]
    assert message.json()["arrowhead"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"priority": -1}, 422),
        ({"n": 100}, 422),
        ({"max_tokens": 100_000}, 400),
        ({"structured_outputs": {"regex": "(a{999}){999}"}}, 422),
        ({"structured_outputs": {"regex": "(("}}, 400),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]}, 422),
        ({"messages": "x"}, 400),
        ({"messages": []}, 422),
    ],
)
def test_bad_requests_are_told_and_harm_nobody(server: Any, fields: dict[str, Any], status: int) -> None:
    """By us or by vLLM; the engine goes on."""
    reply = _post(server, "/v1/chat/completions", {"model": "chat-llama", "messages": USER, "max_tokens": 2} | fields)

    assert reply.status_code == status
    assert reply.json()["error"]["message"]
    assert _post(server, "/v1/completions", {"model": "chat-llama", "prompt": "x", "max_tokens": 1}).status_code == 200


def test_headers_and_routes_of_the_layer_are_not_reached(server: Any) -> None:
    """Nothing but what generates is there, and no header steers its scheduler."""
    for path in ("/invocations", "/v1/chat/completions/batch", "/load", "/generative_scoring", "/v1/chat/../load"):
        assert _post(server, path, {}).status_code == 404
    body = {"model": "chat-llama", "prompt": "x", "max_tokens": 1}
    assert _post(server, "/v1/completions", body, **{"X-Vllm-Priority": "x", "X-data-parallel-rank": "7"}).is_success


def test_the_log_has_a_line_and_no_question(server: Any) -> None:
    """vLLM's libraries leave the log's level alone."""
    secret = "canary-gene-4711"
    _post(server, "/v1/completions", {"model": "chat-llama", "prompt": secret, "max_tokens": 1})
    _post(server, "/v1/completions", {"model": "chat-llama", "prompt": secret, "max_tokens": secret})
    time.sleep(0.2)

    lines = [line for line in server.log().splitlines() if " answer: id=plain-" in line and "model=chat-llama" in line]
    assert " outcome=ok " in lines[-2] and " sampled=1 " in lines[-2] and " reply=cmpl-" in lines[-2]
    assert " outcome=invalid_value " in lines[-1]
    assert secret not in server.log()


_DEEP: Any = "x"
for _ in range(200):
    _DEEP = {"type": "array", "items": _DEEP}
_LOOP = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
_WIDE = {"type": "object", "properties": {f"p{i}": {"enum": [f"v{j}" for j in range(40)]} for i in range(60)}}
BOMBS: dict[str, dict[str, Any]] = {
    "nested repeats": {"structured_outputs": {"regex": "((a{30}){30}){30}"}},
    "alternatives of everything": {"structured_outputs": {"regex": "(.*)*(.|.)*$"}},
    "classes of all of Unicode": {"structured_outputs": {"regex": "[\\w\\W]{900}[^a]{900}"}},
    "a pattern that is none": {"structured_outputs": {"regex": "[" * 4000}},
    "a pattern with looking back": {"structured_outputs": {"regex": "(?<=a)b(?=c)\\1"}},
    "a grammar that eats itself": {"structured_outputs": {"grammar": 'root ::= root root | "a" root'}},
    "a grammar of nothing": {"structured_outputs": {"grammar": 'root ::= ""'}},
    "a grammar that is none": {"structured_outputs": {"grammar": "root ::= ("}},
    "a grammar of many rules": {
        "structured_outputs": {
            "grammar": "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(3000))
        }
    },
    "choices without end": {"structured_outputs": {"choice": [f"c{i}" for i in range(3000)]}},
    "a deep schema": {"structured_outputs": {"json": _DEEP}},
    "a schema in a circle": {"structured_outputs": {"json": _LOOP}},
    "a wide schema": {"structured_outputs": {"json": _WIDE}},
    "a schema from elsewhere": {"structured_outputs": {"json": {"$ref": "http://127.0.0.1:1/schema.json"}}},
    "a pattern in a schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "^(a+)+(b{999}){9}$"}},
        }
    },
    "two shapes at once": {"structured_outputs": {"regex": "a", "json": {}, "choice": ["b"]}},
    "a tool with a bomb": {
        "tools": [
            {"type": "function", "function": {"name": "f" * 5000, "parameters": {"type": "array", "items": _DEEP}}}
        ],
        "tool_choice": "required",
    },
    "biases": {"logit_bias": {str(i): 100 for i in range(5000)}},
    "a bias of no token": {"logit_bias": {"999999999": 100, "-1": 1}},
    "stops": {"stop": ["a" * 5000] * 4000},
    "tokens that are none": {"stop_token_ids": [-1, 2**40], "allowed_token_ids": [2**40]},
    "tokens to wait for": {"min_tokens": 2**31, "max_tokens": 2**31},
    "a temperature": {"temperature": 1e308, "top_p": 0, "min_p": 2, "repetition_penalty": -1},
    "tensors": {"prompt_embeds": "gASVAAAAAA=="},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_or_ends(server: Any, name: str) -> None:
    """Patterns, grammars, schemas and tables that cost far more than they say: the next one is answered."""
    body = {"model": "chat-llama", "messages": USER, "max_tokens": 8} | BOMBS[name]
    reply = _post(server, "/v1/chat/completions", body, **{"X-Request-Timeout": "20"})

    assert reply.status_code < 500 or reply.status_code == 504
    assert not re.search(r"/(?:home|root|tmp|usr|work)/|Traceback|0x[0-9a-f]{6,}|File \"", reply.text)
    assert _post(server, "/v1/completions", {"model": "chat-llama", "prompt": "x", "max_tokens": 1}).status_code == 200
    assert server.process.poll() is None and "unexpected" not in server.log()
