"""Embeddings and re-ranking as the SDK and plain HTTP clients see them, against a real server process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import Site

PAGE = (Path(__file__).parents[2] / "docs" / "encoders.md").read_text(encoding="utf-8")
HEART = "The patient had a heart attack last winter."
INFARCTION = "myocardial infarction"
LEG = "She broke her leg on the stairs."
pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def server(host_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    settings = {"ARROWHEAD_RETRIEVAL__ENCODERS": "minilm,hashing", "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap"}
    with host_with(settings) as running:
        yield running


@pytest.fixture(scope="module")
def fresh(host_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    """A server whose settings name no encoder and no re-ranker."""
    with host_with({"ARROWHEAD_RETRIEVAL__ENCODERS": None}) as running:
        yield running


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
    _, reply = Site(server.url).call("POST", "/v1/embeddings", {"model": "minilm", "input": [LEG, "gene " * 400]})
    assert reply["arrowhead"] == {"truncated": [1]}


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"model": "gpt", "input": "x"}, 404, "model"),
        ({"model": "/etc", "input": "x"}, 404, "model"),
        ({"model": "minilm", "input": [1, 100_256]}, 422, "input"),
        ({"model": "minilm", "input": [1, "x"]}, 422, "input[0]"),
        ({"model": "minilm", "input": [[1], []]}, 422, "input[0]"),
        ({"model": "minilm", "input": []}, 422, "input"),
        ({"model": "minilm", "input": ["x"] * 2049}, 422, "input"),
        ({"model": "minilm", "input": "x", "dimensions": 5}, 422, "dimensions"),
        ({"model": "minilm", "input": "x", "encoding_format": "hex"}, 422, "encoding_format"),
        ({"model": "minilm"}, 422, "input"),
        ({"model": "minilm", "input": "x", "colour": 1}, 422, "colour"),
    ],
)
def test_a_wrong_embedding_request_names_its_field(server: Any, body: dict[str, Any], status: int, param: str) -> None:
    """In OpenAI's error shape."""
    code, reply = Site(server.url).call("POST", "/v1/embeddings", body)
    assert (code, reply["error"]["param"]) == (status, param)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_passages_come_in_the_order_of_their_use(server: Any, path: str) -> None:
    """Indices are those of the request, scores between 0 and 1, best first."""
    documents = [LEG, {"title": "Cardiology", "text": "A heart attack is an infarction."}, "attack"]
    body = {"model": "overlap", "query": "heart attack", "documents": documents, "top_n": 2}
    status, reply = Site(server.url).call("POST", path, body)

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
        ({"query": "x", "documents": ["a"] * 2049}, 422, "documents"),
        ({"model": "minilm", "query": "x", "documents": ["a"]}, 404, "model"),
    ],
)
def test_a_wrong_rerank_request_names_its_field(server: Any, body: dict[str, Any], status: int, param: str) -> None:
    """In OpenAI's error shape."""
    code, reply = Site(server.url).call("POST", "/v1/rerank", body)
    assert (code, reply["error"]["param"]) == (status, param)


def test_a_fresh_server_ranks_by_the_tokens_of_its_encoder(fresh: Any) -> None:
    """Late interaction, by its name or without one; an unknown name is told which there are."""
    body = {"query": INFARCTION, "documents": [LEG, "Asthma is treated with inhalers.", HEART]}
    for model in ({}, {"model": "minilm:rerank"}):
        status, reply = Site(fresh.url).call("POST", "/v1/rerank", body | model)
        assert (status, reply["model"]) == (200, "minilm:rerank")
        assert reply["results"][0]["index"] == 2
        scores = [result["relevance_score"] for result in reply["results"]]
        assert 1 > scores[0] > scores[1] > scores[2] > 0
    status, reply = Site(fresh.url).call("POST", "/v1/rerank", body | {"model": "hashing:rerank"})
    assert (status, reply["error"]["code"]) == (404, "model_not_found")


def test_models_list_what_embeds_and_what_re_ranks(server: Any, fresh: Any) -> None:
    """Each with the routes that take it, beside those that answer."""
    listed: list[Any] = [model.to_dict() for model in server.client().models.list()]
    routes = {model["id"]: model["arrowhead"]["routes"] for model in listed}
    assert routes["minilm"] == routes["hashing"] == ["/v1/embeddings"]
    assert routes["overlap"] == routes["minilm:rerank"] == ["/v1/rerank"]
    assert "/v1/chat/completions" in next(iter(routes.values()))
    alone: Any = fresh.client().models.retrieve("minilm:rerank").to_dict()
    assert alone["arrowhead"]["routes"] == ["/v1/rerank"]


def test_token_ids_of_openais_models_are_their_text(server: Any) -> None:
    """As LangChain's default client sends them: "LMP10 is a gene." in cl100k_base, alone and in a list."""
    ids = [43, 5901, 605, 374, 264, 15207, 13]
    client = server.client()
    plain = client.embeddings.create(model="minilm", input="LMP10 is a gene.").data[0].embedding
    for given in (ids, [ids]):
        status, reply = Site(server.url).call("POST", "/v1/embeddings", {"model": "minilm", "input": given})
        assert status == 200
        assert reply["data"][0]["embedding"] == pytest.approx(plain, abs=1e-6)
    _, reply = Site(server.url).call(
        "POST", "/v1/embeddings", {"model": "minilm", "input": "x", "encoding_format": None}
    )
    assert isinstance(reply["data"][0]["embedding"], list)


def test_the_pages_example_runs(fresh: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program.replace("http://127.0.0.1:8000", fresh.url), "encoders.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["2 384", "Protamine reverses heparin."]
