"""Implement ``arrowhead egress``: the service that sends the calls of all servers to NCBI."""

from __future__ import annotations

from server.cli.options import GivenSettings, verbs, with_setting_flags

app = verbs("the egress service of an institution")


@app.command("serve", help="send the calls of all servers to NCBI: one rate, one cache, one audit log")
@with_setting_flags({"--audit-log", "--email", "--log-level", "--log-format"})
def serve(cli_settings: GivenSettings) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.egress_service import run_egress_service

    setup_logging(settings.log)
    return run_egress_service(settings)
