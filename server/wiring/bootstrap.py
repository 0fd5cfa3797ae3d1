"""Build the services; the only place where concrete engines, clients and methods meet.

Loads no weights itself.
"""

from __future__ import annotations

import logging

from models.catalog import ModelCard
from models.decoding.types import LoopLimits
from models.engines.base import Engine, ServesOpenAi
from models.engines.options import EngineKind, EngineOptions
from models.engines.registry import create_engine
from retrieval.observer import Tracer
from server.auth.api_keys import Keyring
from server.engine.lifecycle import EngineLifecycle, RestartPolicy
from server.evidence.ncbi_calls import NcbiSessions
from server.evidence.passages import PassageService
from server.methods.base import Method
from server.methods.direct import Direct, LoraAdapterMethod
from server.methods.genegpt.method import GeneGpt
from server.methods.i_medrag.method import IMedRag
from server.methods.kg_rag.method import KgRag
from server.methods.medrag.method import MedRag
from server.methods.registry import for_model
from server.methods.shared.conversation.method import ConversationMethod
from server.methods.shared.grounding import GroundedMethod
from server.observability.instrumented import InstrumentedEngine, InstrumentedServingEngine
from server.observability.setup import Observability, build_observability
from server.settings.observability import TraceSettings
from server.settings.paths import namespaces_dir
from server.settings.schema import Settings
from server.trace_file import TraceFile
from server.traces import MemoryTraceStore
from server.wiring.gpu_memory import check_memory, engine_reserve
from server.wiring.graph import build_graph_service
from server.wiring.keys import open_keyring
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
    observability = build_observability(settings.tracing)
    restarts = RestartPolicy(tries=model.restarts, window_s=model.restart_window_s)
    options = engine_options(model, engine_reserve(settings))
    lifecycle = EngineLifecycle(card, lambda: _engine(model.engine, card, options, observability), restarts)
    lifecycle.when_loaded(_build_layer)
    keyring = keyring or open_keyring(settings)
    ncbi = build_ncbi(settings, keyring, observability.observer)
    observability.set_sender(ncbi.sender)
    genegpt = _genegpt(settings, lifecycle, ncbi, observability.observer)
    retrieval = build_retrieval(settings.retrieval, namespaces_dir(settings), observability.observer)
    for line in check_memory(settings, retrieval):
        log.info("memory of the card: %s", line)
    graph = build_graph_service(settings, retrieval.encoders, ncbi, observability.observer)
    kg_rag = KgRag(lifecycle, graph, graph, settings.loop.max_answer_tokens)
    passages = PassageService(retrieval, settings.retrieval)
    medrag = MedRag(lifecycle, passages, settings.loop.max_answer_tokens)
    i_medrag = IMedRag(lifecycle, passages, settings.loop.max_answer_tokens, observability.observer)
    lifecycle.when_loaded(i_medrag.warm_up)
    methods: dict[str, Method] = {DIRECT: Direct(lifecycle)}
    for method in (genegpt, kg_rag, medrag, i_medrag):
        methods[method.name] = GroundedMethod(ConversationMethod(for_model(method, card), lifecycle))
    ncbi.begin()
    return Services(
        Components(
            settings=settings,
            lifecycle=lifecycle,
            methods=methods,
            adapters={name: LoraAdapterMethod(name, card) for name in model.lora_folders},
            traces=_traces(settings.traces),
            retrieval=retrieval,
            passages=passages,
            egress=ncbi.egress,
            keyring=keyring,
            closers=(*ncbi.closers, *observability.closers, retrieval.close, passages.close, graph.close),
            observability=observability,
        )
    )


def _traces(settings: TraceSettings) -> MemoryTraceStore:
    file = TraceFile(settings.dir, settings.max_file_bytes) if settings.dir else None
    return MemoryTraceStore(max_traces=settings.max_traces, max_bytes=settings.max_bytes, file=file)


def _engine(kind: EngineKind, card: ModelCard, options: EngineOptions, observability: Observability) -> Engine:
    engine = create_engine(kind, card, options)
    if observability.spans is None:
        return engine
    wrapper = InstrumentedServingEngine if isinstance(engine, ServesOpenAi) else InstrumentedEngine
    return wrapper(engine, observability.observer)


def _genegpt(settings: Settings, lifecycle: EngineLifecycle, ncbi: Ncbi, parts: Tracer) -> GeneGpt:
    limits = LoopLimits(
        max_calls=settings.loop.max_calls,
        max_reply_tokens=settings.loop.max_reply_tokens,
        call_timeout_s=settings.loop.call_timeout_s,
        total_timeout_s=settings.loop.total_timeout_s,
    )
    access = NcbiSessions(ncbi.egress, settings.ncbi.max_reply_chars, parts)
    genegpt = GeneGpt(lifecycle, access, limits, settings.loop.max_answer_tokens)
    lifecycle.when_loaded(genegpt.warm_up)
    return genegpt


async def _build_layer(engine: Engine) -> None:
    """Build the engine's OpenAI layer early, so that the first passthrough request does not wait for it."""
    if isinstance(engine, ServesOpenAi):
        await engine.openai_layer()
