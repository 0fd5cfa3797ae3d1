"""The OpenAPI document: valid, complete, with examples that are taken; the page needs nothing from outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from models.errors import ArrowheadError
from server.api.administration.keys import KeyBody, KeyChange, SetupBody
from server.api.http_io import parse_body
from server.api.messages.schemas import parse_count, parse_message
from server.api.openai.chat import parse_chat
from server.api.openai.completions import parse_completion
from server.api.openai.models import DetokenizeRequest, _parse
from server.api.reference.document import TAGS, operation_id
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

STATIC = Path(__file__).parents[5] / "server" / "api" / "reference" / "static"


def _app(needs_key: bool = True) -> Application:
    parts = SimpleNamespace(
        settings=Settings(),
        observability=metrics_only(),
        key_lookup=ApiKeyLookup(("a-key-of-the-settings",) if needs_key else ()),
        first_key=None,
        rates=LocalRateLimiter(),
    )
    return create_app(cast(Services, parts))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return _app().openapi()


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
    routes = [route for route in _app().routes if isinstance(route, APIRoute)]
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
            assert response["description"], (place, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_reference_of_the_document_is_in_it(document: dict[str, Any]) -> None:
    """Also each schema that a stream's description names."""
    named = set(re.findall(r"'#/components/(\w+)/(\w+)'", str(document)))
    assert {(kind, name) for kind, name in named if name not in document["components"][kind]} == set()
    assert {"ChatCompletionChunk", "CompletionChunk", "ResponseEvent"} <= set(document["components"]["schemas"])


def test_what_is_open_is_said_to_be_so(document: dict[str, Any]) -> None:
    """All others need a key where the server has one."""
    open_routes = {path for path, verbs in document["paths"].items() for o in verbs.values() if o.get("security") == []}

    files = {path for path in OPEN_PATHS if path.startswith(("/docs/", "/web/"))}
    assert OPEN_PATHS - files | {"/docs/{name}", "/web/{name}"} == open_routes
    assert document["security"] == [{"bearer": []}]
    assert _app(needs_key=False).openapi()["security"] == [{}]


def test_errors_are_those_of_the_table(document: dict[str, Any]) -> None:
    """Every code and type that can be sent, and no more."""
    error = document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]

    assert error_codes() == set(error["code"]["enum"])
    assert set(error["type"]["enum"]) == KINDS


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
        KeyBody,
        KeyChange,
        SetupBody,
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
            parse_chat(body)
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


def test_the_examples_of_bodies_are_taken(document: dict[str, Any]) -> None:
    """By the schema that they stand in and by the server."""
    schemas = document["components"]["schemas"]
    bodies = {name: body for name, schema in schemas.items() for body in schema.get("examples", [])}

    assert len(bodies) > 10
    for name, body in bodies.items():
        assert Draft202012Validator(schemas[name] | {"components": document["components"]}).is_valid(body), name
        assert _is_taken(name, body), name


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
