"""List every route with its purpose, request body and replies.

A test compares the list with the registered routes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from retrieval.corpus.readers.registry import READERS
from server.api.http_request import Body
from server.api.openai.schemas import MAX_MESSAGES, MAX_TEXT, ChatRequest, CompletionRequest
from server.api.openai.tokenize import DetokenizeRequest, TokenizeRequest
from server.api.responses.schemas import Fields, ResponseMessage
from server.api.retrieval.embeddings import EmbeddingsRequest, RerankRequest
from server.api.retrieval.schemas import (
    DocumentsBody,
    NamespaceBody,
    NoBody,
    QueryBody,
    RemoveBody,
    SearchBody,
    UpdateBody,
)


class ResponseRequest(Fields):
    """Request a response of the Responses API."""

    input: Annotated[str, Field(max_length=MAX_TEXT)] | Annotated[list[ResponseMessage], Field(max_length=MAX_MESSAGES)]


class MessagesRequest(Body):
    """Request a message in Anthropic's form, which this engine does not support: every body is refused."""

    model: str


Verb = Literal["get", "post", "put", "delete"]
# A reply's body is the name of a schema of ``replies`` or one of these constants.
METRICS: Final = "metrics"
PAGE: Final = "page"
Query = Mapping[str, Mapping[str, object]]
Stream = Literal["", "chat", "text", "response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Describe one method of one path for the OpenAPI document.

    - ``replies``: status -> name of the reply's schema, ``METRICS`` or ``PAGE``.
    - ``stream``: kind of server-sent events that the reply consists of when the request sets ``stream``.
    - ``is_open``: the route needs no key.
    - ``query``: schemas of the URL's query parameters, by name.
    - ``is_timed``: the client can shorten the time limit with a header.
    - ``layer``: schema of the reply of the engine's own OpenAI layer, "" where the layer has no such route.
    """

    path: str
    verb: Verb
    tag: str
    summary: str
    body: type[BaseModel] | Literal["file"] | None = None
    replies: Mapping[int, str] = field(default_factory=lambda: {200: ""})
    errors: Sequence[int] = ()
    query: Query = field(default_factory=dict)
    stream: Stream = ""
    is_open: bool = False
    is_timed: bool = False
    layer: str = ""


WAIT: Final[Query] = {"wait": {"type": "number", "minimum": 0, "maximum": 60}}
_FILE_FIELDS: Final[Query] = {
    "filename": {"type": "string"},
    "reader": {"enum": ["", *READERS]},
    "licence": {"type": "string"},
}
_ASKING: Final = (404, 413, 422, 429, 499, 500, 502, 503, 504)
_TOKENS: Final = (404, 413, 422, 429, 500, 503)
_RETRIEVING: Final = (404, 413, 422, 429, 500, 503)
_CHANGING: Final = (404, 409, 413, 422, 429, 500, 503, 507)
_JOB: Final = {200: "Job", 202: "Job"}
_NAMESPACE: Final = "/v1/namespaces/{name}"


def _change(path: str, verb: Verb, summary: str, body: type[BaseModel] | Literal["file"]) -> Operation:
    """Return the operation of a change, which runs as a job: 200 if it ends while the client waits, else 202."""
    query = {**WAIT, **_FILE_FIELDS} if body == "file" else WAIT
    return Operation(
        path=_NAMESPACE + path,
        verb=verb,
        tag="Namespaces",
        summary=summary,
        body=body,
        replies=_JOB,
        errors=_CHANGING,
        query=query,
    )


def _rerank(path: str) -> Operation:
    return Operation(
        path=path,
        verb="post",
        tag="Retrieval",
        summary="Passages in the order of their use for a query",
        body=RerankRequest,
        replies={200: "Ranking"},
        errors=_RETRIEVING,
    )


def _not_stored(verb: Verb) -> Operation:
    return Operation(
        path="/v1/responses/{response_id}",
        verb=verb,
        tag="Answers",
        summary="Always 404: responses are not stored; GET /v1/traces/{trace_id} has the record",
        replies={},
        errors=(404,),
    )


def _messages(path: str, layer: str) -> Operation:
    return Operation(
        path="/v1/messages" + path,
        verb="post",
        tag="Answers",
        summary="Anthropic's form, of the plain model on the vLLM engine alone; refused elsewhere",
        body=MessagesRequest,
        replies={},
        errors=(404, 413, 422, 429, 499, 500, 503, 504),
        is_timed=True,
        layer=layer,
    )


def _open(path: str, summary: str, replies: Mapping[int, str]) -> Operation:
    return Operation(path=path, verb="get", tag="Server", summary=summary, replies=replies, is_open=True)


ANSWERS: Final = (
    Operation(
        path="/v1/chat/completions",
        verb="post",
        tag="Answers",
        summary="Answer a conversation; the model's name says by which method",
        body=ChatRequest,
        replies={200: "ChatCompletion"},
        errors=_ASKING,
        stream="chat",
        is_timed=True,
        layer="LayerReply",
    ),
    Operation(
        path="/v1/responses",
        verb="post",
        tag="Answers",
        summary="The same as typed items; nothing is stored",
        body=ResponseRequest,
        replies={200: "Response"},
        errors=_ASKING,
        stream="response",
        is_timed=True,
        layer="LayerReply",
    ),
    *(_not_stored(verb) for verb in ("get", "delete")),
    *(_messages(path, layer) for path, layer in (("", "LayerMessage"), ("/count_tokens", "LayerCount"))),
    Operation(
        path="/v1/completions",
        verb="post",
        tag="Answers",
        summary="Continue a text; of a method, the whole transcript with its calls",
        body=CompletionRequest,
        replies={200: "Completion"},
        errors=_ASKING,
        stream="text",
        is_timed=True,
        layer="LayerReply",
    ),
    Operation(
        path="/tokenize",
        verb="post",
        tag="Answers",
        summary="A text's or a chat's tokens in the served model",
        body=TokenizeRequest,
        replies={200: "Tokens"},
        errors=_TOKENS,
    ),
    Operation(
        path="/detokenize",
        verb="post",
        tag="Answers",
        summary="The text of tokens",
        body=DetokenizeRequest,
        replies={200: "Detokenized"},
        errors=_TOKENS,
    ),
    Operation(path="/v1/models", verb="get", tag="Answers", summary="Models and methods", replies={200: "ModelList"}),
    Operation(
        path="/v1/models/{model}",
        verb="get",
        tag="Answers",
        summary="One model or method",
        replies={200: "Model"},
        errors=(404,),
    ),
    Operation(
        path="/v1/traces/{trace_id}",
        verb="get",
        tag="Answers",
        summary="The full record of an answer, for the key that asked",
        replies={200: "Trace"},
        errors=(404,),
    ),
)
RETRIEVAL: Final = (
    Operation(
        path="/v1/embeddings",
        verb="post",
        tag="Retrieval",
        summary="Texts to vectors",
        body=EmbeddingsRequest,
        replies={200: "Embeddings"},
        errors=_RETRIEVING,
    ),
    *(_rerank(path) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
    Operation(
        path="/v1/search",
        verb="post",
        tag="Retrieval",
        summary="Passages of namespaces for one query or several",
        body=SearchBody,
        replies={200: "SearchResult"},
        errors=_RETRIEVING,
    ),
    Operation(
        path="/v1/passages/{namespace}/{passage_id}",
        verb="get",
        tag="Retrieval",
        summary="One passage with its document",
        replies={200: "Passage"},
        errors=(404, 422, 429),
    ),
)
NAMESPACES: Final = (
    Operation(
        path="/v1/namespaces",
        verb="get",
        tag="Namespaces",
        summary="All namespaces",
        replies={200: "NamespaceList"},
        errors=(429,),
    ),
    Operation(
        path="/v1/namespaces",
        verb="post",
        tag="Namespaces",
        summary="A new one",
        body=NamespaceBody,
        replies={201: "Namespace"},
        errors=_CHANGING,
    ),
    Operation(
        path=_NAMESPACE,
        verb="get",
        tag="Namespaces",
        summary="One namespace with the queries that it remembers",
        replies={200: "Namespace"},
        errors=(404, 422, 429),
    ),
    Operation(
        path=_NAMESPACE,
        verb="delete",
        tag="Namespaces",
        summary="Delete it with all it holds",
        replies={200: "Namespace"},
        errors=(404, 409, 422),
    ),
    _change("/documents", "post", "Add documents as JSON", DocumentsBody),
    _change("/documents", "delete", "Remove documents by their ids", RemoveBody),
    _change("/files", "put", "Add a file; the body is the file as it is", "file"),
    _change("/files", "post", "Add a file, as PUT, sent as application/octet-stream", "file"),
    _change("/queries", "post", "Add what a PubMed query finds, and remember the query", QueryBody),
    _change("/update", "post", "The remembered queries again, for what is new", UpdateBody),
    _change("/verify", "post", "Read everything and check it", NoBody),
    Operation(path="/v1/jobs", verb="get", tag="Namespaces", summary="Jobs of this key", replies={200: "JobList"}),
    Operation(
        path="/v1/jobs/{job_id}",
        verb="get",
        tag="Namespaces",
        summary="How far a job is",
        replies={200: "Job"},
        errors=(404,),
    ),
    Operation(
        path="/v1/jobs/{job_id}",
        verb="delete",
        tag="Namespaces",
        summary="End a job early; 202 where it stops at its next step",
        replies=_JOB,
        errors=(404,),
    ),
)
SERVER: Final = (
    _open("/health", "The process lives", {200: "Health"}),
    Operation(
        path="/ready",
        verb="get",
        tag="Server",
        summary="It can answer; 503 with the reason while it cannot",
        replies={200: "Ready", 503: "NotReady"},
    ),
    Operation(path="/version", verb="get", tag="Server", summary="What runs", replies={200: "Version"}),
    Operation(path="/metrics", verb="get", tag="Server", summary="For Prometheus", replies={200: METRICS}),
    Operation(path="/openapi.json", verb="get", tag="Server", summary="This document", replies={200: "OpenApi"}),
    _open("/docs", "The page that shows it", {200: PAGE}),
    _open("/docs/{name}", "Its script, style and icon: page.js, page.css, page.svg; all else needs a key", {200: PAGE}),
)
OPERATIONS: Final = (*ANSWERS, *RETRIEVAL, *NAMESPACES, *SERVER)
