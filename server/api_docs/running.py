"""What the document has to know of the server that it describes."""

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
    """``needs_key``: a request without one is refused. ``vocabulary``: tokens of the served model, None while it is
    not loaded. ``has_turns``: it takes chats by a template. ``layer_model``: its name where the engine has an OpenAI
    layer of its own, "" where it has none or is not loaded. ``model`` and ``encoder``: names for examples."""

    version: str
    needs_key: bool
    max_choices: int = 8
    vocabulary: int | None = None
    has_turns: bool = True
    layer_model: str = ""
    model: str = "model"
    encoder: str = "encoder"

    def is_passed_on(self, path: str) -> bool:
        """Whether requests for the plain model go to the engine's layer, where it has such a route."""
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
