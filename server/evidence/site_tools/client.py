"""Call the tools of one MCP server by the official SDK, within bounds of time, number and size.

The connection is opened at the first call and held by a task of its own; after a failure the next call opens another.
What a server sends is somebody else's text: it comes back as texts without anything that a model could read as more.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from retrieval.errors import RetrievalError
from retrieval.ncbi.replies.inert import inert_text
from server.errors import TOOL_FAILED
from server.settings.mcp import command_of

if TYPE_CHECKING:
    import httpx2
    import mcp_types
    from mcp import Client

# With the server's name before it, at most 64 characters, which is what models' calls of tools may name.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,42}", re.ASCII)
_MAX_TOOLS: Final = 32
_MAX_PAGES: Final = 8
_MAX_SCHEMA: Final = 8_192
_MAX_ABOUT: Final = 600
_MAX_TEXTS: Final = 16
MAX_CHARS: Final = 4_000
_MAX_BODY: Final = 4 * 2**20
_AT_ONCE: Final = 8
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Describe one tool of a server; ``schema`` is that of its arguments."""

    name: str
    about: str
    schema: Mapping[str, Any]
    only_reads: bool

    @property
    def question_argument(self) -> str:
        """Return the argument that takes a question: the only required one, if it is a text; "" for none."""
        required = self.schema.get("required") or []
        properties = self.schema.get("properties") or {}
        if len(required) != 1 or not isinstance(properties, Mapping):
            return ""
        named = properties.get(required[0])
        return str(required[0]) if isinstance(named, Mapping) and named.get("type") == "string" else ""


class McpToolServer:
    """Hold the connection to one server; ``target`` is its address or its command.

    ``server`` takes the place of both in tests: the SDK's own server, in this process.
    """

    def __init__(self, target: str, timeout_s: float, key: str = "", server: Any = None) -> None:
        self._target, self._timeout_s, self._key, self._server = target, timeout_s, key, server
        self._client: asyncio.Future[Client] | None = None
        self._holder: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that can be called, at most ``_MAX_TOOLS``.

        Raises:
            RetrievalError: the server does not answer, or not in time.
        """

        async def listed(client: Client) -> list[mcp_types.Tool]:
            found: list[mcp_types.Tool] = []
            cursor: str | None = None
            for _ in range(_MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if cursor is None or len(found) >= _MAX_TOOLS:
                    break
            return found

        return tuple(_spec(tool) for tool in await self._within(listed) if _is_usable(tool))[:_MAX_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the texts of a tool's reply, each at most ``MAX_CHARS`` long.

        Raises:
            RetrievalError: the server does not answer, or not in time, or the tool reports an error.
        """
        result = await self._within(lambda client: client.call_tool(tool, dict(arguments)))
        whole = [part.text for part in result.content if part.type == "text"]
        texts = [inert_text(text[:MAX_CHARS])[:MAX_CHARS] for text in whole[:_MAX_TEXTS]]
        if result.is_error:
            raise RetrievalError(f"the tool reports an error: {' '.join(texts)[:200]}", TOOL_FAILED)
        return tuple(text for text in texts if text)

    async def _within(self, work: Callable[[Client], Any]) -> Any:
        """Run ``work`` with the connection, as long as a call may take."""
        used: asyncio.Future[Client] | None = None
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                used = self._opened()
                return await work(await asyncio.shield(used))
        except TimeoutError:
            await self._drop(used)
            raise RetrievalError(f"it did not answer within {self._timeout_s:g} s", TOOL_FAILED) from None
        except RetrievalError:
            raise
        except Exception as error:  # whatever the SDK, its transports or the server's reply raise
            await self._drop(used)
            raise RetrievalError(f"it cannot be used: {_cause(error)}", TOOL_FAILED) from error

    def _opened(self) -> asyncio.Future[Client]:
        if self._client is None:
            self._client = asyncio.get_running_loop().create_future()
            self._ended = asyncio.Event()
            self._holder = asyncio.create_task(self._hold(self._client, self._ended), name="mcp-client")
        return self._client

    async def _hold(self, opened: asyncio.Future[Client], ended: asyncio.Event) -> None:
        """Keep the connection open until ``ended``, in one task, as the SDK wants it."""
        from mcp import Client

        try:
            async with AsyncExitStack() as stack:
                target = self._server if self._server is not None else await self._transport(stack)
                client = await stack.enter_async_context(Client(target, read_timeout_seconds=self._timeout_s))
                opened.set_result(client)
                await ended.wait()
        except Exception as error:  # told to whoever waits for the connection
            if not opened.done():
                opened.set_exception(error)
                opened.exception()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        import httpx2
        from mcp import StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        if command := command_of(self._target):
            return StdioServerParameters(command=command[0], args=command[1:])
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        # No proxy and no redirect: what is sent goes to the host that the settings name and nowhere else.
        http = httpx2.AsyncClient(
            transport=_bounded(), headers=headers, timeout=self._timeout_s, trust_env=False, follow_redirects=False
        )
        await stack.enter_async_context(http)
        return streamable_http_client(self._target, http_client=http)

    async def _drop(self, used: asyncio.Future[Client] | None) -> None:
        """Close the connection that failed, unless another has taken its place."""
        if used is not None and used is self._client:
            await self.close()

    async def close(self) -> None:
        holder, opened = self._holder, self._client
        self._client = self._holder = None
        self._ended.set()
        if opened is not None and not opened.done():
            opened.cancel()
        if holder is not None:
            _, late = await asyncio.wait([holder], timeout=_CLOSE_S)
            for task in late:
                task.cancel()


def _bounded() -> httpx2.AsyncHTTPTransport:
    """Return a transport that reads at most ``_MAX_BODY`` bytes of a reply."""
    import httpx2

    class _Body(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > _MAX_BODY:
                    raise httpx2.ReadError(f"the reply is longer than {_MAX_BODY} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class _Transport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            reply = await super().handle_async_request(request)
            assert isinstance(reply.stream, httpx2.AsyncByteStream)
            reply.stream = _Body(reply.stream)
            return reply

    return _Transport()


def _is_usable(tool: mcp_types.Tool) -> bool:
    return bool(_NAME.fullmatch(tool.name)) and len(json.dumps(tool.input_schema)) <= _MAX_SCHEMA


def _spec(tool: mcp_types.Tool) -> ToolSpec:
    only_reads = bool(tool.annotations and tool.annotations.read_only_hint)
    return ToolSpec(tool.name, inert_text((tool.description or "")[:_MAX_ABOUT]), tool.input_schema, only_reads)


def _cause(error: BaseException) -> str:
    """Return the kind of an error, of a group that of its first; its text may have a key or a question."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__
