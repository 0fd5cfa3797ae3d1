"""Implement ``arrowhead models``: list what can be served, fetch a model from a hub, check a folder's files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import CommandLineSettings, ConfigFile, verbs, with_setting_flags

if TYPE_CHECKING:
    from models.hub import HubModel
    from server.settings.schema import Settings

app = verbs("models: list, fetch, check")


@with_setting_flags(("--model", "--served-name", "--adapter"))
def _listed(cli_settings: CommandLineSettings, context: typer.Context) -> int:
    """List the models and methods that can be served, with how their answers are made."""
    return 0 if context.invoked_subcommand else list_models(cli_settings.load())


app.callback(invoke_without_command=True)(_listed)


def list_models(settings: Settings) -> int:
    from server.methods.base import METHOD_NAMES
    from server.methods.shared.synthesis import served_syntheses
    from server.wiring.models import choose_card, find_cards

    cards = find_cards(settings)
    # The first one is served, with the adapter that the settings choose.
    cards = [choose_card(settings), *cards[1:]] if cards else cards
    for card in cards:
        facts = f"{card.prompt_form or 'form by its tokenizer'}, {card.context_length} tokens, {card.licence}"
        print(f"{card.name}\t{facts}\t{card.description or card.source}")
        for method in METHOD_NAMES:
            print(f"{card.name}:{method}\t{', '.join(served_syntheses(method, card)) or 'not served'}")
    if not cards:
        print("no model is installed: name one with --model, or install the embedded model's files", file=sys.stderr)
    return 0 if cards else 1


@app.command(help="fetch a model from the hub, at a fixed commit and with checksums")
def pull(
    source: Annotated[str, typer.Argument(metavar="OWNER/NAME")],
    revision: Annotated[str | None, typer.Option(help="commit, tag or branch; default: main as it is now")] = None,
    allow_download: Annotated[
        bool, typer.Option("--allow-download", help="let this one command reach the hub (model.allow_download)")
    ] = False,
    config: ConfigFile = None,
) -> int:
    from models.hub import fetch, look_up
    from server.settings.loading import load_settings, models_dir
    from server.wiring.models import hub_log, refuse_unless_allowed

    settings = load_settings(None, config)
    refuse_unless_allowed(settings, allow_download)
    with hub_log(settings, source):
        model = look_up(source, revision, settings.model.hub_url)
        _show(model, revision)
        folder = fetch(model, models_dir(settings), settings.model.hub_url)
    print(f"{folder}\nserve it: arrowhead serve --model {source} --engine auto")
    return 0


@app.command(help="compare the files of a fetched folder, or of a copy, with its SHA256SUMS")
def verify(folder: Annotated[Path, typer.Argument(metavar="FOLDER")]) -> int:
    from models.hub import verify as verified

    print(f"{verified(folder)} files are as they were published")
    return 0


def _show(model: HubModel, revision: str | None) -> None:
    """Print what will be fetched before any of it is."""
    print(f"{model.source}\tcommit {model.commit}\t{len(model.files)} files, {model.size / 1e9:.2f} GB")
    print(f"licence: {model.licence}{' (its terms must be accepted at the hub)' if model.gated else ''}", flush=True)
    if revision is None:
        print("no --revision was given: this is what main is now", file=sys.stderr)
