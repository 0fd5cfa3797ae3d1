"""Choose the model to serve, and the options of its engine, from the settings."""

from __future__ import annotations

from models.catalog import EMBEDDED_NAME, ModelCard, ModelRequest, load_catalog
from models.engines.options import EngineOptions, LoraAdapter
from models.errors import ModelNotFound
from server.errors import ModelUnknown
from server.methods.base import METHOD_NAMES
from server.settings.model import ModelSettings
from server.settings.schema import Settings

_GIB = 1024**3


def find_cards(settings: Settings) -> list[ModelCard]:
    """Return the models that these settings can serve, the one that they name first."""
    model = settings.model
    if model.engine == "scripted":
        return [_scripted_card(model)]
    requests = [] if model.name in (None, EMBEDDED_NAME) else [_request(model)]
    return list(load_catalog(requests).values())


def choose_card(settings: Settings) -> ModelCard:
    """Return the one model of this process.

    Raises:
        ModelNotFound: no model is installed; the message says what to do.
    """
    cards = find_cards(settings)
    if not cards:
        raise ModelNotFound("the embedded model's files are not installed; name another one with --model")
    return cards[0]


def with_model(settings: Settings, name: str) -> tuple[Settings, str]:
    """Return settings that serve ``MODEL`` of ``MODEL[:METHOD]``, and the model name to request.

    Raises:
        ModelUnknown: an installed model is named with a method that does not exist.
        ModelNotFound: no such model is installed.
    """
    source, colon, method = name.rpartition(":")
    installed = {card.name for card in find_cards(settings)}
    if colon and source in installed and method not in METHOD_NAMES and name not in installed:
        raise ModelUnknown(f"{name}: there is no method {method!r}; methods: {', '.join(METHOD_NAMES)}", param="model")
    if not colon or method not in METHOD_NAMES:
        source, method = name, ""
    if source not in installed:
        model = settings.model.model_copy(update={"name": source})
        settings = settings.model_copy(update={"model": model})
        source = choose_card(settings).name
    return settings, f"{source}:{method}" if method else source


def engine_options(model: ModelSettings, device_reserve_bytes: int = 0) -> EngineOptions:
    return EngineOptions(
        dtype=model.dtype,
        device=model.device,
        max_model_len=model.max_model_len,
        max_num_seqs=model.max_num_seqs,
        kv_cache_bytes=None if model.kv_cache_gib is None else int(model.kv_cache_gib * _GIB),
        max_queue=model.max_queue,
        seed=model.seed,
        tool_call_parser=model.tool_call_parser,
        reasoning_parser=model.reasoning_parser,
        chat_template=model.chat_template,
        tensor_parallel_size=model.tensor_parallel_size,
        gpu_memory_utilization=model.gpu_memory_utilization,
        device_reserve_bytes=device_reserve_bytes,
        quantization=model.quantization,
        lora_adapters=tuple(LoraAdapter(name, path) for name, path in model.lora_folders.items()),
        max_lora_rank=model.max_lora_rank,
    )


def _request(model: ModelSettings) -> ModelRequest:
    return ModelRequest(
        source=model.name or "",
        served_name=model.served_name,
        revision=model.revision,
        prompt_form=model.prompt_form,
        allow_download=model.allow_download,
    )


def _scripted_card(model: ModelSettings) -> ModelCard:
    return ModelCard(
        name=model.served_name or "scripted",
        source=str(model.script),
        description="Writes what its script says; for tests and development",
        context_length=model.max_model_len or 32_768,
        prompt_form=model.prompt_form or "base",
        genegpt_mask="000000",
    )
