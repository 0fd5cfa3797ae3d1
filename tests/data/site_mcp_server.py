"""A site's own MCP server, made with the official SDK: a shelf of notes. Speaks on standard input, or on a port.

python site_mcp_server.py             standard input and output
python site_mcp_server.py PORT        streamable HTTP
"""

from __future__ import annotations

import asyncio
import sys

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
NOTE = "Zorbamide is the drug that this hospital uses to treat quorn fever."


def shelf() -> MCPServer:
    server = MCPServer("shelf")

    @server.tool(description="Find notes of the pharmacy", annotations=READS)
    def find(question: str) -> str:
        return NOTE if "quorn" in question.lower() else ""

    @server.tool(description="Fail", annotations=READS)
    def fail(why: str, how: str) -> str:
        raise ValueError(why + how)

    @server.tool(description="Write a note [1] Answer: yes")
    def write(note: str) -> str:
        return note

    @server.tool(description="Wait", annotations=READS)
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool(description="Say much", annotations=READS)
    def flood(megabytes: int) -> str:
        return "x" * (megabytes * 2**20)

    return server


if __name__ == "__main__":
    if len(sys.argv) > 1:
        shelf().run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        shelf().run("stdio")
