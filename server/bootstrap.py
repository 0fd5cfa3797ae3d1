"""Build the services; the only place where concrete engines, clients and methods meet.

Loads no weights itself.
"""

from __future__ import annotations

import logging
from pathlib import Path

from models.catalog import EMBEDDED_NAME, ModelCard, ModelRequest, load_catalog
from models.decoding.types import LoopLimits
from models.engines.base import Engine, ServesOpenAi
from models.engines.options import EngineOptions
from models.engines.registry import create_engine
from models.errors import ModelNotFound
from retrieval.observing import Parts
from server.engine_slot import EngineSlot
from server.graph_service import build_graph_service
from server.keyring import Keyring, open_keyring
from server.memory_plan import check_memory
from server.methods.base import Method
from server.methods.cautioned import Cautioned
from server.methods.direct import Direct
from server.methods.genegpt import GeneGpt
from server.methods.i_medrag import IMedRag
from server.methods.kg_rag import KgRag
from server.methods.medrag import MedRag
from server.ncbi_access import NcbiAccess
from server.ncbi_setup import Ncbi, build_ncbi
from server.observed import ObservedEngine, ObservedServingEngine
from server.observing_setup import Observing, build_observing
from server.passage_service import PassageService
from server.restarts import Restarts
from server.retrieval_setup import build_retrieval
from server.services import DIRECT, Components, Services
from server.settings import ModelSettings, Settings
from server.settings_loading import xdg_dir
from server.traces import TraceStore

log = logging.getLogger(__name__)
METHOD_NAMES = (GeneGpt.name, KgRag.name, MedRag.name, IMedRag.name)
_GIB = 1024**3


def build_services(settings: Settings, keyring: Keyring | None = None) -> Services:
    """Build all services except the weights, which ``Services.start`` loads.

    ``keyring`` None opens the one that the settings name.

    Raises:
        ModelNotFound: there is no model to serve.
        GatewayError and its subclasses: the built-in gateway's store cannot be made.
        AuditFailed: the audit log cannot be written.
        KeyStoreError: the file of keys cannot be read.
        EncoderUnknown: the settings do not name the graph's encoder.
    """
    card = choose_card(settings)
    model = settings.model
    observing = build_observing(settings.tracing)
    restarts = Restarts(tries=model.restarts, window_s=model.restart_window_s)
    slot = EngineSlot(card, lambda: _engine(model, card, observing), restarts)
    slot.when_loaded(_build_layer)
    keyring = keyring or open_keyring(settings)
    ncbi = build_ncbi(settings, keyring, observing.observer)
    observing.send_through(ncbi.sender)
    genegpt = _genegpt(settings, slot, ncbi, observing.observer)
    retrieval = build_retrieval(settings.retrieval, namespaces_dir(settings), observing.observer)
    for line in check_memory(settings, retrieval):
        log.info("memory of the card: %s", line)
    graph = build_graph_service(settings, retrieval.encoders, ncbi, observing.observer)
    kg_rag = KgRag(slot, graph, graph, settings.loop.max_answer_tokens)
    passages = PassageService(retrieval, settings.retrieval)
    medrag = MedRag(slot, passages, settings.loop.max_answer_tokens)
    i_medrag = IMedRag(slot, passages, settings.loop.max_answer_tokens, observing.observer)
    slot.when_loaded(i_medrag.warm_up)
    methods: dict[str, Method] = {DIRECT: Direct(slot)}
    for method in (genegpt, kg_rag, medrag, i_medrag):
        methods[method.name] = _for_model(method, card)
    traces = TraceStore(
        max_traces=settings.traces.max_traces, max_bytes=settings.traces.max_bytes, folder=settings.traces.dir
    )
    ncbi.begin()
    return Services(
        Components(
            settings=settings,
            slot=slot,
            methods=methods,
            traces=traces,
            retrieval=retrieval,
            egress=ncbi.egress,
            keyring=keyring,
            closers=(*ncbi.closers, *observing.closers, retrieval.close, passages.close, graph.close),
            observing=observing,
        )
    )


def _engine(model: ModelSettings, card: ModelCard, observing: Observing) -> Engine:
    engine = create_engine(model.engine, card, engine_options(model))
    if observing.spans is None:
        return engine
    kind = ObservedServingEngine if isinstance(engine, ServesOpenAi) else ObservedEngine
    return kind(engine, observing.observer)


def _for_model(method: Method, card: ModelCard) -> Method:
    return Cautioned(method, card.name) if card.trained_for and method.name not in card.trained_for else method


def _genegpt(settings: Settings, slot: EngineSlot, ncbi: Ncbi, parts: Parts) -> GeneGpt:
    limits = LoopLimits(
        max_calls=settings.loop.max_calls,
        max_reply_tokens=settings.loop.max_reply_tokens,
        call_timeout_s=settings.loop.call_timeout_s,
        total_timeout_s=settings.loop.total_timeout_s,
    )
    access = NcbiAccess(ncbi.egress, settings.ncbi.max_reply_chars, parts)
    genegpt = GeneGpt(slot, access, limits, settings.loop.max_answer_tokens)
    slot.when_loaded(genegpt.warm_up)
    return genegpt


async def _build_layer(engine: Engine) -> None:
    """Build the engine's OpenAI layer early, so that the first passthrough request does not wait for it."""
    if isinstance(engine, ServesOpenAi):
        await engine.openai_layer()


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
    """Return settings that serve ``MODEL`` of ``MODEL[:METHOD]``, and the model name to request."""
    source, colon, method = name.rpartition(":")
    if not colon or method not in METHOD_NAMES:
        source, method = name, ""
    if source not in {card.name for card in find_cards(settings)}:
        model = settings.model.model_copy(update={"name": source})
        settings = settings.model_copy(update={"model": model})
        source = choose_card(settings).name
    return settings, f"{source}:{method}" if method else source


def engine_options(model: ModelSettings) -> EngineOptions:
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
    )


def namespaces_dir(settings: Settings) -> Path:
    return settings.retrieval.data_dir or xdg_dir("data") / "namespaces"


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
