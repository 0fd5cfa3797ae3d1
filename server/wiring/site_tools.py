"""Build the clients of the site's own MCP servers."""

from __future__ import annotations

from typing import Final

from server.egress.router import Egress
from server.evidence.site_tools.client import McpToolServer
from server.evidence.site_tools.look_ups import SiteServer, SiteTools
from server.settings.mcp import McpSettings
from server.settings.server import is_loopback

# One call of a tool, with the connection that it may need.
_CALL_S: Final = 20.0


def site_tools(settings: McpSettings, egress: Egress) -> SiteTools | None:
    """Return the tools of the servers that the settings name, None where they name none; nothing is opened yet."""
    if not settings.servers:
        return None
    return SiteTools([_server(name, target, settings) for name, target in settings.targets.items()], egress)


def _server(name: str, target: str, settings: McpSettings) -> SiteServer:
    host = settings.hosts.get(name, "")
    allowed = frozenset(tool.partition("/")[2] for tool in settings.tools if tool.startswith(f"{name}/"))
    client = McpToolServer(target, _CALL_S, settings.keys.get(name, ""))
    return SiteServer(name, client, "" if not host or is_loopback(host) else host, allowed if settings.tools else None)
