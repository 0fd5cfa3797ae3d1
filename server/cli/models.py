"""Implement ``arrowhead models``: list the models and methods that can be served."""

from __future__ import annotations

import sys

from server.cli.options import GivenSettings, with_setting_flags


@with_setting_flags(("--model", "--served-name"))
def list_models(cli_settings: GivenSettings) -> int:
    settings = cli_settings.load()
    from server.methods.base import METHOD_NAMES
    from server.wiring.models import find_cards

    cards = find_cards(settings)
    for card in cards:
        facts = f"{card.prompt_form or 'form by its tokenizer'}, {card.context_length} tokens, {card.licence}"
        print(f"{card.name}\t{facts}\t{card.description or card.source}")
        for method in METHOD_NAMES:
            print(f"{card.name}:{method}")
    if not cards:
        print("no model is installed: name one with --model, or install the embedded model's files", file=sys.stderr)
    return 0 if cards else 1
