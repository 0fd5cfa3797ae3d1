"""Build the services; the only place where concrete engines, clients and methods meet.

Loads no weights itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from models.card import ModelCard
from models.decoding.types import LoopLimits
from models.engines.base import Engine, EngineOptions, ServesOpenAi
from models.engines.registry import create_engine
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.errors import EGRESS_REFUSED, NcbiError
from retrieval.graph.spoke.source import BeforeSend, OutboundCall, SpokeOptions, SpokeSource
from retrieval.ncbi.client.transport import HttpSender
from retrieval.observer import Tracer
from server.auth.authentication import ApiKeyLookup
from server.engine.lifecycle import EngineLifecycle
from server.evidence.article_vectors import ArticleFinder
from server.evidence.encoders import EncoderPool
from server.evidence.graph import GraphLocation, GraphService, Spoke
from server.evidence.keywords import KeywordService
from server.evidence.literature import LiteratureService
from server.evidence.messages import MessageKinds, message_kinds
from server.evidence.names import GraphNames, QueryNames
from server.evidence.ncbi import NcbiSessions
from server.evidence.passages import PassageService, Retrieval
from server.evidence.site_tools.look_ups import PassagesWithTools, SiteTools
from server.evidence.verifier import VerifierService, verifier_service
from server.methods.auto import Auto, AutoReaders
from server.methods.base import DIRECT, Method
from server.methods.clinfo.cells import Cells
from server.methods.clinfo.method import Clinfo, Library
from server.methods.direct import Direct, LoraAdapterMethod
from server.methods.genegpt.method import GeneGpt
from server.methods.genegpt.questions import QuestionReader
from server.methods.i_medrag.method import IMedRag
from server.methods.kg_rag.method import KgRag, Readers
from server.methods.medrag.method import MedRag
from server.methods.shared.conversation.method import ConversationMethod
from server.methods.shared.conversation.notes import NotedMethod, load_numbers
from server.methods.shared.reading.gate import Gate
from server.methods.shared.support.method import SupportedMethod
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units
from server.methods.shared.support.verifier import ClaimVerifier, ModelVerifier, TrainedVerifier
from server.methods.shared.synthesis import for_model
from server.methods.weiseeule.method import WeiseEule
from server.observability.instrumented import InstrumentedEngine, InstrumentedServingEngine
from server.observability.metrics import Observability, build_observability
from server.settings.loading import graphs_dir, namespaces_dir
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.state.database import Database
from server.wiring.articles import article_finder
from server.wiring.models import adapter_names, choose_card, engine_options
from server.wiring.ncbi import CALL_TIMEOUT_S, Ncbi, SiteNames, build_ncbi, query_names
from server.wiring.retrieval import build_retrieval, card_reserve, engine_reserve
from server.wiring.services import Components, Services
from server.wiring.site_tools import site_tools
from server.wiring.state import (
    job_queues,
    open_answer_state,
    open_database,
    open_key_lookup,
    open_passage_database,
    open_responses,
    open_seal,
)

log = logging.getLogger(__name__)
# Of a condensed reply: what a model of a short context can read several times in one answer.
_MAX_REPLY_CHARS: Final = 1200


@dataclass(frozen=True, slots=True)
class Opened:
    """Hold what a server opens before its services: its keys, the database of shared state, and its data folder.

    ``database`` None: the settings name none. ``home``: the name of the folder of the namespaces, "" where this process
    runs no jobs of others.
    """

    key_lookup: ApiKeyLookup
    database: Database | None
    home: str = ""


def build_services(
    settings: Settings, opened: Opened | None = None, engine: Callable[[ModelCard, EngineOptions], Engine] | None = None
) -> Services:
    """Build all services except the weights, which ``Services.start`` loads.

    ``opened`` None opens what the settings name; ``engine`` makes an engine in place of the one that they name.

    Raises:
        ModelNotFound: there is no model to serve.
        RetrievalError, AuditFailed, KeyStoreError, STATE_UNAVAILABLE: what the settings name cannot be opened.
    """
    observability = build_observability(settings.tracing)
    card, opened = choose_card(settings), opened or _opened(settings)
    state = open_answer_state(settings, opened.database)
    ncbi = build_ncbi(settings, opened.key_lookup, observability.observer)
    observability.set_sender(ncbi.sender)
    evidence = _evidence(settings, ncbi, observability, opened)
    make = engine or partial(create_engine, settings.model.engine)
    namespaces = evidence.retrieval.namespaces if evidence.retrieval.card else None
    lifecycle = _lifecycle(settings, card, lambda: _observed(make(card, _options(settings, namespaces)), observability))
    is_able = card.is_general and settings.verifier.served_model == "auto"
    of_model = ModelVerifier(lifecycle) if is_able else None
    ending = (of_model.close,) if of_model else ()
    labelling = TrainedVerifier(evidence.verifier, of_model) if card.is_general else None
    methods = _methods(settings, lifecycle, evidence, labelling)
    ncbi.begin()
    return Services(
        Components(
            settings=settings,
            lifecycle=lifecycle,
            methods=methods,
            adapters={name: LoraAdapterMethod(name, card) for name in adapter_names(settings.model)},
            traces=state.traces,
            responses=open_responses(settings, opened.database),
            seal=open_seal(settings),
            cells=Cells(lifecycle, Gate(evidence.verifier)),
            rates=state.rates,
            retrieval=evidence.retrieval,
            passages=evidence.passages,
            verifier=evidence.verifier,
            egress=ncbi.egress,
            sender=ncbi.sender,
            key_lookup=opened.key_lookup,
            closers=(*ending, *state.closers, *ncbi.closers, *observability.closers, *evidence.closers),
            observability=observability,
        )
    )


def _options(settings: Settings, namespaces: Namespaces | None) -> EngineOptions:
    """Return the options of an engine that starts now, beside the vectors of ``namespaces``."""
    return engine_options(settings.model, engine_reserve(settings, namespaces))


def _lifecycle(settings: Settings, card: ModelCard, build: Callable[[], Engine]) -> EngineLifecycle:
    lifecycle = EngineLifecycle(card, build)
    lifecycle.when_loaded(_build_layer)
    return lifecycle


def _opened(settings: Settings) -> Opened:
    database = open_database(settings)
    return Opened(open_key_lookup(settings, database), database)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Hold what methods read from; ``parts`` traces the parts of an answer."""

    ncbi: Ncbi
    retrieval: Retrieval
    passages: PassageService
    graph: GraphService
    names: QueryNames
    articles: ArticleFinder | None
    messages: MessageKinds
    verifier: VerifierService
    parts: Tracer
    tools: SiteTools | None

    @property
    def closers(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        articles = () if self.articles is None else (self.articles.close,)
        tools = () if self.tools is None else (self.tools.close,)
        return (self.retrieval.close, self.graph.close, self.names.close, self.messages.close, *articles, *tools)


def _evidence(settings: Settings, ncbi: Ncbi, observability: Observability, opened: Opened) -> _Evidence:
    observer = observability.observer
    open_jobs = job_queues(settings, opened.database, opened.home)
    passages = open_passage_database(settings, opened.database)
    names = query_names(settings)
    retrieval = build_retrieval(settings.retrieval, namespaces_dir(settings), observer, open_jobs, passages)
    retrieval = replace(retrieval, names=names)
    if retrieval.card is not None:
        retrieval.card.keep = card_reserve(settings)
    return _Evidence(
        ncbi,
        retrieval,
        PassageService(retrieval, settings.retrieval),
        build_graph_service(settings, retrieval.encoders, ncbi, observer),
        names,
        article_finder(settings, retrieval.encoders, retrieval.card),
        message_kinds(settings.retrieval),
        verifier_service(settings, observer),
        observer,
        site_tools(settings.mcp, ncbi.egress),
    )


def build_spoke(settings: Settings, sender: HttpSender, before_send: BeforeSend) -> SpokeSource | None:
    """Return the SPOKE client, None where no address is set.

    ``sender`` is the process's own. ``before_send`` writes the audit line; its exception prevents the request.
    """
    url = settings.graph.spoke_url
    return None if url is None else SpokeSource(SpokeOptions(url=url), sender, before_send)


def build_graph_service(settings: Settings, pool: EncoderPool, ncbi: Ncbi, parts: Tracer | None = None) -> GraphService:
    place = GraphLocation(graphs_dir(settings), settings.graph.name, settings.retrieval.encoder)
    spoke = build_spoke(settings, ncbi.sender, _not_for_an_answer)
    host = settings.graph.spoke_host or ""
    source = None if spoke is None else Spoke(spoke, host, is_loopback(host))
    return GraphService(place, pool, ncbi.egress, source, parts)


async def _not_for_an_answer(_: OutboundCall) -> None:
    raise NcbiError("SPOKE is only asked for an answer", EGRESS_REFUSED)


def _methods(
    settings: Settings, lifecycle: EngineLifecycle, evidence: _Evidence, verifier: ClaimVerifier | None
) -> dict[str, Method]:
    """Return the methods by name, each with what all share: conversation, notes and labels."""
    passages, graph, longest = evidence.passages, evidence.graph, settings.loop.max_answer_tokens
    gate, questions = Gate(evidence.verifier), QuestionReader.load()
    genegpt = _genegpt(settings, lifecycle, evidence, questions)
    i_medrag = IMedRag(lifecycle, passages, gate, longest, evidence.parts)
    lifecycle.when_loaded(i_medrag.warm_up)
    literature = LiteratureService(evidence.ncbi.egress, passages, evidence.retrieval.encoders, evidence.articles)
    built: tuple[Method, ...] = (
        genegpt,
        KgRag(lifecycle, graph, graph, Readers(evidence.verifier, evidence.messages), longest),
        MedRag(lifecycle, passages, gate, longest),
        i_medrag,
        Clinfo(lifecycle, Library(literature, passages, graph, gate), longest),
        WeiseEule(lifecycle, KeywordService(evidence.retrieval, passages, evidence.names), gate, longest),
    )
    lifecycle.when_loaded(evidence.messages.warm_up)
    lifecycle.when_loaded(evidence.verifier.warm_up)
    lifecycle.when_loaded(graph.warm_up)
    reader = QuantityReader(Units())
    names = GraphNames(graph, SiteNames(()).is_ordinary)
    numbers = None if settings.server.region == "off" else load_numbers()[settings.server.region]
    methods: dict[str, Method] = {DIRECT: Direct(lifecycle, evidence.tools)}
    served = {method.name: for_model(method, lifecycle.card) for method in built}
    choices = methods | served
    if evidence.tools is not None:
        reading = MedRag(lifecycle, PassagesWithTools(passages, evidence.tools), gate, longest)
        choices[reading.name] = for_model(reading, lifecycle.card)
    auto = Auto(choices, lifecycle.card, AutoReaders(gate, evidence.messages, questions, evidence.names.subjects_in))
    for method in (auto, *served.values()):
        conversing = ConversationMethod(method, lifecycle, names)
        noted = NotedMethod(conversing, evidence.messages, numbers, only_reads=not lifecycle.card.is_general)
        methods[method.name] = SupportedMethod(noted, reader, verifier)
    return methods


def _observed(engine: Engine, observability: Observability) -> Engine:
    if observability.spans is None:
        return engine
    wrapper = InstrumentedServingEngine if isinstance(engine, ServesOpenAi) else InstrumentedEngine
    return wrapper(engine, observability.observer)


def _genegpt(settings: Settings, lifecycle: EngineLifecycle, evidence: _Evidence, questions: QuestionReader) -> GeneGpt:
    limits = LoopLimits(max_calls=settings.loop.max_calls, call_timeout_s=CALL_TIMEOUT_S)
    access = NcbiSessions(evidence.ncbi.egress, _MAX_REPLY_CHARS, evidence.parts)
    genegpt = GeneGpt(lifecycle, access, questions, limits, settings.loop.max_answer_tokens)
    lifecycle.when_loaded(genegpt.warm_up)
    return genegpt


async def _build_layer(engine: Engine) -> None:
    """Build the engine's OpenAI layer early, so that the first passthrough request does not wait for it."""
    if isinstance(engine, ServesOpenAi):
        await engine.openai_layer()
