"""Let the plain model use the site's own MCP servers: OpenAI's tool ``mcp``, of which the request names the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from server.api.http_io import Body, parse_body
from server.errors import UNSUPPORTED_FIELD, RequestError

TOOL: Final = "mcp"
_MAX_SERVERS: Final = 8
_MAX_TOOLS: Final = 32


class McpTool(Body):
    """Let the model call tools of a server that the settings name."""

    type: Literal["mcp"]
    server_label: str = Field(pattern="^[^/]+$", description="a name of mcp.servers")
    require_approval: Literal["never"] | None = None
    allowed_tools: Annotated[list[str], Field(max_length=_MAX_TOOLS)] | None = None

    @property
    def names(self) -> list[str]:
        """Return what ``AnswerRequest.site_tools`` calls its tools."""
        if self.allowed_tools is None:
            return [self.server_label]
        return [f"{self.server_label}/{one}" for one in self.allowed_tools or ("",)]


def tools_schema() -> dict[str, Any]:
    """Return the schema of a list of such tools alone, for the document of the API."""
    return {"type": "array", "minItems": 1, "maxItems": _MAX_SERVERS, "items": McpTool.model_json_schema()}


def take_site_tools(body: object) -> tuple[object, tuple[str, ...]]:
    """Return the body without such tools, and which tools it wants as ``AnswerRequest.site_tools``.

    Raises:
        RequestError: a field of a tool is wrong; ``param`` names it.
    """
    tools = body.get("tools") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(tools, list) or not any(map(_is_tool, tools)):
        return body, ()
    if not all(map(_is_tool, tools)) or len(tools) > _MAX_SERVERS:
        raise RequestError(
            f"tools: mcp is served without other tools, and with at most {_MAX_SERVERS} servers",
            UNSUPPORTED_FIELD,
            param="tools",
        )
    if body.get("tool_choice") not in (None, "auto"):
        raise RequestError(
            "tool_choice: the model chooses among the tools of mcp", UNSUPPORTED_FIELD, param="tool_choice"
        )
    names = [name for place, tool in enumerate(tools) for name in _names_in(tool, f"tools[{place}]")]
    rest = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    return rest, tuple(dict.fromkeys(names))


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("type") == TOOL


def _names_in(tool: Mapping[str, Any], place: str) -> list[str]:
    for name in tool.keys() - McpTool.model_fields:
        raise RequestError(
            f"{place}.{name[:40]}: not served; send server_label, a name of mcp.servers in this server's settings, "
            "which alone say which MCP servers may be used",
            param=f"{place}.{name[:40]}",
        )
    return parse_body(McpTool, tool, place).names
