"""Define the tools of MCP and do their work. Knows the protocol's names of things, not its transport.

Searches, passages, checks and answers are those of the HTTP routes; look-ups at NCBI go through the table of calls, the
egress policy, rate limit and audit log that those of answers go through.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request

from models.decoding.types import Call
from retrieval.ncbi.calls.table import BLAST_HOST, BLAST_PATHS, CALLS, EUTILS_HOST, EUTILS_PATH, Param
from retrieval.types import Endpoint
from server.api.answers.session import Answers, fan_out
from server.api.mcp.own_routes import ask_route
from server.errors import RequestError
from server.evidence.ncbi import NcbiSessions
from server.methods.base import AUTO, METHOD_NAMES, AnswerRequest, EvidenceRead
from server.methods.shared.passages import PassageQuery
from server.traces import TraceHead
from server.wiring.services import AUTO_ID, Services

_MAX_PASSAGES: Final = 50
_MAX_STATEMENTS: Final = 200
# What an agent's model reads at once of NCBI's records.
_MAX_REPLY_CHARS: Final = 20_000
_NCBI: Final[Mapping[str, tuple[Endpoint, str]]] = {
    "ncbi_esearch": ("esearch", "Search a database of NCBI for the ids of records"),
    "ncbi_esummary": ("esummary", "Read summaries of NCBI records by their ids"),
    "ncbi_efetch": ("efetch", "Read whole NCBI records, abstracts or sequences by their ids"),
    "ncbi_elink": ("elink", "Find records of one NCBI database that are linked to records of another"),
    "ncbi_blast": ("blast_put", "Align a sequence with BLAST, and wait for the best hits"),
}
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Hold the text for the agent's model, and the same as data."""

    text: str
    data: dict[str, Any]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class McpTool:
    """Define one tool; ``method`` is that which a key needs for it, "" for none."""

    name: str
    description: str
    schema: dict[str, Any]
    run: Callable[[Request, Arguments], Awaitable[ToolReply]]
    method: str = ""


def tools_for(request: Request) -> dict[str, McpTool]:
    """Return the tools that the request's key may use, by their names."""
    principal = request.state.principal
    return {tool.name: tool for tool in _tools() if not tool.method or principal.may_use(tool.method)}


def _tools() -> list[McpTool]:
    text = {"type": "string", "minLength": 1, "maxLength": 4000}
    names = {"type": "array", "items": {"type": "string"}, "maxItems": 64, "description": "by default all"}
    pieces = {"type": "array", "minItems": 1, "items": _PIECE}
    return [
        McpTool(
            "search",
            "Search the passages of this server's namespaces (documents, articles, notes) for a question",
            _schema({"query": text, "namespaces": names, "k": _number(8, _MAX_PASSAGES)}, "query"),
            _search,
        ),
        McpTool(
            "read_passage",
            "Read one whole passage with its document, as a search names it",
            _schema({"namespace": text, "id": {"type": "string", "pattern": r"^\d{1,19}$"}}, "namespace", "id"),
            _read_passage,
        ),
        *(
            McpTool(name, about, _ncbi_schema(CALLS[at]), _look_up(at), "genegpt")
            for name, (at, about) in _NCBI.items()
        ),
        McpTool(
            "graph_context",
            "Find the statements of the knowledge graph around what a question names",
            _schema({"question": text, "k": _number(50, _MAX_STATEMENTS)}, "question"),
            _graph_context,
            "kg-rag",
        ),
        McpTool(
            "verify",
            "Tell whether texts or stored passages support or contradict a claim, and quote the sentence that decides",
            _schema({"claim": text, "evidence": pieces}, "claim", "evidence"),
            _verify,
        ),
        McpTool(
            "ask",
            "Answer a biomedical question with sources; by default the evidence that is found decides the method",
            _schema({"question": text, "method": {"enum": [AUTO, *METHOD_NAMES], "default": AUTO}}, "question"),
            _ask,
        ),
    ]


_PIECE: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"passage": {"type": "string"}, "namespace": {"type": "string"}},
            "required": ["passage"],
            "additionalProperties": False,
        },
    ]
}


def _schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    fields = {"properties": dict(properties), "required": list(required)}
    return {"type": "object", **fields, "additionalProperties": False}


def _number(default: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def _ncbi_schema(params: tuple[Param, ...]) -> dict[str, Any]:
    """Return the schema of a call's parameters, from the table that checks them."""
    properties = {
        one.name: {"type": ["string", "integer"], "description": one.what}
        if not one.choices
        else {"enum": [*one.choices]}
        for one in params
    }
    return _schema(properties, *(one.name for one in params if one.required))


async def _search(request: Request, given: Arguments) -> ToolReply:
    services: Services = request.app.state.services
    query = PassageQuery(namespaces=tuple(given.get("namespaces") or ()), k=given.get("k", 8))
    readable = await services.readable_by(request.state.principal)
    async with services.admitted(request.state.owner):
        found = await services.passages.find([given["query"]], query, readable)
    passages = [
        {
            "namespace": one.namespace,
            "id": str(one.passage.passage_id),
            "title": one.document.title,
            "page": one.passage.page or None,
            "url": one.document.url,
            "retracted": one.document.is_retracted,
            "score": round(one.hit.score, 4),
            "text": one.passage.text,
        }
        for one in found.lists[0]
    ]
    lines = [f"{_heading(one)}\n{one['text']}" for one in passages]
    return ToolReply("\n\n".join(lines) or "Nothing was found.", {"passages": passages})


def _heading(one: Mapping[str, Any]) -> str:
    page = f", page {one['page']}" if one["page"] else ""
    retracted = ", RETRACTED" if one["retracted"] else ""
    return f"[{one['namespace']}/{one['id']}] {one['title']}{page}{retracted}"


async def _read_passage(request: Request, given: Arguments) -> ToolReply:
    passage = await read_passage(request, given["namespace"], given["id"])
    return ToolReply(f"{passage['title']}\n\n{passage['text']}", passage)


async def read_passage(request: Request, namespace: str, number: str) -> dict[str, Any]:
    found: dict[str, Any] = await ask_route(request, "GET", f"/v1/passages/{quote(namespace, safe='')}/{number}")
    return found


async def read_trace(request: Request, trace: str) -> dict[str, Any]:
    found: dict[str, Any] = await ask_route(request, "GET", f"/v1/traces/{quote(trace, safe='')}")
    # What replays need is packed, and much for an agent's model.
    return found | {"choices": [choice | {"evidence": None} for choice in found["choices"]]}


def _look_up(endpoint: Endpoint) -> Callable[[Request, Arguments], Awaitable[ToolReply]]:
    async def run(request: Request, given: Arguments) -> ToolReply:
        services: Services = request.app.state.services
        if services.egress is None:
            raise RequestError("this server makes no calls to NCBI's databases")
        answer = f"mcp-{uuid.uuid4().hex}"
        call = NcbiSessions(services.egress, _MAX_REPLY_CHARS).single(answer, request.state.principal.key_id)
        try:
            async with services.admitted(request.state.owner):
                reply = await call(Call(_address(endpoint, given), 0))
            left = services.egress.departures_of(answer)
        finally:
            services.egress.forget(answer)
        known = ("endpoint", "db", "ids", "num_records", "num_left_out", "records", "ignored_words", "error")
        data = {name: reply.record[name] for name in known if reply.record.get(name) is not None}
        has_failed = reply.status in ("error", "refused")
        return ToolReply(reply.text, data | {"status": reply.status, "egress": left}, has_failed)

    return run


def _address(endpoint: Endpoint, given: Arguments) -> str:
    """Return the call as a model writes it; the table of calls checks and rebuilds it."""
    if endpoint == "blast_put":
        return f"https://{BLAST_HOST}{BLAST_PATHS[0]}?{urlencode({'CMD': 'Put', **given})}"
    return f"https://{EUTILS_HOST}{EUTILS_PATH}{endpoint}.fcgi?{urlencode(given)}"


async def _graph_context(request: Request, given: Arguments) -> ToolReply:
    services: Services = request.app.state.services
    served = services.find(f"{services.lifecycle.card.name}:kg-rag", request.state.principal)
    head = TraceHead(f"mcp-{uuid.uuid4().hex}", served.id, request.state.owner, int(time.time()))
    principal = request.state.principal
    ask = AnswerRequest(
        request_id=head.id, prompt=given["question"], key_id=principal.key_id, options={"synthesis": "extractive"}
    )
    answers = Answers(services, served, fan_out(ask, 1), head)
    await services.loaded()
    await answers.check()
    statements: list[str] = []
    async with aclosing(answers.events()) as events:
        async for _, event in events:
            if isinstance(event, EvidenceRead):
                statements = [source.text for source in event.sources]
    shown = statements[: given.get("k", 50)]
    data = {"statements": shown, "num_found": len(statements), "trace_id": head.id}
    return ToolReply("\n".join(shown) or "The graph has no statement about what the question names.", data)


async def _verify(request: Request, given: Arguments) -> ToolReply:
    found = await ask_route(request, "POST", "/v1/verify", given)
    overall = found["overall"]
    quote_ = found["results"][overall["index"]]["sentence"]["text"]
    text = f"{overall['verdict']} (evidence {overall['index']}): “{quote_}”"
    return ToolReply(text, found)


async def _ask(request: Request, given: Arguments) -> ToolReply:
    services: Services = request.app.state.services
    method = given.get("method", AUTO)
    model = AUTO_ID if method == AUTO else f"{services.lifecycle.card.name}:{method}"
    body = {"model": model, "messages": [{"role": "user", "content": given["question"]}]}
    # An agent that has just started its server asks before the model is there.
    await services.loaded()
    reply = await ask_route(request, "POST", "/v1/chat/completions", body)
    message = reply["choices"][0]["message"]
    sources = [one["url_citation"] for one in message["annotations"]]
    data = {**message["arrowhead"], "sources": [{"title": one["title"], "url": one["url"]} for one in sources]}
    return ToolReply(message["content"], data)
