"""Provide what the routes work with: settings, served models, admission, traces.

``bootstrap`` builds the instance.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from models.card import CHAT
from models.engines.base import DEFAULT_SEQS, Engine, EngineOptions, ServesOpenAi
from retrieval.corpus.items import ReadOptions
from retrieval.index.backends.card import CardUse
from retrieval.ncbi.client.transport import HttpSender
from server.admission import Admission, AdmissionLimits, Ticket
from server.auth.authentication import ApiKeyLookup, Principal
from server.auth.first_key import first_key
from server.auth.namespace_scopes import NamespaceAccess
from server.auth.rate_limits import LocalRateLimiter, RateLimiter
from server.egress.router import Egress
from server.engine.lifecycle import EngineLifecycle
from server.errors import MODEL_UNKNOWN, RequestError
from server.evidence.pages import PageViews
from server.evidence.passages import PassageService, Retrieval
from server.evidence.verification import Verification, verify
from server.evidence.verifier import VerifierService, verifier_service
from server.jobs.corpus_changes import CorpusChanges
from server.jobs.followed_folders import FolderFollower, Followed
from server.jobs.stored_files import StoredFiles
from server.jobs.vector_stores import JOB_KIND, VectorStores
from server.methods.base import AUTO, DIRECT, NAMESPACE_METHODS, AnswerRequest, Method
from server.methods.shared.evidence_table import CellSource
from server.methods.shared.synthesis import Synthesis, served_syntheses
from server.observability.metrics import Observability, metrics_only
from server.on_demand import OnDemand
from server.settings.loading import SettingsInvalid
from server.settings.schema import Settings
from server.state.responses import StoredResponses
from server.state.reviews import StoredReviews
from server.traces import TraceStore
from server.types import id_of_digest
from server.wiring import collection_imports
from server.wiring.collection_imports import CollectionImports
from server.wiring.namespaces import uses_card
from server.wiring.retrieval import preload, records_of

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger(__name__)
# The first of the models, which answers whatever is asked.
AUTO_ID: Final = "arrowhead"
# The method by which most answers of Auto are made.
_PASSAGES: Final = "medrag"
# A request in flight may wait for a call, while another one uses its slot.
_PER_SLOT: Final = 2
_SWEEP_S: Final = 300.0
# Requests that wait in the engine itself.
MAX_QUEUE: Final = EngineOptions().max_queue
_T = TypeVar("_T")


class ServedModel(NamedTuple):
    """Describe one entry of ``/v1/models``.

    ``id`` is ``BASE`` or ``BASE:METHOD``; ``name`` is that of the method, as in scopes. ``syntheses``: the ways in
    which its answers can be made, the default first.
    """

    id: str
    method: Method
    name: str
    syntheses: tuple[Synthesis, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Hold the parts of ``Services``.

    ``methods`` by name, the plain model under ``direct``; ``adapters`` of the plain model by the name of each.
    ``egress`` None: no method makes calls; ``sender`` fetches files, None: none are. ``closers`` run at shutdown, last
    one first. ``key_lookup`` None: the keys of the settings alone. ``responses`` None: none are stored. ``passages``
    None: over ``retrieval``. ``verifier`` None: the one that the settings name. ``seal`` encrypts stored reviews, None
    leaves them plain. ``cells`` fills their columns, None where nothing can.
    """

    settings: Settings
    lifecycle: EngineLifecycle
    methods: Mapping[str, Method]
    traces: TraceStore
    retrieval: Retrieval
    adapters: Mapping[str, Method] = field(default_factory=dict)
    passages: PassageService | None = None
    verifier: VerifierService | None = None
    egress: Egress | None = None
    sender: HttpSender | None = None
    key_lookup: ApiKeyLookup | None = None
    responses: StoredResponses | None = None
    seal: MultiFernet | None = None
    cells: CellSource | None = None
    rates: RateLimiter = field(default_factory=LocalRateLimiter)
    closers: Sequence[Callable[[], Awaitable[None]]] = ()
    observability: Observability = field(default_factory=metrics_only)


class Services:
    """Run the server without its HTTP layer."""

    def __init__(self, components: Components) -> None:
        self.settings = components.settings
        self._shared_salt = components.settings.server.shared_salt
        self.lifecycle = components.lifecycle
        self.traces = components.traces
        self.egress = components.egress
        self.retrieval = components.retrieval
        self.passages = components.passages or PassageService(components.retrieval, components.settings.retrieval)
        self.encoders = components.retrieval.encoders
        self.responses = components.responses
        self._records = records_of(components.retrieval)
        self.reviews = StoredReviews(self._records, components.seal)
        self.cells = components.cells
        self.files = StoredFiles(self._records, components.retrieval.uploads.max_bytes)
        namespaces, uploads = components.retrieval.namespaces, components.retrieval.uploads
        self.vector_stores = VectorStores(self._records, self.files, namespaces, uploads)
        self.collections = CollectionImports(self.settings, namespaces, components.egress, components.sender)
        work = {JOB_KIND: self.vector_stores.perform, collection_imports.KIND: self.collections.perform}
        self.changes = CorpusChanges(namespaces, ReadOptions(), components.egress, work)
        self.folders = _folder_follower(components)
        self.key_lookup = components.key_lookup or _keys_of(components.settings)
        self.first_key = first_key(self.settings.server, self.key_lookup)
        self.rates = components.rates
        self.access = NamespaceAccess(namespaces)
        self.observability, self.observer = components.observability, components.observability.observer
        self.verifier = components.verifier or verifier_service(self.settings, self.observer)
        self._served = _served(components)
        self.adapters = frozenset(components.adapters)
        self._closers = components.closers
        self.created = int(time.time())
        self.admission = Admission(admission_limits(components.settings))
        self._computing = OnDemand("compute")
        self._drawing = OnDemand("page")
        self._verifying = OnDemand("verify")
        self.pages = PageViews(self._drawing)
        self.lifecycle.when_loaded(self._fit_admission)
        self.drained_at: int | None = None
        self._loading: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.observability.metrics.watch(self)

    def models(self, principal: Principal) -> list[ServedModel]:
        """Return the models that a key may use."""
        return [one for one in self._served.values() if _may_use(principal, one)]

    def find(self, model: str, principal: Principal) -> ServedModel:
        """Return the entry of a model.

        Raises:
            RequestError: there is no such model, or the key may not use it; the message lists those that it may use.
        """
        served = self._served.get(model)
        if served is not None and _may_use(principal, served):
            return served
        known = ", ".join(served.id for served in self.models(principal))
        raise RequestError(f"there is no model {model[:100]!r}; served: {known}", MODEL_UNKNOWN, param="model")

    async def with_namespaces(
        self, served: ServedModel, owner: str, asks: Sequence[AnswerRequest]
    ) -> list[AnswerRequest]:
        """Return the requests of one key with the methods that it may use and the namespaces that it may read now.

        A model that searches no namespaces gets none.

        Shared namespaces are named for every key, so that no step of the answer waits for their database on the event
        loop.

        Raises:
            UNAUTHORIZED: the key was revoked in the meantime.
            DatabaseUnavailable: the database of shared namespaces does not answer.
        """
        principal = self.key_lookup.principal_of(owner)
        methods = None if principal.is_operator else principal.scopes.methods
        usable = None if methods is None else frozenset(methods)
        if served.name not in NAMESPACE_METHODS and served.name != AUTO:
            return [replace(ask, namespaces=frozenset(), methods=usable) for ask in asks]
        readable = await self.readable_by(principal)
        return [replace(ask, namespaces=readable, methods=usable) for ask in asks]

    async def readable_by(self, principal: Principal) -> frozenset[str] | None:
        """Return the namespaces that a key may read now, None for all; shared ones are always named.

        Raises:
            DatabaseUnavailable: the database of shared namespaces does not answer.
        """
        return await self.retrieval.look_up(lambda: self._readable(principal))

    def _readable(self, principal: Principal) -> frozenset[str] | None:
        readable = self.access.readable(principal)
        return frozenset(self.passages.known(None)) if readable is None and self.retrieval.is_shared else readable

    def salt_for(self, key_id: str) -> str:
        """Return what separates the prefix cache of a key's requests from others, "" for nothing."""
        return key_id if self._shared_salt is None else self._shared_salt

    def spend(self, owner: str, tokens: int) -> None:
        """Charge the tokens of an answer to the rate limit of its key."""
        try:
            principal = self.key_lookup.principal_of(owner)
        except RequestError:  # the key was revoked during the answer
            return
        if not principal.is_operator:
            self.rates.spend(principal, tokens)

    @property
    def in_flight(self) -> int:
        return self.admission.in_flight

    @property
    def draining(self) -> bool:
        return self.admission.draining

    @property
    def egress_refusals(self) -> dict[str, int]:
        """Return how many calls were kept on this machine, by reason."""
        return {str(reason): number for reason, number in self.egress.refusals.items()} if self.egress else {}

    @property
    def card_use(self) -> CardUse | None:
        """Return where vectors are searched, None where the processor searches all."""
        return None if self.retrieval.card is None else self.retrieval.card.use()

    @property
    def running_jobs(self) -> int:
        return self.retrieval.jobs.num_running

    @asynccontextmanager
    async def admitted(self, owner: str = "") -> AsyncIterator[None]:
        """Hold an admission slot for one request that is not an answer.

        ``owner`` is the digest of the key. Raises what ``Admission.place`` raises.
        """
        async with self.admission.place(Ticket(id_of_digest(owner))) as cancel_scope:
            with cancel_scope:
                yield

    async def compute(self, owner: str, work: Callable[[], _T]) -> _T:
        """Return the result of ``work``, a computation of at most a few seconds that is no search and no answer.

        Of one key, one runs at a time. ``owner`` is the digest of the key.

        Raises:
            QUEUE_FULL: too many wait.
            RequestError: the server is draining or ended the request.
        """
        return await self.waited_for(self._computing.run(id_of_digest(owner), work))

    async def verify(self, owner: str, query: str, pieces: Sequence[str], deadline: float) -> Verification:
        """Return what pieces of evidence say of a question or claim; of one key, one verification runs at a time.

        ``owner`` is the digest of the key.

        Raises:
            RequestError, VERIFIER_UNAVAILABLE: as ``server.evidence.verification.verify``.
            ServerOverloaded, KeyOverloaded, RequestError, ANSWER_TIMEOUT: as ``waited_for`` and ``compute``.
        """
        return await self.judged(owner, lambda: verify(self.verifier, query, pieces), deadline)

    async def judged(self, owner: str, work: Callable[[], Awaitable[_T]], deadline: float) -> _T:
        """Return the result of work by the verifier, in the turn of the key; raises as ``verify``."""
        return await self.waited_for(self._verifying.hold(id_of_digest(owner), work), deadline)

    async def waited_for(self, work: Coroutine[Any, Any, _T], deadline: float | None = None) -> _T:
        """Return the result of work that needs no place among the answers; the server's end ends the wait.

        Raises:
            RequestError: the server is draining or ended the request.
            ANSWER_TIMEOUT: the deadline, on the event loop's clock, passed first.
        """
        try:
            self.admission.check()
            async with self.admission.held(deadline) as cancel_scope:
                with cancel_scope:
                    return await work
        finally:
            work.close()

    def drain(self) -> None:
        """Refuse new requests; running and waiting ones continue."""
        self.admission.draining = True
        self.drained_at = self.drained_at or int(time.time())

    def end_answers(self) -> None:
        """End all running and waiting requests with an error, now."""
        self.admission.end_all()

    def start(self) -> None:
        """Start to load the model; requests get 503 until it is ready."""
        self._loading = asyncio.create_task(self._load())

    async def start_jobs(self) -> None:
        """Clear up after killed processes, then do the jobs that another server, or an earlier one here, left."""
        await self.retrieval.sweep()
        self.retrieval.jobs.start(self.changes.perform)
        self.folders.start()
        self._sweeping = asyncio.create_task(self._sweep(), name="expiry")

    async def _sweep(self) -> None:
        """Delete now and then what has expired; what cannot be reached now is deleted later."""
        while True:
            for kept in (self.vector_stores, self.responses):
                try:
                    if kept is not None:
                        await asyncio.to_thread(kept.sweep)
                except Exception as error:  # nobody waits for this task: its end would go unnoticed
                    log.warning("%s: not swept yet: cause=%s", type(kept).__name__, type(error).__name__)
            await asyncio.sleep(_SWEEP_S)

    async def _load(self) -> None:
        """Load what shares a GPU with the engine first, as the engine takes the memory that is left."""
        chosen = self.settings.retrieval
        if uses_card(chosen):
            await self.retrieval.run(lambda: preload(self.retrieval))
        await self.lifecycle.load()

    async def _fit_admission(self, engine: Engine) -> None:
        """Admit as many requests as fit an engine that chose its number of slots itself."""
        is_set = self.settings.server.max_in_flight or self.settings.model.max_num_seqs
        if not is_set and isinstance(engine, ServesOpenAi):
            # Beyond its slots and its queue an engine refuses.
            self.admission.resize(min(_PER_SLOT * engine.slots, engine.slots + MAX_QUEUE))

    async def loaded(self) -> None:
        """Wait until loading has ended, with success or failure."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def close(self) -> None:
        self.drain()
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self.lifecycle.close()
        await self.folders.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        for pool in (self._computing, self._drawing, self._verifying):
            await pool.close()
        await self.verifier.close()
        for closer in reversed(self._closers):
            await closer()
        self._records.close()
        if self.responses is not None:
            self.responses.close()
        self.key_lookup.close()


def admission_limits(settings: Settings) -> AdmissionLimits:
    server, model = settings.server, settings.model
    slots = model.max_num_seqs or DEFAULT_SEQS
    running = server.max_in_flight or _PER_SLOT * slots
    if model.max_num_seqs is not None and running > slots + MAX_QUEUE:
        log.warning(
            "the engine takes fewer requests than the server: max_in_flight=%d max_num_seqs=%d max_queue=%d",
            running,
            slots,
            MAX_QUEUE,
        )
    return AdmissionLimits(running=running, running_per_key=server.max_in_flight_per_key, waiting=server.max_waiting)


def _may_use(principal: Principal, served: ServedModel) -> bool:
    """Return whether a key may use a model; Auto chooses among the methods of the key."""
    return served.name == AUTO or principal.may_use(served.name)


def _folder_follower(components: Components) -> FolderFollower:
    retrieval, chosen = components.retrieval, components.settings.retrieval
    options = ReadOptions(ocr=chosen.folders_ocr)
    followed = Followed(retrieval.namespaces, retrieval.jobs, chosen.encoder, chosen.max_upload_bytes, options)
    return FolderFollower(chosen.followed, followed)


def _keys_of(settings: Settings) -> ApiKeyLookup:
    return ApiKeyLookup([key.get_secret_value() for key in settings.server.api_keys])


def _served(components: Components) -> dict[str, ServedModel]:
    """Return the base model, the methods over it and its adapters, by their ids.

    Raises:
        SettingsInvalid: an adapter has the name of another one.
    """
    card = components.lifecycle.card
    found: dict[str, ServedModel] = {}
    if auto := components.methods.get(AUTO):
        found[AUTO_ID] = ServedModel(AUTO_ID, auto, AUTO, served_syntheses(_PASSAGES, card))
    for name, method in components.methods.items():
        served_id = card.name if name == DIRECT else f"{card.name}:{name}"
        syntheses = served_syntheses({DIRECT: CHAT, AUTO: _PASSAGES}.get(name, name), card)
        found[served_id] = ServedModel(served_id, method, name, syntheses)
    for name, method in components.adapters.items():
        if name in found:
            raise SettingsInvalid(f"model.lora_adapters: {name} is the name of a model here already")
        found[name] = ServedModel(name, method, DIRECT, ("generated",))
    return found
