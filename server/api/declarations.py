"""Declare, beside routes and models, what FastAPI cannot read from their code.

Handlers read bodies, headers and query parameters themselves, for speed and for their own error texts. Rules over
several fields are told by these texts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]


class Reply(BaseModel):
    """Describe a reply's body for the document; handlers do not build it.

    A reply may have further members; those that are named are always present.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)


class Reads(dict[str, Any]):
    """Be the ``openapi_extra`` of a route: the body, and the parameters, that its handler reads itself.

    ``models`` are the schemas that the document needs beside those which FastAPI finds: the body's and, for a stream,
    that of each event.
    """

    def __init__(
        self, body: type[BaseModel], parameters: Sequence[Schema] = (), event: type[BaseModel] | None = None
    ) -> None:
        super().__init__(requestBody={"required": True, "content": {"application/json": {"schema": ref(body)}}})
        if parameters:
            self["parameters"] = list(parameters)
        self.models = (body,) if event is None else (body, event)


def ref(model: type[BaseModel]) -> Schema:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def parameter(name: str, where: str, schema: Schema) -> Schema:
    return {"name": name, "in": where, "required": False, "schema": schema}


def errors(*statuses: int) -> Responses:
    """Return the ``responses`` of statuses whose body is OpenAI's error object, which the document fills in."""
    return {status: {} for status in statuses}


def streamed(model: type[BaseModel], about: str) -> Responses:
    """Return the 200 of a route that replies with ``model``, or with server-sent events where ``stream`` is true."""
    # No type: some clients apply the schema to the whole text, others to each event.
    return {200: {"model": model, "content": {"text/event-stream": {"schema": {"description": about}}}}}


TIMEOUT: Final = parameter(
    "X-Request-Timeout",
    "header",
    {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "seconds; shortens server.request_timeout_s, after which the answer ends with 504",
    },
)
KEEP: Final = parameter(
    "X-Keep-Answer",
    "header",
    {
        "type": "string",
        "pattern": "^[0-9a-f-]{32,36}$",
        "description": "a random id: the answer goes on when the client leaves, and is at GET /v1/answers/ID",
    },
)
SSE_ENDS: Final = (
    "comments keep the connection alive, `data: [DONE]` ends it. An error after the first byte is an Error."
)
ANSWER_ERRORS: Final = errors(404, 413, 422, 429, 499, 500, 502, 503, 504)
RETRIEVAL_ERRORS: Final = errors(404, 413, 422, 429, 500, 503)
CHANGE_ERRORS: Final = RETRIEVAL_ERRORS | errors(409, 507)

MODEL: Final = "arrowhead"
QUESTION: Final = "What is the official gene symbol of LMP10?"
OPTIONS: Final = "options of the method, e.g. max_calls, references, egress; GET /v1/models names the methods"


def with_unused(schema: Schema, neutral: Mapping[str, Sequence[Any]], ignored: Iterable[str] = ()) -> None:
    """Add the fields that are accepted at neutral values alone, and those that change nothing."""
    unused = "not served: accepted only at a value that means that it is not used"
    schema["properties"] |= {
        name: {"enum": list(values), "description": unused}
        for name, values in neutral.items()
        if name not in schema["properties"]
    }
    schema["properties"] |= {name: {"description": "accepted, changes nothing"} for name in sorted(ignored)}
