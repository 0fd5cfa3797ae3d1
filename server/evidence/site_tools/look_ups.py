"""Use the site's MCP servers for an answer: as further passages of Auto, and as tools of the plain model.

Each call goes by the egress mode and policy of its request and into the audit log; a question is free text to it. What
fails or may not leave is told as a step, and the answer goes on without it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, Final, Protocol

from jsonschema import Draft202012Validator, SchemaError

from models.decoding.types import Tool
from models.errors import ArrowheadError
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.errors import RetrievalError
from retrieval.passages import Document, Hit, Passage, passage_id
from server.egress.policy import EgressContext
from server.egress.router import Egress, InboundReply, OutboundRequest
from server.errors import TOOL_FAILED
from server.evidence.ncbi import admitted
from server.evidence.site_tools.client import ToolSpec
from server.methods.base import AnswerRequest
from server.methods.shared.passages import Gathered, PassageQuery, Passages, PassageSource
from server.methods.shared.tool_loop import SEPARATOR, OfferedTools, ToolAnswer, servers_of
from server.tape import taped

PREFIX: Final = "mcp:"
_MAX_PASSAGES: Final = 8
_MAX_ARGUMENTS: Final = 20_000


class ToolServer(Protocol):
    """Call the tools of one server; ``McpToolServer`` implements it."""

    async def tools(self) -> tuple[ToolSpec, ...]: ...

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SiteServer:
    """Name one server; ``host`` is the other machine that it is on, "" for this one.

    ``allowed`` are the tools that may be called, None for those that say that they only read.
    """

    name: str
    server: ToolServer
    host: str = ""
    allowed: frozenset[str] | None = None

    def admits(self, tool: ToolSpec) -> bool:
        return tool.only_reads if self.allowed is None else tool.name in self.allowed


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Hold what the servers found for a question, and what failed, one line each."""

    passages: tuple[RankedPassage, ...] = ()
    faults: tuple[str, ...] = ()


class SiteTools:
    """Share the servers between all answers; ``ToolBox`` of the plain model."""

    def __init__(self, servers: Sequence[SiteServer], egress: Egress) -> None:
        self._servers = {one.name: one for one in servers}
        self._egress = egress

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    async def look_up(self, ask: AnswerRequest, question: str) -> LookedUp:
        """Ask every tool that takes a question alone; raises nothing."""
        found = await asyncio.gather(*(self._of_server(ask, one, question) for one in self._servers.values()))
        texts = (one.passages for one in found)
        in_turn = [one for one in chain(*zip_longest(*texts)) if one is not None]
        return LookedUp(tuple(in_turn[:_MAX_PASSAGES]), tuple(chain(*(one.faults for one in found))))

    async def _of_server(self, ask: AnswerRequest, server: SiteServer, question: str) -> LookedUp:
        passages: list[RankedPassage] = []
        faults: list[str] = []
        try:
            tools = [tool for tool in await self._tools(ask, server) if tool.question_argument]
            for tool in tools:
                texts = await self._call(ask, server, tool, {tool.question_argument: question})
                passages += [_passage(server.name, tool.name, text) for text in texts]
        except ArrowheadError as error:
            faults.append(f"the tools of {server.name} failed: {error.message}")
        return LookedUp(tuple(passages), tuple(faults))

    async def offered(self, ask: AnswerRequest) -> list[OfferedTools]:
        """Return the tools that the request wants by their servers, under names that tell the server too."""
        found: list[OfferedTools] = []
        for name in servers_of(ask):
            try:
                tools = [_offered(name, tool) for tool in await self._wanted(ask, name)]
                found.append(OfferedTools(name, tuple(tools)))
            except ArrowheadError as error:
                found.append(OfferedTools(name, fault=error.message))
        return found

    async def run(self, ask: AnswerRequest, name: str, arguments: str) -> ToolAnswer:
        """Call a tool as the model wrote it; what is wrong or fails is told to the model."""
        server_name, _, tool_name = name.partition(SEPARATOR)
        try:
            known = await self._wanted(ask, server_name) if server_name in servers_of(ask) else ()
            tool = next((one for one in known if one.name == tool_name), None)
            if tool is None:
                raise RetrievalError("there is no such tool", TOOL_FAILED)
            texts = await self._call(ask, self._servers[server_name], tool, _checked(tool, arguments))
        except ArrowheadError as error:
            return ToolAnswer(f"error: {error.message}", error.message)
        return ToolAnswer("\n".join(texts) or "nothing was found")

    async def _wanted(self, ask: AnswerRequest, name: str) -> list[ToolSpec]:
        tools = await self._tools(ask, self._servers[name])
        return [tool for tool in tools if {name, f"{name}/{tool.name}"} & {*ask.site_tools}]

    async def _tools(self, ask: AnswerRequest, server: SiteServer) -> tuple[ToolSpec, ...]:
        @taped("tools", tuple[ToolSpec, ...], lambda: server.name, RetrievalError)
        async def listed() -> tuple[ToolSpec, ...]:
            if server.host:
                await self._egress.authorize_request(self._context(ask), _request(server, "list", {}))
            return tuple(tool for tool in await server.server.tools() if server.admits(tool))

        return await listed()

    async def _call(
        self, ask: AnswerRequest, server: SiteServer, tool: ToolSpec, arguments: Mapping[str, Any]
    ) -> tuple[str, ...]:
        @taped("tool", tuple[str, ...], lambda: (server.name, tool.name, arguments), RetrievalError)
        async def called() -> tuple[str, ...]:
            context, request = self._context(ask), _request(server, tool.name, arguments)
            if server.host:
                await self._egress.authorize_request(context, request)
            else:
                await self._egress.record_local(context, request)
            began, size, status = time.monotonic(), None, "failed"
            try:
                texts = await server.server.call(tool.name, arguments)
                size, status = sum(map(len, texts)), "ok"
            finally:
                reply = InboundReply(status=status, num_bytes=size, seconds=time.monotonic() - began)
                await self._egress.record_reply(context, request, reply)
            return texts

        return await called()

    def _context(self, ask: AnswerRequest) -> EgressContext:
        return admitted(self._egress, ask, "off" if ask.keeps_here else None)

    async def close(self) -> None:
        await asyncio.gather(*(one.server.close() for one in self._servers.values()))


def _request(server: SiteServer, what: str, arguments: Mapping[str, Any]) -> OutboundRequest:
    text = json.dumps(arguments, ensure_ascii=False)
    return OutboundRequest(
        host=server.host or f"{PREFIX}{server.name}",
        endpoint=f"mcp_{what}",
        classes=("free_text",) if arguments else (),
        num_bytes=len(text),
        params={"arguments": text} if arguments else {},
    )


def _checked(tool: ToolSpec, arguments: str) -> dict[str, Any]:
    """Return the arguments of a call that a model wrote.

    Raises:
        RetrievalError: they are not what the tool takes.
    """
    try:
        given = json.loads(arguments[:_MAX_ARGUMENTS] or "{}")
        fault = next(iter(Draft202012Validator(dict(tool.schema)).iter_errors(given)), None)
    except (ValueError, SchemaError) as error:
        raise RetrievalError("the arguments are no JSON object that can be checked", TOOL_FAILED) from error
    if fault is not None or not isinstance(given, dict):
        raise RetrievalError(f"arguments: {fault.message[:300] if fault else 'no object'}", TOOL_FAILED)
    return given


def _offered(server: str, tool: ToolSpec) -> Tool:
    name = f"{server}{SEPARATOR}{tool.name}"
    shown = {"name": name, "description": tool.about, "parameters": dict(tool.schema)}
    return Tool(name, {"type": "function", "function": shown}, tool.schema)


def _passage(server: str, tool: str, text: str) -> RankedPassage:
    """Return a tool's text as a passage; it has no page of its own to link to."""
    namespace, document_id = f"{PREFIX}{server}", f"{PREFIX}{server}/{tool}"
    number = passage_id(namespace, document_id, 0, text)
    document = Document(document_id=document_id, title=f"{tool} of {server}", source=namespace)
    passage = Passage(passage_id=number, document_id=document_id, title=document.title, text=text, end=len(text))
    return RankedPassage(passage=passage, document=document, hit=Hit(number, 0.0), namespace=namespace)


@dataclass(frozen=True, slots=True)
class PassagesWithTools:
    """Open a request's namespaces, whose searches ask the site's tools too."""

    passages: PassageSource
    tools: SiteTools

    def open(self, ask: AnswerRequest) -> Passages:
        return _Joined(self.passages.open(ask), self.tools, ask)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Search namespaces, and ask the tools for the first query."""

    passages: Passages
    tools: SiteTools
    ask: AnswerRequest

    @property
    def names(self) -> tuple[str, ...]:
        return self.passages.names

    def check(self, passage_query: PassageQuery) -> None:
        self.passages.check(passage_query)

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        tools = asyncio.create_task(self.tools.look_up(self.ask, queries[0]))
        try:
            gathered = await self.passages.find(queries, passage_query)
            found = await tools
        finally:
            tools.cancel()
            await asyncio.gather(tools, return_exceptions=True)
        # In turn, as ranks of the two cannot be compared.
        pairs = zip_longest(gathered.lists[0], found.passages)
        first = tuple(one for pair in pairs for one in pair if one is not None)
        names = tuple(dict.fromkeys(one.namespace for one in found.passages))
        return replace(
            gathered,
            namespaces=(*gathered.namespaces, *names),
            retriever=gathered.retriever or ", ".join(names),
            lists=(first, *gathered.lists[1:]),
            faults=found.faults,
        )
