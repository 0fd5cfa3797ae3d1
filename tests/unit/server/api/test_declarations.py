"""What routes declare beside their handlers stands in the document that FastAPI generates, and changes no reply."""

from __future__ import annotations

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from pydantic import ConfigDict

from server.api.declarations import TIMEOUT, Reads, Reply, Schema, errors, streamed, with_unused
from server.api.http_io import Body


class Question(Body):
    """Ask."""

    text: str


class Answered(Reply):
    """Answer."""

    text: str


class Part(Reply):
    """Answer in part."""

    delta: str


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    reads = Reads(Question, [TIMEOUT], event=Part)

    @app.post("/ask", openapi_extra=reads, responses=errors(404, 499) | streamed(Answered, "each line is a Part"))
    async def ask(request: Request) -> Response:
        return JSONResponse({"other": (await request.body()).decode()})

    return app


def test_a_route_declares_what_its_handler_reads_and_replies(app: FastAPI) -> None:
    """Body, header, reply, stream and errors; the body's model and the stream's are named for the document."""
    operation = app.openapi()["paths"]["/ask"]["post"]

    body = operation["requestBody"]
    assert body == {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Question"}}},
    }
    assert [(one["name"], one["in"], one["required"]) for one in operation["parameters"]] == [
        ("X-Request-Timeout", "header", False)
    ]
    content = operation["responses"]["200"]["content"]
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/Answered"}
    assert content["text/event-stream"]["schema"] == {"description": "each line is a Part"}
    assert {"404", "499"} <= set(operation["responses"])
    assert "Answered" in app.openapi()["components"]["schemas"]
    assert Reads(Question, event=Part).models == (Question, Part)


def test_what_is_declared_checks_nothing(app: FastAPI) -> None:
    """A body that is not of the model reaches the handler, and a reply that is not of the model the client."""
    reply = TestClient(app).post("/ask", content=b"not json")

    assert (reply.status_code, reply.json()) == (200, {"other": "not json"})


def test_replies_may_have_further_members() -> None:
    """Those that are named are always there."""
    schema = Answered.model_json_schema()

    assert Draft202012Validator(schema).is_valid({"text": "x", "more": 1})
    assert not Draft202012Validator(schema).is_valid({"more": 1})


def test_fields_that_change_nothing_stand_in_the_schema() -> None:
    """At neutral values alone, or at any; a served field keeps its own schema."""

    def describe(schema: Schema) -> None:
        with_unused(schema, {"tools": (None, []), "text": (None,)}, {"user"})

    class Described(Body):
        model_config = ConfigDict(json_schema_extra=describe)
        text: str

    schema = Draft202012Validator(Described.model_json_schema())
    assert schema.is_valid({"text": "x", "tools": [], "user": 5})
    assert not schema.is_valid({"text": "x", "tools": [1]}) and not schema.is_valid({"text": None})
