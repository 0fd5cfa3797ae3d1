"""Collect the facts about the running server that the OpenAPI document depends on."""

from __future__ import annotations

from dataclasses import dataclass

from models.engines.base import ServesOpenAi
from models.errors import ArrowheadError
from server.methods.direct import uses_chat_template
from server.openai_api.plain_layer import NEED_TEMPLATE
from server.services import Services
from server.version import installed_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Hold the facts about the running server that the OpenAPI document depends on.

    - ``needs_key``: requests without a key are refused.
    - ``vocabulary``: number of tokens of the served model, None while the model is not loaded.
    - ``has_turns``: the model formats chats with a template.
    - ``layer_model``: name of the model that the engine's own OpenAI layer serves, "" where there is no layer or the
      engine is not loaded.
    - ``model`` and ``encoder``: names used in examples.
    """

    version: str
    needs_key: bool
    max_choices: int = 8
    vocabulary: int | None = None
    has_turns: bool = True
    layer_model: str = ""
    model: str = "model"
    encoder: str = "encoder"

    def is_passed_on(self, path: str) -> bool:
        """Return whether the engine's layer answers plain-model requests for ``path``, provided it has such a route."""
        return bool(self.layer_model) and (self.has_turns or path not in NEED_TEMPLATE)


def running_of(services: Services) -> Running:
    card, vocabulary, layer, has_turns = services.slot.card, None, "", services.slot.card.prompt_form == "chat"
    try:
        engine = services.slot.get()
    except ArrowheadError:
        pass
    else:
        vocabulary, has_turns = engine.tokenizer.vocab_size, uses_chat_template(engine, card)
        layer = card.name if isinstance(engine, ServesOpenAi) else ""
    return Running(
        version=installed_version(),
        needs_key=services.keyring.is_guarded,
        max_choices=services.settings.server.max_n,
        vocabulary=vocabulary,
        has_turns=has_turns,
        layer_model=layer,
        model=card.name,
        encoder=services.settings.retrieval.encoder_names[0],
    )
