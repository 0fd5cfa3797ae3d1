"""Build the services; the only place where concrete engines, clients and methods meet.

Loads no weights itself.
"""

from __future__ import annotations

import logging

from models.catalog import ModelCard
from models.decoding.types import LoopLimits
from models.engines.base import Engine, ServesOpenAi
from models.engines.registry import create_engine
from retrieval.observing import Parts
from server.auth.api_keys import Keyring, open_keyring
from server.engine.lifecycle import EngineSlot, Restarts
from server.evidence.ncbi_calls import NcbiAccess
from server.evidence.passages import PassageService
from server.methods.base import Method
from server.methods.direct import Direct
from server.methods.genegpt.method import GeneGpt
from server.methods.i_medrag.method import IMedRag
from server.methods.kg_rag.method import KgRag
from server.methods.medrag.method import MedRag
from server.methods.registry import _for_model
from server.observability.instrumented import ObservedEngine, ObservedServingEngine
from server.observability.setup import Observing, build_observing
from server.settings.model import ModelSettings
from server.settings.paths import namespaces_dir
from server.settings.schema import Settings
from server.traces import TraceStore
from server.wiring.gpu_memory import check_memory
from server.wiring.graph import build_graph_service
from server.wiring.models import choose_card, engine_options
from server.wiring.ncbi import Ncbi, build_ncbi
from server.wiring.retrieval import build_retrieval
from server.wiring.services import DIRECT, Components, Services

log = logging.getLogger(__name__)


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
