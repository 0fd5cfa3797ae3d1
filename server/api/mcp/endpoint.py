"""Serve ``POST /mcp``: MCP over streamable HTTP without sessions, by the official SDK.

Each request carries its key; the specification of 2026-07-28 and the older ones that begin with ``initialize`` are
answered. The SDK is imported at the first request.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from models.errors import ArrowheadError
from server.api.declarations import Reply, errors
from server.api.mcp.tools import McpTool, ToolReply, read_passage, read_trace, tools_for
from server.error_mapping import error_reply
from server.middleware import log_failure
from server.version import installed_version

if TYPE_CHECKING:
    import mcp_types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

router = APIRouter(tags=["MCP"])
ABOUT: Final = (
    "Biomedical evidence with sources: stored passages, NCBI's databases (also without internet), a knowledge graph, "
    "a check of claims, and whole answers. Cite what the tools return; a failed call is not a missing record."
)
_PASSAGE: Final = "arrowhead://passages/{namespace}/{id}"
_TRACE: Final = "arrowhead://traces/{id}"
_URI: Final = re.compile(
    r"arrowhead://(?:passages/(?P<namespace>[^/]{1,63})/(?P<id>\d{1,19})|traces/(?P<trace>[\w-]{1,80}))"
)


class JsonRpcReply(Reply):
    """Carry the result or the error of a request."""

    jsonrpc: Literal["2.0"]
    id: str | int | None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@router.post(
    "/mcp",
    summary="Speak the Model Context Protocol",
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
    responses={200: {"model": JsonRpcReply}, 400: {"model": JsonRpcReply}, **errors(413, 429, 503)},
)
async def mcp(request: Request) -> Response:
    return _SdkResponse(await endpoint_of(request).manager())


class _SdkResponse(Response):
    """Let the SDK read the request and reply to it."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


class McpEndpoint:
    """Run the SDK's transport from the first request on until ``close``."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._manager: StreamableHTTPSessionManager | None = None
        self._runs: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ended = asyncio.Event()

    async def manager(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.to_thread(_build, self._max_body_bytes)
                is_up = asyncio.Event()
                self._runs = asyncio.create_task(self._run(manager, is_up), name="mcp")
                await is_up.wait()
                self._manager = manager
        return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, is_up: asyncio.Event) -> None:
        async with manager.run():
            is_up.set()
            await self._ended.wait()

    async def close(self) -> None:
        self._ended.set()
        if self._runs is not None:
            await asyncio.gather(self._runs, return_exceptions=True)


def endpoint_of(request: Request) -> McpEndpoint:
    endpoint: McpEndpoint = request.app.state.mcp
    return endpoint


def _build(max_body_bytes: int) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    return StreamableHTTPSessionManager(
        build_server(),
        stateless=True,
        json_response=True,
        max_request_body_size=max_body_bytes,
        # Hosts and pages are checked for every route, before this one.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def build_server() -> Server[Any]:
    """Return the SDK's server with this server's tools and resources."""
    from mcp.server import Server
    from mcp_types import ListResourceTemplatesResult, ListToolsResult, ResourceTemplate, Tool, ToolAnnotations

    async def list_tools(ctx: ServerRequestContext[Any], _: object) -> ListToolsResult:
        only_reads = ToolAnnotations(read_only_hint=True, destructive_hint=False)
        return ListToolsResult(
            tools=[
                Tool(name=one.name, description=one.description, input_schema=one.schema, annotations=only_reads)
                for one in tools_for(_request(ctx)).values()
            ]
        )

    async def list_templates(_: ServerRequestContext[Any], __: object) -> ListResourceTemplatesResult:
        templates = (("passage", _PASSAGE, "A stored passage"), ("trace", _TRACE, "The record of an answer"))
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(name=name, uri_template=uri, description=about, mime_type="application/json")
                for name, uri, about in templates
            ]
        )

    return Server(
        "arrowhead",
        version=installed_version(),
        instructions=ABOUT,
        on_list_tools=list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=_read_resource,
    )


async def _call_tool(
    ctx: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams
) -> mcp_types.CallToolResult:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, CallToolResult, TextContent

    request = _request(ctx)
    tool = tools_for(request).get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:80]!r} for this key")
    reply = await _run(tool, request, params.arguments or {})
    content = [TextContent(text=reply.text)]
    return CallToolResult(content=[*content], structured_content=reply.data, is_error=reply.is_error)


async def _run(tool: McpTool, request: Request, given: dict[str, Any]) -> ToolReply:
    """Return what the tool found; what is refused or fails is told to the agent's model, which may mend it."""
    from jsonschema import Draft202012Validator

    fault = next(iter(Draft202012Validator(tool.schema).iter_errors(given)), None)
    if fault is not None:
        place = ".".join(map(str, fault.absolute_path))
        return _failed(f"{place}: {fault.message[:300]}" if place else fault.message[:300], "invalid_arguments")
    # To JSON Schema 3.0 is an integer, as some agents write them.
    whole = {name: int(value) for name, value in given.items() if isinstance(value, float) and value.is_integer()}
    try:
        async with asyncio.timeout(request.app.state.services.settings.server.request_timeout_s):
            return await tool.run(request, given | whole)
    except TimeoutError:
        return _failed("the time for this call is over", "timeout")
    except Exception as error:
        log_failure(error)
        reply = error_reply(error)
        return _failed(reply.message, reply.code)


def _failed(message: str, code: str) -> ToolReply:
    return ToolReply(message, {"error": {"message": message, "code": code}}, is_error=True)


async def _list_resources(_: ServerRequestContext[Any], __: object) -> mcp_types.ListResourcesResult:
    from mcp_types import ListResourcesResult

    # Passages and traces are named by searches and answers; there are too many for a list.
    return ListResourcesResult(resources=[])


async def _read_resource(
    ctx: ServerRequestContext[Any], params: mcp_types.ReadResourceRequestParams
) -> mcp_types.ReadResourceResult:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, ReadResourceResult, TextResourceContents

    found = _URI.fullmatch(str(params.uri))
    if found is None:
        raise MCPError(INVALID_PARAMS, f"resources are {_PASSAGE} and {_TRACE}")
    try:
        if found["trace"]:
            read = await read_trace(_request(ctx), found["trace"])
        else:
            read = await read_passage(_request(ctx), found["namespace"], found["id"])
    except ArrowheadError as error:
        raise MCPError(INVALID_PARAMS, error.message) from None
    text = json.dumps(read, ensure_ascii=False)
    contents = [TextResourceContents(uri=params.uri, mime_type="application/json", text=text)]
    return ReadResourceResult(contents=[*contents])


def _request(ctx: ServerRequestContext[Any]) -> Request:
    """Return the HTTP request of a message, whose state has the key's principal."""
    if ctx.request is None:
        raise RuntimeError("this server speaks over HTTP alone")
    request: Request = ctx.request
    return request
