"""Embeddings and re-ranking as the SDK and plain HTTP clients see them, against a real server process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest

HEART = "The patient had a heart attack last winter."
INFARCTION = "myocardial infarction"
LEG = "She broke her leg on the stairs."
pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def server(host_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    settings = {
        "ARROWHEAD_RETRIEVAL__ENCODER": "minilm",
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
        "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap",
        "ARROWHEAD_RETRIEVAL__MAX_INPUTS": "40",
    }
    with host_with(settings) as running:
        yield running


def _post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_sdk_reads_vectors_that_mean_something(server: Any) -> None:
    """The SDK asks for base64 by itself; a heart attack is nearer to an infarction than to a broken leg."""
    reply = server.client().embeddings.create(model="minilm", input=[HEART, INFARCTION, LEG])
    heart, infarction, leg = (item.embedding for item in reply.data)

    assert [item.index for item in reply.data] == [0, 1, 2]
    assert len(heart) == 384
    assert _dot(heart, heart) == pytest.approx(1, abs=1e-2)
    assert _dot(heart, infarction) > _dot(heart, leg) + 0.1
    assert reply.usage.prompt_tokens > 20


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_both_forms_are_the_same_numbers(server: Any) -> None:
    """base64 is little-endian float32; the names of passages and questions agree where there is one tower."""
    client = server.client()
    made = [
        client.embeddings.create(model=model, input=LEG, encoding_format=form).data[0].embedding
        for model, form in (("minilm", "float"), ("minilm", "base64"), ("minilm:query", "float"))
    ]
    assert isinstance(made[1], str | list)
    plain = client.embeddings.create(model="minilm", input=LEG).data[0].embedding
    assert made[0] == pytest.approx(plain)
    assert made[2] == pytest.approx(plain, abs=1e-2)


def test_texts_that_are_cut_are_named(server: Any) -> None:
    """By their place in the input."""
    _, reply = _post(f"{server.url}/v1/embeddings", {"model": "minilm", "input": [LEG, "gene " * 400]})
    assert reply["arrowhead"] == {"truncated": [1]}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "gpt", "input": "x"}, 404, "model"),
        ({"model": "/etc", "input": "x"}, 404, "model"),
        ({"model": "minilm", "input": [1, 2]}, 422, "input"),
        ({"model": "minilm", "input": []}, 422, "input"),
        ({"model": "minilm", "input": ["x"] * 41}, 422, "input"),
        ({"model": "minilm", "input": "x", "dimensions": 5}, 422, "dimensions"),
        ({"model": "minilm", "input": "x", "encoding_format": "hex"}, 422, "encoding_format"),
        ({"model": "minilm"}, 422, "input"),
        ({"model": "minilm", "input": "x", "colour": 1}, 422, "colour"),
    ],
)
def test_a_wrong_embedding_request_names_its_field(server: Any, body: dict[str, Any], status: int, param: str) -> None:
    """In OpenAI's error shape."""
    code, reply = _post(f"{server.url}/v1/embeddings", body)
    assert (code, reply["error"]["param"]) == (status, param)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_passages_come_in_the_order_of_their_use(server: Any, path: str) -> None:
    """Indices are those of the request, scores between 0 and 1, best first."""
    documents = [LEG, {"title": "Cardiology", "text": "A heart attack is an infarction."}, "attack"]
    body = {"model": "overlap", "query": "heart attack", "documents": documents, "top_n": 2}
    status, reply = _post(server.url + path, body)

    assert status == 200
    assert [result["index"] for result in reply["results"]] == [1, 2]
    scores = [result["relevance_score"] for result in reply["results"]]
    assert 1 >= scores[0] > scores[1] >= 0
    assert reply["results"][0]["document"] == {"text": "A heart attack is an infarction."}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"query": "x", "documents": []}, 422, "documents"),
        ({"query": "", "documents": ["a"]}, 422, "query"),
        ({"query": "x", "documents": ["a"], "top_n": 0}, 422, "top_n"),
        ({"query": "x", "documents": ["a"] * 41}, 422, "documents"),
        ({"model": "minilm", "query": "x", "documents": ["a"]}, 404, "model"),
    ],
)
def test_a_wrong_rerank_request_names_its_field(server: Any, body: dict[str, Any], status: int, param: str) -> None:
    """In OpenAI's error shape."""
    code, reply = _post(f"{server.url}/v1/rerank", body)
    assert (code, reply["error"]["param"]) == (status, param)


def test_without_a_cross_encoder_re_ranking_says_what_to_set(client: openai.OpenAI) -> None:
    """The default server has none."""
    code, reply = _post(f"{client.base_url}rerank", {"query": "x", "documents": ["a"]})
    assert (code, reply["error"]["code"]) == (404, "model_not_found")
    assert "retrieval.cross_encoder" in reply["error"]["message"]
