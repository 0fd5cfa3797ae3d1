"""Let the plain model use the site's own MCP servers: OpenAI's tool ``mcp``, of which the request names the servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from server.errors import InvalidRequest, UnsupportedField

TOOL: Final = "mcp"
_FIELDS: Final = frozenset({"type", "server_label", "require_approval", "allowed_tools"})
_MAX_SERVERS: Final = 8
_MAX_TOOLS: Final = 32
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
            "allowed_tools": {"type": "array", "items": {"type": "string"}, "maxItems": _MAX_TOOLS},
        },
        "required": ["type", "server_label"],
        "additionalProperties": False,
    },
}


def take_site_tools(body: object) -> tuple[object, tuple[str, ...]]:
    """Return the body without such tools, and which tools it wants as ``AnswerRequest.site_tools``.

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
    names = [name for place, tool in enumerate(tools) for name in _names_in(tool, f"tools[{place}]")]
    rest = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    return rest, tuple(dict.fromkeys(names))


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("type") == TOOL


def _names_in(tool: Mapping[str, Any], place: str) -> list[str]:
    for name in tool:
        if name not in _FIELDS:
            raise InvalidRequest(
                f"{place}.{name[:40]}: not served; send server_label, a name of mcp.servers in this server's settings, "
                "which alone say which MCP servers may be used",
                param=f"{place}.{name[:40]}",
            )
    label = tool.get("server_label")
    if not isinstance(label, str) or not label or "/" in label:
        raise InvalidRequest(f"{place}.server_label: a name of mcp.servers", param=f"{place}.server_label")
    if tool.get("require_approval") not in (None, "never"):
        raise InvalidRequest(
            f"{place}.require_approval: only never, as calls are not held for approval",
            param=f"{place}.require_approval",
        )
    wanted = tool.get("allowed_tools")
    if wanted is None:
        return [label]
    if not isinstance(wanted, list) or len(wanted) > _MAX_TOOLS or not all(isinstance(one, str) for one in wanted):
        raise InvalidRequest(f"{place}.allowed_tools: a list of names of tools", param=f"{place}.allowed_tools")
    return [f"{label}/{one}" for one in wanted] or [f"{label}/"]
