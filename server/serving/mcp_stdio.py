"""Speak MCP on standard input and output, for a server that runs already or for one in this process.

What arrives is passed on to ``POST /mcp``, so that keys, scopes, limits and the audit log are those of HTTP.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout
from typing import Any, Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from server.app import create_app
from server.auth.authentication import ApiKeyLookup
from server.printable import unescaped
from server.settings.loading import SettingsInvalid, namespaces_dir
from server.settings.schema import Settings
from server.version import installed_version
from server.wiring.bootstrap import Opened, build_services
from server.wiring.data_folder import DataFolder, protect_data
from server.wiring.state import open_database

_OWN: Final = "http://127.0.0.1:8000"
_TIMEOUT_S: Final = 600.0
_Context = ServerRequestContext[Any]


def run_stdio(settings: Settings, address: str | None, key: str | None) -> int:
    """Serve until the input ends; ``address`` None: by a server in this process, with the data of the settings.

    Raises:
        SettingsInvalid: another server uses this data; the message says how to speak for it.
    """
    with redirect_stdout(unescaped(sys.stdout)):
        asyncio.run(_serve(settings, address, key))
    return 0


async def _serve(settings: Settings, address: str | None, key: str | None) -> None:
    async with AsyncExitStack() as stack:
        transport = None if address else await stack.enter_async_context(_own_server(settings))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # No proxy: questions go to the server that was named and nowhere else.
        http = httpx2.AsyncClient(transport=transport, headers=headers, timeout=_TIMEOUT_S, trust_env=False)
        await stack.enter_async_context(http)
        url = f"{(address or _OWN).rstrip('/')}/mcp"
        client = await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))
        bridge = bridge_to(client)
        read, write = await stack.enter_async_context(stdio_server())
        await bridge.run(read, write, bridge.create_initialization_options())


@asynccontextmanager
async def _own_server(settings: Settings) -> AsyncIterator[httpx2.ASGITransport]:
    """Run a server that listens to nobody but this process; the model loads while it answers."""
    protect_data(settings)
    try:
        folder = DataFolder(namespaces_dir(settings))
    except SettingsInvalid as error:
        beside = f"arrowhead mcp --url http://127.0.0.1:{settings.server.port} speaks for a server that runs"
        raise SettingsInvalid(f"{error.message}. {beside}") from None
    try:
        opened = Opened(ApiKeyLookup(()), open_database(settings), folder.name)
        app = create_app(build_services(settings, opened))
        async with app.router.lifespan_context(app):
            yield httpx2.ASGITransport(app)
    finally:
        folder.close()


def bridge_to(client: Client) -> Server[Any]:
    """Return a server that passes everything on to a client's server."""

    async def list_tools(_: _Context, __: object) -> ListToolsResult:
        return await client.list_tools()

    async def call_tool(_: _Context, params: CallToolRequestParams) -> CallToolResult:
        return await client.call_tool(params.name, params.arguments)

    async def list_resources(_: _Context, __: object) -> ListResourcesResult:
        return await client.list_resources()

    async def list_templates(_: _Context, __: object) -> ListResourceTemplatesResult:
        return await client.list_resource_templates()

    async def read_resource(_: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await client.read_resource(str(params.uri))

    return Server(
        "arrowhead",
        version=installed_version(),
        instructions=client.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )
