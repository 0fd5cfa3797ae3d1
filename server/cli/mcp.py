"""Implement ``arrowhead mcp``: the tools of MCP on standard input and output, for agents that start their servers."""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.options import CommandLineSettings, with_setting_flags


@with_setting_flags()
def mcp(
    cli_settings: CommandLineSettings,
    url: Annotated[
        str | None, typer.Option(help="pass everything on to the server at this address instead of starting one here")
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="ARROWHEAD_API_KEY", help="API key of that server")] = None,
) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.mcp_stdio import run_stdio

    setup_logging(settings.log)
    return run_stdio(settings, url, key)
