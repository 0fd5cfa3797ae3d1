"""Implement ``arrowhead egress``: serve an institution's way out, prove that nothing leaves, check such a statement."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from models.files import parse_json
from server.cli.options import CommandLineSettings, verbs, with_setting_flags

app = verbs("what leaves this machine: the service of an institution, and statements that nothing does")


@app.command("serve", help="send the calls of all servers to NCBI: one rate, one cache, one audit log")
@with_setting_flags({"--audit-log", "--email", "--log-level", "--log-format"})
def serve(cli_settings: CommandLineSettings) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.egress_service import run_egress_service

    setup_logging(settings.log)
    return run_egress_service(settings)


@app.command("prove", help="ask every method of a server that is watched, and sign what left this machine")
@with_setting_flags()
def prove(
    cli_settings: CommandLineSettings,
    out: Annotated[Path, typer.Option(metavar="FILE", help="the statement")] = Path("egress-proof.json"),
) -> int:
    settings = cli_settings.load()
    from server.serving.egress_proof import NOTHING
    from server.serving.egress_proof import prove as proven
    from server.settings.loading import graphs_dir, models_dir, variable_name, xdg_dir

    environment = {
        variable_name(group, field): value
        for group, fields in cli_settings.flags.items()
        for field, value in fields.items()
    }
    environment |= {"ARROWHEAD_CONFIG": str(cli_settings.config.resolve())} if cli_settings.config else {}
    environment |= {
        "ARROWHEAD_MODEL__DATA_DIR": str(models_dir(settings)),
        "ARROWHEAD_GRAPH__DATA_DIR": str(graphs_dir(settings)),
        "ARROWHEAD_EGRESS__MODE": settings.egress.mode,
    }
    statement = proven(environment, xdg_dir("state") / "egress-proof.key")
    out.write_text(json.dumps(statement, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _show(statement)
    print(f"statement: {out}")
    return 0 if statement["verdict"] == NOTHING else 1


@app.command("check", help="check that a statement is as it was signed")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    key: Annotated[str | None, typer.Option(metavar="BASE64", help="public key that must have signed it")] = None,
) -> int:
    from server.serving.egress_proof import check as checked
    from server.serving.egress_proof import proof_failed

    try:
        statement = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise proof_failed(f"{file}: {error}") from None
    checked(statement, key)
    _show(statement)
    if not key:
        print("the signature fits the key in the statement; --key KEY checks whose it is", file=sys.stderr)
    return 0


def _show(statement: dict[str, Any]) -> None:
    for asked in statement["asked"]:
        print(f"{asked['model']:<32} {asked['outcome']:<14} {asked['seconds']:>7.2f} s")
    for contact in statement["left"]:
        print(f"left: {contact['kind']} {contact['host']} {contact['port']}")
    print(f"{statement['verdict']}: egress {statement['egress']}, {statement['made']}, key {statement['public_key']}")
