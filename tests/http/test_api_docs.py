"""``/docs``, ``/openapi.json`` and ``/version`` of a real server with a key."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from http_calls import JSON, fetch
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

KEY = "reading-the-docs-1"


@pytest.fixture(scope="module")
def guarded(host_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with host_with({"ARROWHEAD_SERVER__API_KEYS": KEY}) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/docs", "text/html"),
        ("/docs/page.js", "text/javascript"),
        ("/docs/swagger-ui.js", "text/javascript"),
        ("/docs/swagger-ui.css", "text/css"),
        ("/docs/page.svg", "image/svg+xml"),
    ],
)
def test_the_page_is_open_and_bound_to_this_server(guarded: Any, path: str, kind: str) -> None:
    """Its policy lets nothing in from elsewhere."""
    reply = fetch(guarded.url + path)
    status, headers, body = reply.status, reply.headers, reply.body

    assert status == 200 and headers["Content-Type"].startswith(kind) and body
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/docs/", "/docs/page.html", "/docs/..%2f..%2fguard.py", "/openapi.json", "/docs/x"])
def test_all_else_needs_the_key(guarded: Any, path: str) -> None:
    """What looks like the page's files too."""
    assert fetch(guarded.url + path).status == 401
    assert fetch(guarded.url + path, KEY).status in {200, 307, 404}


def test_the_document_and_the_version_tell_what_runs(guarded: Any) -> None:
    """A valid document whose routes need a key; the version with engine and model."""
    document = json.loads(fetch(f"{guarded.url}/openapi.json", KEY).body)
    version = json.loads(fetch(f"{guarded.url}/version", KEY).body)

    validate(document)
    assert document["security"] == [{"bearer": []}]
    assert version["engine"] == "scripted" and version["model"] == "scripted"
    assert document["info"]["version"] == version["version"]
    assert "commit" in version


QUESTION = [{"role": "user", "content": "What is the official gene symbol of LMP10?"}]
REQUESTS: list[tuple[str, str, Any]] = [
    ("get", "/health", None),
    ("get", "/ready", None),
    ("get", "/version", None),
    ("get", "/v1/models", None),
    ("get", "/v1/models/scripted:genegpt", None),
    ("get", "/v1/models/nobody", None),
    ("post", "/v1/chat/completions", {"model": "scripted:genegpt", "messages": QUESTION}),
    ("post", "/v1/chat/completions", {"model": "scripted:genegpt", "messages": QUESTION, "tools": [{}]}),
    ("post", "/v1/completions", {"model": "scripted", "prompt": "Once upon"}),
    ("post", "/v1/responses", {"model": "scripted:genegpt", "input": "What is the official gene symbol of LMP10?"}),
    ("post", "/v1/responses", {"model": "scripted:genegpt", "input": "x", "store": True}),
    ("get", "/v1/responses/resp_1", None),
    ("delete", "/v1/responses/resp_1", None),
    ("post", "/v1/messages", {"model": "scripted", "messages": QUESTION, "max_tokens": 5}),
    ("post", "/v1/messages/count_tokens", {"model": "nobody"}),
    ("post", "/tokenize", {"prompt": "PSMB10", "return_token_strs": True}),
    ("post", "/tokenize", {"messages": QUESTION, "model": "scripted"}),
    ("post", "/detokenize", {"tokens": [1, 2]}),
    ("post", "/detokenize", {"tokens": [10_000_000]}),
    ("post", "/v1/embeddings", {"model": "hashing", "input": ["a", "b"]}),
    ("post", "/v1/rerank", {"query": "q", "documents": ["d"]}),
    ("post", "/v1/verify", {"claim": "PSMB10 is a gene.", "evidence": ["PSMB10, also LMP10, is a gene."]}),
    ("post", "/v1/verify", {"claim": "PSMB10 is a gene."}),
    ("get", "/v1/namespaces", None),
    ("post", "/v1/namespaces", {"name": "described"}),
    ("post", "/v1/namespaces", {"name": "described"}),
    ("post", "/v1/namespaces/described/documents", {"documents": [{"id": "1", "text": "PSMB10 is a gene."}]}),
    ("get", "/v1/namespaces/described", None),
    ("post", "/v1/search", {"query": "gene", "namespaces": ["described"]}),
    ("post", "/v1/search", {"queries": ["gene", "LMP10"]}),
    ("get", "/v1/passages/described/1", None),
    ("get", "/v1/jobs", None),
    ("get", "/v1/jobs/none", None),
    ("delete", "/v1/namespaces/described/documents", {"ids": ["1"]}),
    ("delete", "/v1/namespaces/described", None),
]

STREAMS: list[tuple[str, Any, str]] = [
    ("/v1/chat/completions", {"model": "scripted:genegpt", "messages": QUESTION}, "ChatCompletionChunk"),
    ("/v1/completions", {"model": "scripted", "prompt": "Once upon"}, "CompletionChunk"),
    ("/v1/responses", {"model": "scripted:genegpt", "input": QUESTION}, "ResponseEvent"),
]


@pytest.mark.parametrize(("path", "body", "kind"), STREAMS)
def test_streams_are_as_the_document_says(guarded: Any, path: str, body: Any, kind: str) -> None:
    """Each chunk or event of a real stream."""
    document = json.loads(fetch(f"{guarded.url}/openapi.json", KEY).body)
    content = document["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "X-Request-Timeout": "30"}
    data = json.dumps(body | {"stream": True}).encode()
    request = urllib.request.Request(guarded.url + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    told = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    schema = {"$ref": f"#/components/schemas/{kind}", "components": document["components"]}

    assert kind in content["schema"]["description"]
    assert len(told) > 3
    assert [error.message for one in told for error in Draft202012Validator(schema).iter_errors(one)] == []


def _described(document: Any, verb: str, path: str) -> Any:
    """The operation of a path, by its template."""
    for template, verbs in document["paths"].items():
        if verb in verbs and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return verbs[verb]
    raise AssertionError(f"{verb} {path} is not described")


def test_replies_are_as_the_document_says(guarded: Any) -> None:
    """Status, content type and shape of what a real server replies, good and bad."""
    document = json.loads(fetch(f"{guarded.url}/openapi.json", KEY).body)
    seen = set()
    for verb, path, body in REQUESTS:
        data = None if body is None else json.dumps(body).encode()
        got = fetch(guarded.url + path, KEY, method=verb.upper(), data=data, headers={"Content-Type": JSON})
        status, kind, reply = got.status, got.headers["Content-Type"], json.loads(got.body)
        responses = _described(document, verb, path)["responses"]
        content = responses.get(str(status), responses["default"])["content"]
        schema = content[kind.split(";")[0]]["schema"] | {"components": document["components"]}
        errors = [error.message for error in Draft202012Validator(schema).iter_errors(reply)]
        assert errors == [], (verb, path, status, reply)
        assert str(status) in responses, (verb, path, status)
        seen.add(status)

    assert {200, 201, 404, 409, 422} <= seen
