"""Build the cards of the models that can be served, under their served names.

Loads no weights and opens no connection.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from models.errors import ModelNotFound
from models.types import Dtype

PromptForm = Literal["base", "chat"]
Summaries = Literal["lead", "full"]
EMBEDDED_NAME = "arrowhead-tiny"
EMBEDDED_DIR = Path(__file__).parent / "embedded" / EMBEDDED_NAME
# Facts about a model that config.json has no field for.
_CARD_FILE = "arrowhead.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MASK = re.compile(r"full|slim|[01]{6}")
# Words that say how a checkpoint was made are left out of the served name.
_NAME_NOISE = re.compile(r"-(instruct|chat|it|hf|bf16|fp16)(?=-|$)")
_LLAMA = re.compile(r"^(?:meta-)?llama")
_FALLBACK_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Describe one model that can be served.

    ``source`` is a local directory or a hub id (``owner/name``). ``weights_sha256`` maps file name to hex digest; an
    empty map disables the check. ``prompt_form`` says whether methods write plain text or use the chat template; with
    None they use it where the loaded tokenizer has one.
    ``genegpt_mask`` is the default choice of GeneGPT's prompt parts: ``full``, ``slim`` or six digits 0/1 in the order
    Dc.1, Dc.2, Dm.1-Dm.4. ``summaries`` is the default of GeneGPT's option of that name: ``full``, or ``lead`` for a
    model whose context is too short to use more than a first sentence. ``trained_for`` names the methods of a model
    that was trained for these alone; () for a general model. ``dtype`` applies where the options leave the choice open,
    for a model whose accuracy depends on it. ``allow_download`` lets an engine fetch a hub id; otherwise only local
    files are used.
    """

    name: str
    source: str
    revision: str | None = None
    weights_sha256: Mapping[str, str] = field(default_factory=dict, hash=False)
    licence: str = "unknown"
    description: str = ""
    context_length: int = _FALLBACK_CONTEXT
    prompt_form: PromptForm | None = None
    genegpt_mask: str = "slim"
    summaries: Summaries = "full"
    trained_for: tuple[str, ...] = ()
    dtype: Dtype = "auto"
    allow_download: bool = False

    def __post_init__(self) -> None:
        if not _MASK.fullmatch(self.genegpt_mask):
            raise ValueError(f"genegpt_mask is full, slim or six digits 0/1, not {self.genegpt_mask!r}")
        if self.context_length < 2:
            raise ValueError(f"context_length must be at least 2, not {self.context_length}")

    def writes(self, method: str) -> bool:
        """Return whether the model can write answers of the method."""
        return not self.trained_for or method in self.trained_for

    @property
    def is_local(self) -> bool:
        return Path(self.source).is_dir()

    def dtype_for(self, requested: Dtype) -> Dtype:
        """Return ``requested``, or the model's own dtype if ``requested`` is ``auto``."""
        return self.dtype if requested == "auto" else requested

    def verify_weights(self) -> None:
        """Compare the files named in ``weights_sha256`` with their digests.

        Raises:
            ModelNotFound: a file is missing or differs.
        """
        for name, expected in self.weights_sha256.items():
            path = Path(self.source) / name
            if not path.is_file():
                raise ModelNotFound(f"{path} is missing")
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected:
                raise ModelNotFound(f"{path} is damaged: sha256 {found}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Name a model from the settings, a directory or hub id, and how to serve it; None takes the value of the files."""

    source: str
    served_name: str | None = None
    revision: str | None = None
    prompt_form: PromptForm | None = None
    genegpt_mask: str | None = None
    allow_download: bool = False


def load_catalog(requests: Sequence[ModelRequest] = (), *, embedded_dir: Path = EMBEDDED_DIR) -> dict[str, ModelCard]:
    """Return cards by served name, those of the settings first, the embedded model only if its files are present.

    Raises:
        ModelNotFound: a path does not exist or holds no model, or two models have the same name.
    """
    cards: dict[str, ModelCard] = {}
    for request in requests:
        card = card_from_request(request)
        if card.name in cards:
            raise ModelNotFound(f"two models are called {card.name!r}; give one another served name")
        cards[card.name] = card
    if has_weights(embedded_dir):
        cards.setdefault(EMBEDDED_NAME, _embedded_card(embedded_dir))
    return cards


def card_from_request(request: ModelRequest) -> ModelCard:
    """Build the card of a model that the settings name.

    Raises:
        ModelNotFound: ``source`` is neither a model directory nor a hub id.
    """
    directory = Path(request.source).expanduser()
    is_hub_id = _HUB_ID.fullmatch(request.source) is not None
    if not directory.is_dir() and not is_hub_id:
        raise ModelNotFound(f"{request.source} is neither a directory nor a hub id (owner/name)")
    if directory.is_dir() and not has_weights(directory):
        raise ModelNotFound(f"{directory} holds no model: it needs config.json, tokenizer.json and weights")
    extras: dict[str, Any] = {}
    if directory.is_dir():
        extras["context_length"] = context_length(directory)
        extras["trained_for"] = _trained_for(directory)
    if request.genegpt_mask is not None:
        extras["genegpt_mask"] = request.genegpt_mask
    return ModelCard(
        name=request.served_name or derive_served_name(request.source),
        source=str(directory) if directory.is_dir() else request.source,
        revision=request.revision,
        prompt_form=request.prompt_form,
        allow_download=request.allow_download,
        **extras,
    )


def derive_served_name(source: str) -> str:
    """Derive the served name of a model: ``meta-llama/Llama-3.1-8B-Instruct`` is ``llama-3.1-8b``."""
    last = source.rstrip("/").rsplit("/", 1)[-1].lower()
    name = _NAME_NOISE.sub("", _LLAMA.sub("llama", last))
    # A colon separates the model from the method in a request.
    return re.sub(r"[^a-z0-9._-]+", "-", name).strip("-.") or "model"


def has_weights(directory: Path) -> bool:
    """Return whether a directory looks like a model that can be loaded."""
    needed = ("config.json", "tokenizer.json")
    has_parts = all((directory / name).is_file() for name in needed)
    return has_parts and any(any(directory.glob(pattern)) for pattern in ("*.safetensors", "*.bin"))


def context_length(directory: Path) -> int:
    """Read the context length in tokens from a model's config.json."""
    config = _read_json(directory / "config.json")
    value = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
    return int(value) if value else _FALLBACK_CONTEXT


def _embedded_card(directory: Path) -> ModelCard:
    facts = _read_json(directory / _CARD_FILE) if (directory / _CARD_FILE).is_file() else {}
    return ModelCard(
        name=EMBEDDED_NAME,
        source=str(directory),
        weights_sha256=facts.get("weights_sha256", {}),
        licence=facts.get("licence", "same as Arrowhead"),
        description=facts.get(
            "description", "Small Llama that ships with Arrowhead: it writes NCBI calls and reads the replies"
        ),
        context_length=context_length(directory),
        prompt_form="base",
        genegpt_mask=facts.get("genegpt_mask", "000000"),
        summaries=facts.get("summaries", "lead"),
        trained_for=_trained_for(directory),
        dtype=facts.get("dtype", "auto"),
    )


def _trained_for(directory: Path) -> tuple[str, ...]:
    """Return the methods that a model's own ``arrowhead.json`` names, () where it has none: a general model."""
    file = directory / _CARD_FILE
    named = _read_json(file).get("trained_for", []) if file.is_file() else []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ModelNotFound(f"{file}: trained_for is a list of names of methods")
    return tuple(named)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"{path} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise ModelNotFound(f"{path} is not a JSON object")
    return loaded


_SWITCHES: Final = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")


def disable_hub_access() -> None:
    """Disable the hub's network access for the rest of this process and for its children.

    ``local_files_only`` is not enough: the library asks its server about the caller's environment before it looks into
    its cache. It reads its switches once, at import, so they are also set in modules that are already imported.
    """
    os.environ.update(dict.fromkeys((*_SWITCHES, "TRANSFORMERS_OFFLINE"), "1"))
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        for switch in _SWITCHES:
            setattr(constants, switch, True)
