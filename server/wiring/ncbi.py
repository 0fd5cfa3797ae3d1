"""Assemble access to NCBI from the settings: destinations, egress policy, names that may leave, audit log."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from models.errors import ArrowheadError
from retrieval.errors import GATEWAY_BUSY
from retrieval.formats.english import ordinary_words
from retrieval.gateway.app import create_gateway_app
from retrieval.gateway.blast.service import BlastOptions
from retrieval.gateway.importing.run import add_human_genes
from retrieval.gateway.query.names import StoreNames
from retrieval.gateway.query.search import StorePhraseLookup
from retrieval.gateway.query.synonyms import StoreSynonyms
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore
from retrieval.graph.linking.dictionary_lookup.names import is_indexable
from retrieval.graph.linking.dictionary_lookup.terms import term_names
from retrieval.graph.store.catalog import open_graph
from retrieval.graph.store.reader import GraphNames
from retrieval.ncbi.calls.parameter_classes import is_organism
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.client.blast import BlastTiming
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.ncbi.client.client import CallClient, ClientConfig, NcbiClient, RetryPolicy
from retrieval.ncbi.client.service import ServiceClient, ServiceConfig
from retrieval.ncbi.client.transport import AsgiApp, Connection, HttpSender, Message, Receive, Send, SendLimits
from retrieval.observer import NullObserver, RetrievalObserver
from retrieval.terminology.concepts import shipped_terminology
from retrieval.types import FetchCall, KnownName, KnownNames, NameKind
from server.audit.chain import AuditRecord
from server.audit.log import AuditLog, AuditRecorder
from server.auth.authentication import ApiKeyLookup
from server.egress.policy import EgressPolicy
from server.egress.recognition.vocabulary import PERSON_NAMES
from server.egress.router import Destination, DestinationPair, Destinations, Egress, Knowledge
from server.evidence.names import QueryNames
from server.settings.loading import SettingsInvalid, audit_path, gateway_dir, graphs_dir, variable_name, xdg_dir
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.version import installed_version

log = logging.getLogger(__name__)
_NCBI = NcbiSite()
# The URLs of the built-in gateway in the records of replies. The host does not exist and is never resolved.
_GATEWAY = NcbiSite(
    eutils_url="http://gateway.invalid/entrez/eutils", blast_url="http://gateway.invalid/blast/Blast.cgi"
)
GATEWAY = "gateway"
# Shorter words are in no list of words.
_LEAST_WORD = 3
# A call times out shortly before the loop's own timeout, so that the error names the cause at NCBI.
_GRACE = 0.95
# One call with all its retries and BLAST's waiting.
CALL_TIMEOUT_S: Final = 300.0
# Bounds the length of the line; the mode of every key is also in the key's own lines.
_MAX_LISTED_KEYS: Final = 200


class LazyGateway:
    """Serve the gateway as an ASGI application that opens its store at the first call."""

    def __init__(self, folder: Path, options: BlastOptions) -> None:
        self._folder = folder
        self._options = options
        self._app: AsgiApp | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async with self._opening:
            if self._app is None:
                try:
                    store = await asyncio.to_thread(open_store, self._folder)
                    self._app = create_gateway_app(store, self._options)
                except ArrowheadError as error:
                    log.error("gateway not usable: %s", error.message)
                    raise
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class BuiltDestinations:
    """Hold the destinations and their clients.

    ``knowledge``: the names of the gateway's store and the graph; none if the store is not open from the start.
    """

    places: Destinations
    clients: tuple[CallClient, ...]
    knowledge: Knowledge = field(default_factory=Knowledge)

    async def close(self) -> None:
        for client in self.clients:
            await client.aclose()


def has_own_gateway(settings: Settings) -> bool:
    """Return whether calls that stay here go to the built-in gateway, not to one elsewhere on this machine."""
    return _local_host(settings.ncbi_urls[0]) is None


def build_destinations(
    settings: Settings, gateway_dir: Path, sender: HttpSender, observer: RetrievalObserver | None = None
) -> BuiltDestinations:
    """Build the clients and the destinations for each egress mode.

    ``sender`` serves all clients but the gateway's. The gateway's store is opened here if calls are certain to use it.

    Raises:
        GatewayDataError: the store cannot be opened.
    """
    mode = settings.egress.mode
    eutils, blast = settings.ncbi_urls
    local_hosts = _local_host(eutils), _local_host(blast)
    # With mode off no destination is remote, whatever mode a request names.
    outside_hosts = (
        local_hosts if mode == "off" else (_host(eutils or _NCBI.eutils_url), _host(blast or _NCBI.blast_url))
    )
    uses_gateway = mode == "local-first" or (mode == "off" and None in local_hosts)
    options = BlastOptions(blastdb_dirs=settings.gateway.blastdb_dirs)
    app, knowledge = cast(AsgiApp, LazyGateway(gateway_dir, options)), Knowledge()
    # Where only known names may leave, the store is needed to know them, even if no call goes to it.
    if uses_gateway or (mode != "off" and EgressPolicy.of(settings.egress).is_strict):
        store = open_store(gateway_dir)
        app, knowledge = create_gateway_app(store, options), _knowledge(settings, store)
    in_process = HttpSender(SendLimits(), app)
    hosts = dict.fromkeys((None, *local_hosts, *outside_hosts))
    watcher = observer or NullObserver()
    clients: dict[str | None, NcbiClient] = {
        host: _client(settings, host, in_process if host is None else sender, watcher) for host in hosts
    }

    def place(host: str | None, url: str | None) -> Destination:
        name = urlsplit(url).hostname or "" if url and host is not None else GATEWAY
        return Destination(name, clients[host], leaves=host is not None and not is_loopback(name))

    gateway = place(None, None)
    outside = DestinationPair(
        place(outside_hosts[0], eutils or _NCBI.eutils_url), place(outside_hosts[1], blast or _NCBI.blast_url)
    )
    service: tuple[CallClient, ...] = ()
    if settings.egress.service_url and mode != "off":
        client = service_client(settings, watcher)
        outside, service = _through(client, settings.egress.service_host), (client,)
    local = DestinationPair(place(local_hosts[0], eutils), place(local_hosts[1], blast))
    destinations = Destinations(off=local, gateway=DestinationPair(gateway, gateway), outside=outside)
    return BuiltDestinations(destinations, (*clients.values(), *service), knowledge)


def _through(client: CallClient, service_host: str) -> DestinationPair:
    """Return NCBI's two hosts as the destinations of calls that an egress service sends."""
    eutils, blast = (urlsplit(url).hostname or "" for url in (client.site.eutils_url, client.site.blast_url))
    return DestinationPair(
        Destination(eutils, client, leaves=True, via=service_host),
        Destination(blast, client, leaves=True, via=service_host),
    )


def service_client(settings: Settings, observer: RetrievalObserver) -> ServiceClient:
    """Return the client of the egress service that the settings name."""
    egress, total = settings.egress, CALL_TIMEOUT_S * _GRACE
    url = egress.service_url or ""
    config = ServiceConfig(
        url=url,
        key=egress.service_key.get_secret_value() if egress.service_key else "",
        timeout_s=min(total, settings.ncbi.total_timeout_s),
        blast_timeout_s=total,
        limits=SendLimits(),
        observer=observer,
    )
    connection = Connection(
        socket=Path(egress.service_host) if url.startswith("unix:") else None,
        ca_file=egress.service_ca_file,
        certificate=egress.service_certificate,
        certificate_key=egress.service_certificate_key,
    )
    return ServiceClient(config, HttpSender(config.limits, connection=connection))


def _knowledge(settings: Settings, store: GatewayStore) -> Knowledge:
    return Knowledge(StorePhraseLookup(store), site_names(store, graphs_dir(settings), settings.graph.name))


def _local_host(url: str | None) -> str | None:
    """Return the host of a loopback URL, None for the built-in gateway, which replaces all other URLs."""
    return _host(url) if url and is_loopback(urlsplit(url).hostname or "") else None


def _host(url: str) -> str:
    """Return the host with its port, or "ncbi" for NCBI's two hosts, which share one rate limit."""
    host = urlsplit(url).netloc
    return "ncbi" if host.endswith(".ncbi.nlm.nih.gov") else host


def _client(settings: Settings, host: str | None, sender: HttpSender, observer: RetrievalObserver) -> NcbiClient:
    ncbi = settings.ncbi
    local = host is None or is_loopback(urlsplit(f"//{host}").hostname or "")
    base = _GATEWAY if host is None else _NCBI
    site = NcbiSite(
        eutils_url=(host and ncbi.eutils_url) or base.eutils_url,
        blast_url=(host and ncbi.blast_url) or base.blast_url,
        email=ncbi.email,
        api_key=ncbi.api_key.get_secret_value() if ncbi.api_key and not local else "",
    )
    config = ClientConfig(
        site=site,
        allow_remote=settings.egress.mode != "off",
        rate_per_s=ncbi.rate_per_s if ncbi.rate_per_s is not None else (0.0 if local else None),
        retry=RetryPolicy(total_timeout_s=min(CALL_TIMEOUT_S * _GRACE, ncbi.total_timeout_s)),
        blast=replace(BlastTiming.local() if local else BlastTiming(), total_timeout_s=CALL_TIMEOUT_S * _GRACE),
        observer=observer,
    )
    # A service on this machine answers as fast as a cache.
    cache = None if local else ReplyCache(ncbi.cache_path or xdg_dir("cache") / "ncbi.sqlite")
    return NcbiClient(config, cache=cache, sender=sender)


@dataclass(frozen=True, slots=True)
class Ncbi:
    """Hold the parts of the access to NCBI.

    ``begin`` is called after everything else is built: from then on the audit log belongs to this process. ``closers``
    run at shutdown, last one first.
    """

    egress: Egress
    sender: HttpSender
    auditor: AuditRecorder
    start: AuditRecord
    closers: tuple[Callable[[], Awaitable[None]], ...]

    def begin(self) -> None:
        """Write the start record to the audit log.

        Raises:
            AuditFailed: the audit log cannot be written.
        """
        self.auditor.begin(self.start)


def build_ncbi(
    settings: Settings, key_lookup: ApiKeyLookup | None = None, observer: RetrievalObserver | None = None
) -> Ncbi:
    """Build the access to NCBI.

    ``key_lookup``: that of a server, whose requests have keys; None takes the keys of the settings.

    Raises:
        RetrievalError: the store of the built-in gateway cannot be built.
    """
    key_lookup = key_lookup or ApiKeyLookup([key.get_secret_value() for key in settings.server.api_keys])
    policy = replace(EgressPolicy.of(settings.egress), mode_of_key=key_lookup.mode_of)
    start = start_record(policy, key_lookup, settings.tracing.host)
    if policy.mode != "off" and settings.egress.service_url:
        start = replace(start, detail={**start.detail, "via": settings.egress.service_host})
    return _assembled(settings, policy, start, observer)


def build_egress_service(settings: Settings, observer: RetrievalObserver) -> Ncbi:
    """Build the access to NCBI of the egress service, which applies its own policy to the calls of all servers.

    The modes of keys are the servers' own.

    Raises:
        SettingsInvalid: the settings are those of no egress service.
        RetrievalError: the store of names that may leave cannot be opened.
    """
    if settings.egress.mode != "ncbi":
        raise SettingsInvalid(
            f"{variable_name('egress', 'mode')}: the egress service sends calls to NCBI: set ncbi; "
            "egress.profile says which values may leave"
        )
    if settings.egress.service_url:
        raise SettingsInvalid(f"{variable_name('egress', 'service_url')}: is for servers; the egress service has none")
    policy = replace(EgressPolicy.of(settings.egress), knows_questions=False)
    detail = {"version": installed_version(), "profile": policy.profile, "allow": list(policy.allowed)}
    start = AuditRecord(event="start", mode=policy.mode, detail={**detail, "egress_service": True})
    return _assembled(settings, policy, start, observer)


def _assembled(
    settings: Settings, policy: EgressPolicy, start: AuditRecord, observer: RetrievalObserver | None
) -> Ncbi:
    sender = HttpSender(SendLimits())
    built = build_destinations(settings, gateway_dir(settings), sender, observer)
    auditor = AuditRecorder(audit_log(settings), settings.audit.on_failure)
    egress = Egress(policy, built.places, auditor, built.knowledge)
    return Ncbi(egress, sender, auditor, start, (auditor.close, sender.close, built.close))


@asynccontextmanager
async def open_ncbi(settings: Settings, asked: str = "") -> AsyncIterator[FetchCall]:
    """Yield the function that sends one command's calls, under the server's egress policy and with its audit log.

    ``asked`` is what its user wrote: the identifiers that it names may leave under any policy that allows ids.
    """
    ncbi, command = build_ncbi(settings), f"command-{uuid.uuid4().hex}"
    try:
        ncbi.begin()
        ncbi.egress.hear(command, [asked])
        yield ncbi.egress.fetch_for(ncbi.egress.admit(command, "", None))
    finally:
        for closer in reversed(ncbi.closers):
            await closer()


def audit_log(settings: Settings) -> AuditLog | None:
    """Return the audit log, None if there is nothing to record: with mode off and no path set."""
    if settings.egress.mode == "off" and settings.audit.path is None:
        return None
    return AuditLog(audit_path(settings), level=settings.audit.level, max_bytes=settings.audit.max_bytes)


def start_record(policy: EgressPolicy, key_lookup: ApiKeyLookup, spans_to: str | None) -> AuditRecord:
    """Return the record of what is permitted from now on, to which keys.

    Keys that are created later are permitted what their scopes state.
    """
    keys = {name: policy.ceiling(name) for name in key_lookup.ids[:_MAX_LISTED_KEYS]}
    detail = {"version": installed_version(), "profile": policy.profile, "allow": list(policy.allowed), "keys": keys}
    detail |= {"spans_to": spans_to} if spans_to else {}
    return AuditRecord(event="start", mode=policy.mode, detail=detail)


async def fill_gateway(settings: Settings) -> None:
    """Add all human genes to the gateway's store where it lacks them; a failure is logged."""
    if not settings.gateway.human_genes:
        return
    try:
        number = await asyncio.to_thread(add_human_genes, gateway_dir(settings))
    except (ArrowheadError, OSError) as error:
        if GATEWAY_BUSY.is_of(error):
            log.info("human genes not added: another process fills the store")
        else:
            log.warning("human genes not added: cause=%s", type(error).__name__)
    else:
        if number:
            log.info("human genes added to the gateway's store: number=%d", number)


def query_names(settings: Settings) -> QueryNames:
    """Return the names of the gateway's genes and of the shipped terminology, which are opened at the first look-up."""
    genes = StoreSynonyms(lambda: open_store(gateway_dir(settings)), SiteNames(()).is_ordinary)
    return QueryNames(genes, lambda: term_names(shipped_terminology(), graphs_dir(settings)))


def site_names(store: GatewayStore, graphs: Path, graph: str) -> SiteNames:
    """Return the closed vocabulary of what may leave; ``graph`` is the name of a graph in the folder ``graphs``."""
    return SiteNames((StoreNames(store), CommonOrganisms(), LazyGraphNames(graphs, graph)))


class SiteNames:
    """Implement the vocabulary of ``server.egress`` on this site's data."""

    def __init__(self, sources: Sequence[KnownNames]) -> None:
        self._sources = tuple(sources)

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        for source in self._sources:
            yield from source.find(name, kinds)

    def is_ordinary(self, word: str) -> bool:
        if len(word) < _LEAST_WORD:
            return False
        return word in PERSON_NAMES or word in ordinary_words() or not is_indexable(word)


class CommonOrganisms:
    """Know the organisms of common questions, whatever the store has."""

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        return (KnownName(name.lower(), "organism"),) if "organism" in kinds and is_organism(name) else ()


class LazyGraphNames:
    """Know the names of a graph from when it is built; opens it at the first look-up after that.

    A graph that replaces it is used after the next start.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        self._graph: GraphNames | None = None
        self._opening = threading.Lock()

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        graph = self._opened()
        if graph is None:
            return ()
        try:
            return tuple(graph.find(name, kinds))
        except ArrowheadError as error:
            log.warning("names of the graph not used: cause=%s", type(error).__name__)
            return ()

    def _opened(self) -> GraphNames | None:
        with self._opening:
            if self._graph is None and (self._root / self._name).is_dir():
                try:
                    self._graph = GraphNames(open_graph(self._root, self._name))
                except ArrowheadError as error:
                    log.warning("names of the graph not used: cause=%s", type(error).__name__)
            return self._graph
