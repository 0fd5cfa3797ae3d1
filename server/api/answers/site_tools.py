"""Let the plain model use the site's own MCP servers: OpenAI's tool ``mcp``, of which the request names the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from server.errors import InvalidRequest, UnsupportedField

TOOL: Final = "mcp"
_FIELDS: Final = frozenset({"type", "server_label", "require_approval"})
_MAX_SERVERS: Final = 8
# Of the document of the API: a list of such tools alone.
TOOLS_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "maxItems": _MAX_SERVERS,
    "items": {
        "type": "object",
        "properties": {
            "type": {"const": TOOL},
            "server_label": {"type": "string", "description": "a name of mcp.servers"},
            "require_approval": {"const": "never"},
        },
        "required": ["type", "server_label"],
        "additionalProperties": False,
    },
}


def take_site_tools(body: object) -> tuple[object, tuple[str, ...]]:
    """Return the body without such tools, and the names of the servers, () where the request has none.

    Raises:
        InvalidRequest: a field of a tool is wrong; ``param`` names it.
    """
    tools = body.get("tools") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(tools, list) or not any(map(_is_tool, tools)):
        return body, ()
    if not all(map(_is_tool, tools)) or len(tools) > _MAX_SERVERS:
        raise UnsupportedField(
            f"tools: mcp is served without other tools, and with at most {_MAX_SERVERS} servers", param="tools"
        )
    if body.get("tool_choice") not in (None, "auto"):
        raise UnsupportedField("tool_choice: the model chooses among the tools of mcp", param="tool_choice")
    names = dict.fromkeys(_name_in(tool, f"tools[{place}]") for place, tool in enumerate(tools))
    return {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}, tuple(names)


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("type") == TOOL


def _name_in(tool: Mapping[str, Any], place: str) -> str:
    for name in tool:
        if name not in _FIELDS:
            raise InvalidRequest(
                f"{place}.{name[:40]}: not served; mcp.servers of the settings names the servers that may be used",
                param=f"{place}.{name[:40]}",
            )
    label = tool.get("server_label")
    if not isinstance(label, str) or not label:
        raise InvalidRequest(f"{place}.server_label: a name of mcp.servers", param=f"{place}.server_label")
    if tool.get("require_approval") not in (None, "never"):
        raise InvalidRequest(
            f"{place}.require_approval: only never, as calls are not held for approval",
            param=f"{place}.require_approval",
        )
    return label
