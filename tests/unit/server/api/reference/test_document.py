"""The OpenAPI document: valid, complete, right about which bodies are taken; the page needs nothing from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from models.catalog import ModelCard, PromptForm
from models.engines.base import OpenAiLayer, ServesOpenAi
from models.errors import ENGINE_LOADING, ArrowheadError, EngineUnavailable
from server.api.http_io import parse_body
from server.api.messages.schemas import parse_count, parse_message
from server.api.openai.chat import parse_chat
from server.api.openai.completions import parse_completion
from server.api.openai.models import DetokenizeRequest, _parse
from server.api.reference.document import TAGS, example_for, layer_body, operation_id
from server.api.responses.schemas import parse_responses
from server.api.retrieval.decisions import DecisionsRequest
from server.api.retrieval.embeddings import EmbeddingsRequest, RerankRequest
from server.api.retrieval.schemas import (
    MAX_INPUTS,
    DocumentsBody,
    NamespaceBody,
    QueryBody,
    RemoveBody,
    SearchBody,
    TitleBody,
)
from server.api.retrieval.search import _checked
from server.api.retrieval.verify import VerifyRequest, _check
from server.api.reviews.schemas import ReviewBody
from server.app import Application, create_app
from server.auth.authentication import ApiKeyLookup
from server.auth.rate_limits import LocalRateLimiter
from server.error_mapping import KINDS, error_codes
from server.middleware import OPEN_PATHS
from server.observability.metrics import metrics_only
from server.settings.schema import Settings
from server.version import commit
from server.web.routes import RenderBody
from server.wiring.services import Services

MAX_CHOICES = 8
STATIC = Path(__file__).parents[5] / "server" / "api" / "reference" / "static"
LOGPROBS = "message.output_text.logprobs"
SAID = [{"role": "user", "content": "hello"}]
TEXT = {"type": "text", "text": "hello"}
THOUGHT = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}]}
IMAGE = {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "y"}]}


@dataclass(frozen=True)
class Engine:
    """The facts of a loaded engine that the document depends on: 1000 tokens, with or without turns."""

    has_turns: bool

    @property
    def tokenizer(self) -> Any:
        return SimpleNamespace(vocab_size=1000, has_chat_template=self.has_turns)


class EngineWithLayer(Engine, ServesOpenAi):
    """An engine with an OpenAI layer of its own."""

    @property
    def slots(self) -> int:
        return 32

    async def openai_layer(self) -> OpenAiLayer:
        raise NotImplementedError


def _app(engine: Engine | None, needs_key: bool = True, name: str = "model") -> Application:
    """The application of a server with this engine, None while it loads."""

    def get() -> Engine:
        if engine is None:
            raise EngineUnavailable("not yet", ENGINE_LOADING)
        return engine

    form: PromptForm = "chat" if engine is not None and engine.has_turns else "base"
    parts = SimpleNamespace(
        settings=Settings(),
        observability=metrics_only(),
        key_lookup=ApiKeyLookup(("a-key-of-the-settings",) if needs_key else ()),
        rates=LocalRateLimiter(),
        lifecycle=SimpleNamespace(card=ModelCard(name=name, source=".", prompt_form=form), get=get),
    )
    return create_app(cast(Services, parts))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return _app(Engine(has_turns=False)).openapi()


def _operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(path, verb): one for path, verbs in document["paths"].items() for verb, one in verbs.items()}


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    """By the specification's own schema; each operation has an id of its own."""
    validate(document)
    ids = [operation["operationId"] for operation in _operations(document).values()]

    assert len(ids) == len(set(ids)) >= 38
    assert {"post__v1_chat_completions", "get__v1_models_model", "delete__v1_jobs_job_id", "post__tokenize"} <= set(ids)


def test_every_route_is_described_and_nothing_else(document: dict[str, Any]) -> None:
    """Each route names its purpose, its tag and its replies in its decorator; FastAPI's own words stand nowhere."""
    routes = [route for route in _app(None).routes if isinstance(route, APIRoute)]
    there = {(re.sub(r":\w+\}", "}", route.path), verb.lower()) for route in routes for verb in route.methods}

    assert there - {(path, "head") for path, _ in there} == set(_operations(document))
    assert [route.path for route in routes if not route.summary or not route.include_in_schema] == []
    assert {operation_id(route) for route in routes} == {o["operationId"] for o in _operations(document).values()}
    assert document["tags"] == list(TAGS)
    for place, operation in _operations(document).items():
        assert [{"name": name} for name in operation["tags"]] == [t for t in TAGS if t["name"] in operation["tags"]]
        assert len(operation["tags"]) == 1, place
        has_none = place[1] not in {"post", "put"} or place[0].endswith("/cancel")
        assert has_none or operation["requestBody"]["required"], place
        for status, response in operation["responses"].items():
            assert response["content"] and all(media["schema"] for media in response["content"].values()), place
            assert response["description"] and response["headers"], (place, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_reference_of_the_document_is_in_it(document: dict[str, Any]) -> None:
    """Also those of the layer's routes, and each schema that a stream's description names."""
    for one in (document, PASSED_ON):
        named = set(re.findall(r"'#/components/(\w+)/(\w+)'", str(one)))
        assert {(kind, name) for kind, name in named if name not in one["components"][kind]} == set()
        assert {"ChatCompletionChunk", "CompletionChunk", "ResponseEvent"} <= set(one["components"]["schemas"])


def test_what_is_open_is_said_to_be_so(document: dict[str, Any]) -> None:
    """All others need a key where the server has one."""
    open_routes = {path for path, verbs in document["paths"].items() for o in verbs.values() if o.get("security") == []}

    files = {path for path in OPEN_PATHS if path.startswith(("/docs/", "/web/"))}
    assert OPEN_PATHS - files | {"/docs/{name}", "/web/{name}"} == open_routes
    assert document["security"] == [{"bearer": []}]
    assert _app(None, needs_key=False).openapi()["security"] == [{}]


def test_errors_are_those_of_the_table(document: dict[str, Any]) -> None:
    """Every code and type that can be sent, and no more."""
    error = document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]

    assert error_codes() == set(error["code"]["enum"])
    assert set(error["type"]["enum"]) == KINDS


BODIES: list[tuple[str, Any]] = [
    ("ChatRequest", {"model": "m", "messages": SAID}),
    ("ChatRequest", {"model": "m", "messages": SAID, "n": 2, "temperature": 1, "top_p": 0.5, "stop": ["a"], "seed": 1}),
    ("ChatRequest", {"model": "m", "messages": SAID, "tools": [], "user": "me", "store": False, "logit_bias": {}}),
    ("ChatRequest", {"model": "m", "messages": SAID, "tools": [{"type": "function"}]}),
    ("ChatRequest", {"model": "m", "messages": SAID, "response_format": {"type": "json_object"}}),
    ("ChatRequest", {"model": "m", "messages": SAID, "presence_penalty": 0.5}),
    ("ChatRequest", {"model": "m", "messages": SAID, "presence_penalty": 0.0}),
    ("ChatRequest", {"model": "m", "messages": SAID, "temperatur": 1}),
    ("ChatRequest", {"model": "m", "messages": SAID, "temperature": 2.5}),
    ("ChatRequest", {"model": "m", "messages": SAID, "top_p": 0}),
    ("ResponseRequest", {"model": "m", "input": "x", "temperature": -1}),
    ("ChatRequest", {"model": "m", "messages": SAID, "stream": 0}),
    ("ChatRequest", {"model": "m", "messages": SAID, "n": "2"}),
    ("ChatRequest", {"model": "m", "messages": SAID, "top_logprobs": 2}),
    ("ChatRequest", {"model": "m", "messages": SAID, "top_logprobs": 2, "logprobs": True}),
    ("ChatRequest", {"model": "m", "messages": SAID, "stream_options": {"include_usage": True}}),
    ("ChatRequest", {"model": "m", "messages": SAID, "stream_options": {"include_usage": True}, "stream": True}),
    ("ChatRequest", {"model": "m", "messages": SAID, "max_tokens": 1, "max_completion_tokens": 1}),
    ("ChatRequest", {"model": "m", "messages": SAID, "max_tokens": None, "max_completion_tokens": 1}),
    ("ChatRequest", {"model": "m", "messages": []}),
    ("ChatRequest", {"model": "m", "messages": [{"role": "system", "content": "only this"}]}),
    ("ChatRequest", {"model": "m", "messages": [{"role": "user", "content": " \n"}]}),
    ("ChatRequest", {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}),
    ("ChatRequest", {"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    ("ChatRequest", {"messages": SAID}),
    ("CompletionRequest", {"model": "m", "prompt": "x"}),
    ("CompletionRequest", {"model": "m", "prompt": ["x", "y"], "logprobs": 3, "echo": False, "best_of": 1}),
    ("CompletionRequest", {"model": "m", "prompt": ["x", " "]}),
    ("CompletionRequest", {"model": "m", "prompt": [1, 2]}),
    ("CompletionRequest", {"model": "m", "prompt": ""}),
    ("CompletionRequest", {"model": "m", "prompt": "x", "echo": True}),
    ("ChatRequest", {"model": "m", "messages": SAID, "n": 9}),
    ("MessageRequest", {"model": "m", "messages": SAID, "max_tokens": 5, "temperature": 1, "tools": []}),
    ("MessageRequest", {"model": "m", "messages": SAID, "max_tokens": 5, "temperature": 1.5}),
    ("MessageRequest", {"model": "m", "messages": SAID}),
    ("MessageRequest", {"model": "m", "messages": [{"role": "assistant", "content": "x"}], "max_tokens": 5}),
    ("MessageRequest", {"model": "m", "messages": [{"role": "user", "content": " "}], "max_tokens": 5}),
    ("MessageRequest", {"model": "m", "messages": [{"role": "system", "content": "x"}, *SAID], "max_tokens": 5}),
    ("MessageRequest", {"model": "m", "messages": [THOUGHT, *SAID], "max_tokens": 5, "system": [TEXT]}),
    ("MessageRequest", {"model": "m", "messages": [{"role": "user", "content": [TEXT]}], "max_tokens": 5}),
    ("MessageRequest", {"model": "m", "messages": [IMAGE], "max_tokens": 5}),
    ("MessageRequest", {"model": "m", "messages": SAID, "max_tokens": 5, "thinking": {"type": "enabled"}}),
    ("MessageRequest", {"model": "m", "messages": SAID, "max_tokens": 5, "tools": [{"name": "x"}]}),
    ("CountRequest", {"model": "m", "messages": SAID}),
    ("CountRequest", {"model": "m", "messages": []}),
    ("ResponseRequest", {"model": "m", "input": "x"}),
    ("ResponseRequest", {"model": "m", "input": " "}),
    ("ResponseRequest", {"model": "m", "input": SAID, "instructions": "be brief", "store": False, "tools": []}),
    ("ResponseRequest", {"model": "m", "input": [{"type": "reasoning", "summary": []}, *SAID]}),
    ("ResponseRequest", {"model": "m", "input": [{"type": "open_webui:code", "x": 1}, *SAID]}),
    ("ResponseRequest", {"model": "m", "input": [{"type": "reasoning", "summary": []}]}),
    ("ResponseRequest", {"model": "m", "input": [{"type": "item_reference", "id": "x"}, *SAID]}),
    ("ResponseRequest", {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]}),
    ("ResponseRequest", {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
    ("ResponseRequest", {"model": "m", "input": "x", "store": True}),
    ("ResponseRequest", {"model": "m", "input": "x", "previous_response_id": "resp_1"}),
    ("ResponseRequest", {"model": "m", "input": "x", "reasoning": {"effort": "low"}, "text": {"verbosity": "medium"}}),
    ("ResponseRequest", {"model": "m", "input": "x", "reasoning": 1}),
    ("ResponseRequest", {"model": "m", "input": "x", "text": {"format": {"type": "json_object"}}}),
    ("ResponseRequest", {"model": "m", "input": "x", "top_logprobs": 0}),
    ("ResponseRequest", {"model": "m", "input": "x", "top_logprobs": 2}),
    ("ResponseRequest", {"model": "m", "input": "x", "top_logprobs": 2, "include": [LOGPROBS]}),
    ("TokenizeRequest", {"prompt": "x", "add_special_tokens": None, "tools": []}),
    ("TokenizeRequest", {"messages": SAID}),
    ("TokenizeRequest", {"prompt": "x", "messages": SAID}),
    ("TokenizeRequest", {"prompt": None, "model": "m"}),
    ("TokenizeRequest", {"prompt": "x", "tools": [{}]}),
    ("DetokenizeRequest", {"tokens": [0, 5]}),
    ("DetokenizeRequest", {"tokens": [-1]}),
    ("EmbeddingsRequest", {"model": "e", "input": "x"}),
    ("EmbeddingsRequest", {"model": "e", "input": [1]}),
    ("EmbeddingsRequest", {"model": "e", "input": ["x"], "encoding_format": "hex"}),
    ("RerankRequest", {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}),
    ("RerankRequest", {"query": "q", "documents": []}),
    ("SearchBody", {"query": "q", "k": 3, "filter": {"date_from": "2020-01-31"}}),
    ("SearchBody", {"query": "q", "queries": ["r"]}),
    ("SearchBody", {"queries": ["r"], "query": None, "namespaces": "all"}),
    ("SearchBody", {"k": 3}),
    ("SearchBody", {"query": "!!"}),
    ("SearchBody", {"query": "q", "retriever": "magic"}),
    ("SearchBody", {"query": "q", "filter": {"date_from": "January"}}),
    ("NamespaceBody", {"name": "n", "encoder": None, "words": "tantivy"}),
    ("NamespaceBody", {"name": "n", "words": "grep"}),
    ("DocumentsBody", {"documents": [{"id": "1", "text": "words"}]}),
    ("DocumentsBody", {"documents": [{"id": "1"}]}),
    ("DocumentsBody", {"documents": [{"id": "1", "title": "-", "text": "?"}]}),
    ("RemoveBody", {"ids": ["a"]}),
    ("RemoveBody", {"ids": []}),
    ("QueryBody", {"term": "asthma", "arrowhead": {"egress": "off"}, "limit": 5}),
    ("QueryBody", {"term": "asthma", "date_to": "2020"}),
    ("DecisionsRequest", {"input": "x", "questions": [{"type": "predicate", "instructions": "q"}]}),
    ("DecisionsRequest", {"input": "x", "questions": [{"type": "predicate"}]}),
    ("DecisionsRequest", {"input": "x", "questions": []}),
    ("VerifyRequest", {"claim": "x", "evidence": ["a", {"passage": "1", "namespace": "mine"}]}),
    ("VerifyRequest", {"claim": "x", "question": "y", "evidence": ["a"]}),
    ("VerifyRequest", {"question": "y", "claim": None, "evidence": ["a"]}),
    ("VerifyRequest", {"evidence": ["a"]}),
    ("VerifyRequest", {"claim": "x", "evidence": []}),
    ("VerifyRequest", {"claim": "x", "evidence": ["?"]}),
    ("VerifyRequest", {"claim": "x", "evidence": [{"passage": "0"}]}),
]  # fmt: skip
MODELS = {
    kind.__name__: kind
    for kind in (
        DecisionsRequest,
        DetokenizeRequest,
        EmbeddingsRequest,
        RerankRequest,
        NamespaceBody,
        DocumentsBody,
        RemoveBody,
        QueryBody,
        TitleBody,
        ReviewBody,
        RenderBody,
    )
}


def _is_taken(kind: str, body: Any) -> bool:
    """By the code that the route runs."""
    parsers: dict[str, Callable[[Any], object]] = {
        "CountRequest": parse_count,
        "MessageRequest": parse_message,
        "ResponseRequest": parse_responses,
        "TokenizeRequest": _parse,
    }
    try:
        if kind in parsers:
            parsers[kind](body)
        elif kind == "ChatRequest":
            return parse_chat(body).n in range(1, MAX_CHOICES + 1) or body.get("n") is None
        elif kind == "CompletionRequest":
            parse_completion(body)
        elif kind == "VerifyRequest":
            _check(parse_body(VerifyRequest, body), MAX_INPUTS, "")
        elif kind == "SearchBody":
            _checked(parse_body(SearchBody, body), Settings().retrieval)
        else:
            parse_body(MODELS[kind], body)
    except ArrowheadError:
        return False
    return True


@pytest.mark.parametrize(("kind", "body"), BODIES)
def test_the_document_says_which_bodies_are_taken(document: dict[str, Any], kind: str, body: Any) -> None:
    """Its schema and the server agree on each."""
    schema = {"$ref": f"#/components/schemas/{kind}", "components": document["components"]}

    assert Draft202012Validator(schema).is_valid(body) == _is_taken(kind, body)


def test_the_examples_of_bodies_are_taken(document: dict[str, Any]) -> None:
    """By the schema that they stand in and by the server; of the engine's own layer by its schema."""
    schemas = document["components"]["schemas"]
    bodies = {name: body for name, schema in schemas.items() for body in schema.get("examples", [])}

    assert len(bodies) > 10
    for name, body in bodies.items():
        assert Draft202012Validator(schemas[name] | {"components": document["components"]}).is_valid(body), name
        assert _is_taken(name, body), name
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"):
        schema = layer_body(path, "big", 8)
        assert Draft202012Validator(schema).is_valid(schema["examples"][0]), path


PASSED_ON = _app(EngineWithLayer(has_turns=True), name="big").openapi()
PLAIN: list[tuple[str, Any, bool]] = [
    ("/v1/chat/completions", {"model": "big", "messages": SAID, "tools": [{"type": "function"}], "min_p": 0.1}, True),
    ("/v1/chat/completions", {"model": "m", "messages": SAID, "tools": [{"type": "function"}]}, False),
    ("/v1/chat/completions", {"model": "big", "messages": SAID, "priority": 1, "tools": [{}]}, False),
    ("/v1/chat/completions", {"model": "big", "messages": SAID, "n": 9}, False),
    ("/v1/completions", {"model": "big", "prompt": [1, 2], "top_k": 5}, True),
    ("/v1/responses", {"model": "big", "input": "x", "tools": [{"type": "function"}]}, True),
    ("/v1/messages", {"model": "big", "messages": SAID, "max_tokens": 5}, True),
    ("/v1/messages", {"model": "m", "messages": SAID, "max_tokens": 5}, True),
    ("/v1/messages", {"model": "m", "messages": SAID, "max_tokens": 5, "tools": [{}]}, False),
    ("/v1/messages", {"model": "big", "messages": SAID}, False),
    ("/v1/messages/count_tokens", {"model": "big", "messages": SAID}, True),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "is_taken"), PLAIN)
def test_fields_of_the_engines_own_layer_are_for_the_plain_model_alone(path: str, body: Any, is_taken: bool) -> None:
    """Where the engine has such a layer; what is refused before it is not taken there either."""
    validate(PASSED_ON)
    schema = PASSED_ON["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]

    assert Draft202012Validator(schema | {"components": PASSED_ON["components"]}).is_valid(body) == is_taken
    assert {"200", "400"} <= set(PASSED_ON["paths"][path]["post"]["responses"])


def test_a_layer_that_is_not_there_is_not_promised(document: dict[str, Any]) -> None:
    """Of another engine; and a base model's chats do not go to it, as they have no turns."""
    assert not any(name.startswith("Layer") for name in document["components"]["schemas"])
    assert "vLLM" not in document["info"]["description"] and "vLLM" in PASSED_ON["info"]["description"]
    of_base = _app(EngineWithLayer(has_turns=False), name="big").openapi()["paths"]
    assert "400" not in of_base["/v1/chat/completions"]["post"]["responses"]
    assert "400" in of_base["/v1/completions"]["post"]["responses"]


def test_tokens_are_of_the_served_model(document: dict[str, Any]) -> None:
    """Its vocabulary, and whether it has turns."""
    schemas = document["components"]["schemas"]
    assert schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] == 999
    schema = {"$ref": "#/components/schemas/TokenizeRequest", "components": document["components"]}
    bodies = [{"messages": SAID, "add_generation_prompt": False}, {"messages": [SAID[0] | {"role": "system"}]}]
    assert not any(Draft202012Validator(schema).is_valid(body) for body in bodies)


def test_the_names_in_examples_are_those_of_the_server() -> None:
    """The served model's and the first encoder's."""
    schemas = _app(None, name="small").openapi()["components"]["schemas"]

    assert schemas["ChatRequest"]["examples"][0]["model"] == "small:genegpt"
    assert schemas["EmbeddingsRequest"]["examples"][0]["model"] == Settings().retrieval.encoder_names[0]


@pytest.mark.parametrize("requires_key", [True, False])
def test_the_key_lookup_says_whether_keys_are_needed(requires_key: bool) -> None:
    """Keys of the store count as those of the settings do; while the engine loads, nothing is said of it."""
    app = _app(None)
    app.state.services.key_lookup = SimpleNamespace(requires_key=requires_key)
    document = app.openapi()

    assert document["security"] == ([{"bearer": []}] if requires_key else [{}])
    assert "maximum" not in document["components"]["schemas"]["DetokenizeRequest"]["properties"]["tokens"]["items"]
    assert "LayerReply" not in document["components"]["schemas"]


def test_one_document_does_not_change_the_next(document: dict[str, Any]) -> None:
    """Each is made anew from what runs now."""
    app = _app(None)
    first = app.openapi()
    first["components"]["schemas"].clear()

    assert app.openapi()["components"]["schemas"].keys() == document["components"]["schemas"].keys()


def test_every_guarded_route_says_what_keys_bring(document: dict[str, Any]) -> None:
    """401, 403, a rate, an unreadable key store; the headers of a rate."""
    for path, verbs in document["paths"].items():
        for operation in verbs.values():
            is_open = operation.get("security") == []
            assert {"401", "403", "429", "503"} <= set(operation["responses"]) or is_open, path
            assert ("x-ratelimit-limit-tokens" in operation["responses"]["default"]["headers"]) != is_open, path


def test_the_page_needs_nothing_from_outside() -> None:
    """No address of another site, no script or style within the page, no markup made of what was received."""
    html, script = ((STATIC / f"page.{kind}").read_text() for kind in ("html", "js"))

    for text in (html, script):
        assert not re.search(r"https?://|//cdn|url\(", text)
    assert re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL) == ["", ""]
    assert "<style" not in html and not re.search(r"\son\w+=|style=", html)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|localStorage", script)
    assert {*re.findall(r'(?:src|href)="([^"]+)"', html)} == {
        *(f"/docs/{name}" for name in ("page.js", "page.svg", "swagger-ui.css", "swagger-ui.js")),
        "/openapi.json",
    }


def test_the_commit_is_read_from_the_image_or_the_checkout(tmp_path: Path) -> None:
    """The file wins; a branch may stand among the packed ones; nonsense is nothing."""
    package, git = tmp_path / "server", tmp_path / ".git"
    package.mkdir()
    git.mkdir()
    assert commit(package) is None
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{'a' * 40} refs/heads/main\n")
    assert commit(package) == "a" * 40
    (package / "COMMIT").write_text(f"{'b' * 40}\n")
    assert commit(package) == "b" * 40
    (package / "COMMIT").write_text("unknown\n")
    assert commit(package) is None


@pytest.mark.parametrize(
    ("trained_for", "model"),
    [
        (None, "m:genegpt"),
        ((), "m:medrag"),
        (("genegpt",), "m:genegpt"),
        (("medrag",), "m:medrag"),
        (("kg-rag",), "m:medrag"),
    ],
)
def test_the_first_example_works_on_the_model(trained_for: tuple[str, ...] | None, model: str) -> None:
    """It is of a method that the model can write, else of one that needs no writing."""
    assert example_for(ModelCard(name="m", source=".", trained_for=trained_for)).model == model


def test_the_document_begins_with_an_example(document: dict[str, Any]) -> None:
    """The page shows it first."""
    assert document["info"]["description"].startswith(
        'To begin: `POST /v1/chat/completions` with `{"model": "model:genegpt", "messages": [{"role": "user", '
    )
