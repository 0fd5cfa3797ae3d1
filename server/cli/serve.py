"""Implement ``arrowhead serve``: serve the OpenAI API."""

from __future__ import annotations

from server.cli.options import GivenSettings, with_setting_flags


@with_setting_flags()
def serve(cli_settings: GivenSettings) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.run import run_server

    setup_logging(settings.log)
    return run_server(settings)
