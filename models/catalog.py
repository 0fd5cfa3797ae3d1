"""Build the cards of the models that can be served, under their served names.

Loads no weights and opens no connection.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from models.card import FALLBACK_CONTEXT, ModelCard, PromptForm
from models.errors import ModelNotFound
from models.files import CARD_FILE, read_json, sha256_of
from models.gguf.conversion import SUFFIX, convert, facts_of, folder_for
from models.hub import fetched_folder
from models.verdicts import VerdictCalibration

_EMBEDDED = Path(__file__).parent / "embedded"
EMBEDDED_NAME = "arrowhead-tiny"
EMBEDDED_DIR = _EMBEDDED / EMBEDDED_NAME
SMALL_NAME = "arrowhead-small"
SMALL_DIR = _EMBEDDED / SMALL_NAME
# The adapters that ship with a model, by its name; its first one is loaded unless another is chosen.
SHIPPED_ADAPTERS: Final[Mapping[str, tuple[Path, ...]]] = {SMALL_NAME: (_EMBEDDED / f"{SMALL_NAME}-adapter",)}
# What is served where nothing is named, as far as it is installed; the first one is the default model.
SHIPPED: Final = (SMALL_NAME, EMBEDDED_NAME)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Words that say how a checkpoint was made are left out of the served name.
_NAME_NOISE = re.compile(r"-(instruct|chat|it|hf|bf16|fp16)(?=-|$)")
# As llama.cpp's files are named: MODEL.Q4_K_M.gguf.
_GGUF_NOISE = re.compile(r"([.-](i?q\d\w*|bf16|fp?16|fp?32))?\.gguf$")
_LLAMA = re.compile(r"^(?:meta-)?llama")
# What pickled weights are called.
PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
# As PEFT names them.
_ADAPTER_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")


def prepare(card: ModelCard) -> None:
    """Convert the weights, where that has not been done yet, and verify them; blocks for seconds to minutes.

    Raises:
        ModelNotFound: files are missing or damaged, or cannot be converted.
    """
    if card.gguf is not None:
        facts = {"licence": card.licence, "description": card.description}
        convert(card.gguf, Path(card.source), sha256=card.gguf_sha256, card=facts)
    verify_weights(card)


def verify_weights(card: ModelCard) -> None:
    """Compare the files named in ``weights_sha256`` and ``adapter_sha256`` with their digests.

    Raises:
        ModelNotFound: a file is missing or differs.
    """
    files = [(Path(card.source) / name, digest) for name, digest in card.weights_sha256.items()]
    if card.adapter is not None:
        files += [(card.adapter / name, digest) for name, digest in card.adapter_sha256.items()]
    for path, expected in files:
        if not path.is_file():
            raise ModelNotFound(f"{path} is missing")
        if (digest := sha256_of(path)) != expected:
            raise ModelNotFound(f"{path} is damaged: sha256 {digest}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Name a model from the settings, a directory or hub id, and how to serve it; None takes the value of the files.

    ``has_weights`` is false for a directory with config and tokenizer alone, whose weights are elsewhere.
    """

    source: str
    served_name: str | None = None
    revision: str | None = None
    prompt_form: PromptForm | None = None
    genegpt_mask: str | None = None
    allow_download: bool = False
    has_weights: bool = True


def load_catalog(
    requests: Sequence[ModelRequest] = (),
    *,
    embedded_dir: Path = EMBEDDED_DIR,
    converted_dir: Path | None = None,
    adapters: Mapping[str, Sequence[Path]] = SHIPPED_ADAPTERS,
) -> dict[str, ModelCard]:
    """Return cards by served name: those of the settings, then the models that ship with Arrowhead, the default first.

    A shipped model is listed only if its files are present, with the first of its ``adapters`` that is.
    ``converted_dir`` is where converted models lie; without it none that needs a conversion is listed.

    Raises:
        ModelNotFound: a path does not exist or holds no model, or two models have the same name.
    """
    cards: dict[str, ModelCard] = {}
    for request in requests:
        card = card_from_request(request, converted_dir)
        if card.name in cards:
            raise ModelNotFound(f"two models are called {card.name!r}; give one another served name")
        cards[card.name] = card
    small = None if converted_dir is None else _small_card(SMALL_DIR, converted_dir)
    tiny = _embedded_card(embedded_dir) if has_weights(embedded_dir) else None
    shipped = {card.name: _shipped(card, adapters) for card in (small, tiny) if card is not None}
    return cards | {name: shipped[name] for name in SHIPPED if name in shipped and name not in cards}


def card_from_request(request: ModelRequest, converted_dir: Path | None = None) -> ModelCard:
    """Build the card of a model that the settings name; a GGUF file is converted into ``converted_dir``.

    Raises:
        ModelNotFound: ``source`` is neither a model directory, a GGUF file nor a hub id.
    """
    path = Path(request.source).expanduser()
    is_hub_id = _HUB_ID.fullmatch(request.source) is not None
    if not path.is_dir() and converted_dir is not None:
        path = fetched_folder(request.source, request.revision, converted_dir) or path
    extras: dict[str, Any] = {}
    if path.suffix == SUFFIX and path.is_file() and converted_dir is not None:
        extras = _converted(path, converted_dir)
    elif path.is_dir():
        needed = "config.json, tokenizer.json and weights" if request.has_weights else "config.json and tokenizer.json"
        if request.has_weights:
            refuse_pickles(path)
        if not (has_weights(path) if request.has_weights else has_tokenizer(path)):
            raise ModelNotFound(f"{path} holds no model: it needs {needed}")
        stated = ("trained_for", "licence", "verdicts")
        extras = {"source": str(path), "context_length": context_length(path), **_stated(path, stated)}
    elif path.suffix == SUFFIX or not is_hub_id:
        raise ModelNotFound(f"{request.source} is neither a directory, a GGUF file nor a hub id (owner/name)")
    if request.genegpt_mask is not None:
        extras["genegpt_mask"] = request.genegpt_mask
    return ModelCard(
        name=request.served_name or derive_served_name(request.source),
        revision=request.revision,
        prompt_form=request.prompt_form,
        allow_download=request.allow_download,
        **{"source": request.source} | extras,
    )


def with_adapter(card: ModelCard, folder: Path) -> ModelCard:
    """Return the card of the model with a LoRA adapter; facts in the adapter's ``arrowhead.json`` replace the model's.

    Raises:
        ModelNotFound: the folder holds no adapter, or one that was trained over other weights.
    """
    if not has_adapter(folder):
        raise ModelNotFound(f"{folder} holds no LoRA adapter: it needs {' and '.join(_ADAPTER_FILES)}")
    facts = _facts(folder)
    base = facts.get("base_gguf_sha256")
    if base is not None and card.gguf_sha256 is not None and base != card.gguf_sha256:
        raise ModelNotFound(f"{folder}: the adapter was trained over other weights than those of {card.name}")
    described = {"description": f"{card.description or card.name}, with the adapter {folder.name}"}
    stated = _stated(folder, ("description", "trained_for", "genegpt_mask", "summaries", "context_tokens", "verdicts"))
    digests = facts.get("weights_sha256", {})
    return replace(card, adapter=folder, adapter_sha256=digests, **described | stated)


def has_adapter(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _ADAPTER_FILES)


def derive_served_name(source: str) -> str:
    """Derive the served name of a model: ``meta-llama/Llama-3.1-8B-Instruct`` is ``llama-3.1-8b``."""
    last = _GGUF_NOISE.sub("", source.rstrip("/").rsplit("/", 1)[-1].lower())
    name = _NAME_NOISE.sub("", _LLAMA.sub("llama", last))
    # A colon separates the model from the method in a request.
    return re.sub(r"[^a-z0-9._-]+", "-", name).strip("-.") or "model"


def has_tokenizer(directory: Path) -> bool:
    """Return whether a directory has what is needed of a model whose weights are loaded elsewhere."""
    return all((directory / name).is_file() for name in ("config.json", "tokenizer.json"))


def has_weights(directory: Path) -> bool:
    """Return whether a directory looks like a model that can be loaded."""
    return has_tokenizer(directory) and any(directory.glob("*.safetensors"))


def refuse_pickles(directory: Path) -> None:
    """Refuse a directory whose weights are only in formats that can run code when read, by the names of its files.

    Raises:
        ModelNotFound: it is one.
    """
    pickles = sorted(file.name for pattern in PICKLES for file in directory.glob(pattern))
    if pickles and not any(directory.glob("*.safetensors")):
        raise ModelNotFound(
            f"{directory} has its weights only as {', '.join(pickles[:3])}, a format that can run code when read: "
            "scripts/convert_weights.py makes model.safetensors of it once"
        )


def context_length(directory: Path) -> int:
    """Read the context length in tokens from a model's config.json."""
    config = read_json(directory / "config.json")
    value = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings")
    return int(value) if value else FALLBACK_CONTEXT


def vocabulary_size(source: str) -> int | None:
    """Return the number of ids in the config of a local model folder, None where there is none."""
    try:
        config = read_json(Path(source) / "config.json")
        return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
    except (ModelNotFound, KeyError, TypeError, ValueError):
        return None


def _small_card(directory: Path, converted_dir: Path) -> ModelCard | None:
    """Return the card of the model that a package carries, None where the package is not installed."""
    facts = read_json(directory / CARD_FILE)
    # Found, not imported: the package itself wants libraries that are not installed.
    package = importlib.util.find_spec(facts["package"])
    file = Path(package.origin or "").parent / facts["file"] if package is not None else None
    if file is None or not file.is_file():
        return None
    target = folder_for(file, converted_dir)
    return ModelCard(
        name=SMALL_NAME,
        source=str(target),
        gguf=file,
        gguf_sha256=facts["gguf_sha256"],
        weights_sha256=_digests(target),
        licence=facts["licence"],
        description=facts["description"],
        context_length=facts["context_length"],
        context_tokens=facts["context_tokens"],
        **_stated(directory, ("trained_for",)),
    )


def _shipped(card: ModelCard, adapters: Mapping[str, Sequence[Path]]) -> ModelCard:
    # One whose training does not yet suffice for any method would change the plain model's answers and help no other.
    present = (folder for folder in adapters.get(card.name, ()) if has_adapter(folder) and _suffices(folder))
    folder = next(present, None)
    return card if folder is None else with_adapter(card, folder)


def _suffices(adapter: Path) -> bool:
    """Return whether a model writes answers of any method with the adapter, as far as its files say."""
    return _facts(adapter).get("trained_for") != []


def _converted(file: Path, converted_dir: Path) -> dict[str, Any]:
    """Return the fields of the card of a GGUF file; the file is read for them until it has been converted."""
    target = folder_for(file, converted_dir)
    fields: dict[str, Any] = {"source": str(target), "gguf": file, "weights_sha256": _digests(target)}
    if target.is_dir():
        return fields | {"context_length": context_length(target), **_stated(target, ("licence",))}
    facts = facts_of(file)
    return fields | {"context_length": facts.context_length, "licence": facts.licence}


def _digests(converted: Path) -> dict[str, str]:
    """Return the digests of a folder's weights as they were written, {} for a folder that is still to be written."""
    return dict(read_json(converted / CARD_FILE)["weights_sha256"]) if converted.is_dir() else {}


def _embedded_card(directory: Path) -> ModelCard:
    usual: dict[str, Any] = {
        "licence": "same as Arrowhead",
        "description": "Small Llama that ships with Arrowhead: it writes NCBI calls and reads the replies",
        "genegpt_mask": "000000",
        "summaries": "lead",
    }
    stated = ("licence", "description", "genegpt_mask", "summaries", "trained_for", "dtype", "weights_sha256")
    return ModelCard(
        name=EMBEDDED_NAME,
        source=str(directory),
        context_length=context_length(directory),
        prompt_form="base",
        **usual | _stated(directory, stated),
    )


def _facts(directory: Path) -> dict[str, Any]:
    """Return what a folder's own ``arrowhead.json`` says, {} without one."""
    file = directory / CARD_FILE
    return read_json(file) if file.is_file() else {}


def _stated(directory: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return those of the fields of a card that the folder's ``arrowhead.json`` states.

    Raises:
        ModelNotFound: one has a value of another form.
    """
    facts = _facts(directory)
    stated = {name: facts[name] for name in names if name in facts}
    for name in _READERS.keys() & stated.keys():
        try:
            stated[name] = _READERS[name](stated[name])
        except ValueError as error:
            raise ModelNotFound(f"{directory / CARD_FILE}: {name} is {error}") from error
    return stated


def _names(value: Any) -> tuple[str, ...] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError("a list of names of methods")
    return None if value is None else tuple(value)


def _verdicts(value: Any) -> VerdictCalibration | None:
    return None if value is None else VerdictCalibration.from_json(value)


# Each raises ValueError with the form that a value needs.
_READERS: Final[Mapping[str, Callable[[Any], object]]] = {"trained_for": _names, "verdicts": _verdicts}
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
