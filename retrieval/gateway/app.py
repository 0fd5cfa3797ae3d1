"""Provide the gateway as an ASGI application and as a standalone server, and dispatch each E-utilities call.

Owns paths, methods, size limits and start-up. Query text never reaches a log: a line holds the endpoint, the
database, the status, the size and the time.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from retrieval.errors import GATEWAY_BUSY, GATEWAY_NOT_LOCAL, PORT_TAKEN, GatewayDataError, RetrievalError
from retrieval.formats.records import DATABASES, Database
from retrieval.gateway.blast.request import known_taxid
from retrieval.gateway.blast.service import BlastOptions, BlastService, open_blast
from retrieval.gateway.eutils.efetch import efetch
from retrieval.gateway.eutils.elink import einfo_database, einfo_error, einfo_list, elink, elink_error
from retrieval.gateway.eutils.esearch import esearch, esearch_error, espell, espell_error, found_uids
from retrieval.gateway.eutils.esummary import esummary, esummary_error
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.http_reply import (
    PLAIN,
    REPEATED,
    Reply,
    efetch_error,
    text_of,
    uid_list,
    whole_number,
    xml_reply,
)
from retrieval.gateway.importing.run import add_human_genes
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore

_DATABASES: Final[Mapping[str, Database]] = {**{db: db for db in DATABASES}, "nucleotide": "nuccore"}
_DEFAULT_DATABASE: Final = "pubmed"  # as at NCBI
ENDPOINTS: Final = ("esearch", "esummary", "efetch", "elink", "einfo", "epost", "espell")
_HISTORY_PAGE: Final = 10_000
_EPOST_DOCTYPE: Final = "-//NLM//DTD epost 20090526//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20090526/epost.dtd"
_BY_DATABASE: Final[Mapping[str, Callable[[GatewayStore, Database, Mapping[str, str]], Reply]]] = {
    "esummary": esummary,
    "efetch": efetch,
}
log = logging.getLogger(__name__)
DEFAULT_PORT: Final = 8765
_MAX_QUERY_STRING: Final = 32 * 1024
_MAX_BODY: Final = 256 * 1024
_GRACE_S: Final = 4  # graceful shutdown: time for requests in progress
_MAX_FIELDS: Final = 1_000  # elink takes an id parameter for each link set
Answerer = Callable[[Mapping[str, str]], Awaitable[Reply]]


def create_gateway_app(store: GatewayStore, blast_options: BlastOptions | None = None) -> Starlette:
    """Create the application with the E-utilities and BLAST endpoints, GET and POST.

    E-utilities are under /entrez/eutils/*.fcgi, BLAST under /blast/Blast.cgi and /Blast.cgi. The BLAST database is
    stored beside the store's file, and a WebEnv is known to this application alone. It can be mounted in another one or
    called over an in-process transport: it needs no lifespan events, though its lifespan shutdown cancels running
    searches.
    """
    blast_dir = store.path.parent / f"blast-{store.fingerprint[:16]}"

    def taxid_of(name: str) -> int | None:
        """Return the taxonomy ID of a name: that of a well-known organism first, else one of the store's."""
        return known_taxid(name) or next(iter(store.tax_ids(name)), None)

    blast = open_blast(store.segments(), blast_dir, blast_options, taxid_of)
    history = History()
    routes = [
        Route(f"/entrez/eutils/{name}.fcgi", _eutils_route(store, name, history), methods=["GET", "POST"])
        for name in ENDPOINTS
    ]
    blast_route = _blast_route(blast)
    routes += [Route(path, blast_route, methods=["GET", "POST"]) for path in ("/blast/Blast.cgi", "/Blast.cgi")]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await blast.aclose()

    return Starlette(routes=routes, lifespan=lifespan)


def _eutils_route(store: GatewayStore, endpoint: str, history: History) -> Callable[[Request], Awaitable[Response]]:
    async def reply(params: Mapping[str, str]) -> Reply:
        try:
            return await run_in_threadpool(answer, store, endpoint, params, history)
        except GatewayDataError as error:
            reason = error.message
        log.error("%s: a record or the store cannot be read", endpoint)
        return Reply(500, PLAIN, f"Error: {reason}\n")

    async def route(request: Request) -> Response:
        return await _respond(request, endpoint, reply, str.lower)

    return route


def _blast_route(blast: BlastService) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        return await _respond(request, "blast", blast.answer, str.upper)

    return route


async def _respond(request: Request, endpoint: str, reply: Answerer, case: Callable[[str], str]) -> Response:
    started = time.perf_counter()
    try:
        params = await _params(request, case)
    except _RefusedError as refused:
        result, params = Reply(refused.status, PLAIN, f"{refused.reason}\n"), {}
    else:
        result = await reply(params)
    body = result.content
    elapsed_ms = 1000 * (time.perf_counter() - started)
    log.info(
        "%s db=%s status=%d bytes=%d ms=%.1f", endpoint, _loggable_db(params), result.status, len(body), elapsed_ms
    )
    return Response(body, status_code=result.status, headers={"content-type": result.content_type})


def _loggable_db(params: Mapping[str, str]) -> str:
    """Return the database for the log, "?" unless it is one of E-utilities', as clients may send any text."""
    name = params.get("db", "").lower()
    return name if name in DATABASES else "?"


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


async def _params(request: Request, case: Callable[[str], str]) -> dict[str, str]:
    """Return the parameters with names in one case.

    The values of a repeated ``id`` are joined with ``REPEATED``; of other repeated parameters the last value counts.
    """
    query = request.scope.get("query_string", b"")
    if len(query) > _MAX_QUERY_STRING:
        raise _RefusedError(414, "Request-URI Too Long")
    texts = [query, await _body(request)] if request.method == "POST" else [query]
    params: dict[str, str] = {}
    for name, value in _fields(texts):
        key = case(name)
        params[key] = f"{params[key]}{REPEATED}{value}" if key == "id" and key in params else value
    return params


def _fields(texts: Iterable[bytes]) -> list[tuple[str, str]]:
    try:
        return [
            pair
            for text in texts
            for pair in parse_qsl(text.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        ]
    except ValueError as error:
        raise _RefusedError(400, "Bad Request: the parameters cannot be read") from error


async def _body(request: Request) -> bytes:
    """Read the form's bytes, up to the size limit."""
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded").split(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", ""):
        raise _RefusedError(415, "Unsupported Media Type: send application/x-www-form-urlencoded")
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > _MAX_BODY:
                raise _RefusedError(413, "Request Entity Too Large")
    except ClientDisconnect as error:
        raise _RefusedError(400, "Bad Request: the body broke off") from error
    return bytes(chunks)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    data_dir: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    allow_remote: bool = False,
    blast_options: BlastOptions | None = None,
    human_genes: bool = False,
) -> None:
    """Serve until interrupted; with ``human_genes``, those of the package's table are added first.

    Raises:
        RetrievalError: ``host`` is not a loopback address and ``allow_remote`` is false; the port is out of range or
            cannot be bound.
    """
    if not is_loopback(host) and not allow_remote:
        raise RetrievalError(f"{host} is not a loopback address; the gateway has no access control", GATEWAY_NOT_LOCAL)
    if human_genes:
        try:
            add_human_genes(data_dir)
        except RetrievalError as error:
            if not GATEWAY_BUSY.is_of(error):  # the other import fills the store itself
                raise
    app = create_gateway_app(open_store(data_dir), blast_options)
    try:
        listener = socket.create_server((host.strip("[]"), port), family=_family(host))
    except OSError as error:
        raise RetrievalError(f"{host}:{port}: {error.strerror}", PORT_TAKEN) from error
    except OverflowError as error:
        raise RetrievalError(f"{host}:{port}: a port is a number from 0 to 65535", PORT_TAKEN) from error
    with listener:
        config = uvicorn.Config(
            app, access_log=False, log_config=None, server_header=False, timeout_graceful_shutdown=_GRACE_S
        )
        log.info("gateway listens on %s port %d", host, listener.getsockname()[1])
        with contextlib.suppress(KeyboardInterrupt):  # regular stop by Ctrl-C; uvicorn has shut down by then
            uvicorn.Server(config).run(sockets=[listener])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def answer(store: GatewayStore, endpoint: str, params: Mapping[str, str], history: History | None = None) -> Reply:
    """Return NCBI's reply to one call; a bad call gets NCBI's own error body.

    ``endpoint`` is one of ENDPOINTS. The whole call reads one snapshot of the store. Without a ``history``, a search
    stored by this call is lost at its end.
    """
    with store.snapshot():
        return _answer(store, endpoint, params, history or History())


def _answer(store: GatewayStore, endpoint: str, params: Mapping[str, str], history: History) -> Reply:
    written = params.get("db", "")
    if endpoint == "einfo" and not written:
        return einfo_list(params)
    if endpoint == "elink":
        return _elink(store, params, history)
    db = _DATABASES.get(written.strip().lower() or _DEFAULT_DATABASE)
    if db is None:
        return _bad_database(endpoint, params, written)
    if endpoint == "einfo":
        return einfo_database(store, db, params)
    if endpoint == "esearch":
        return esearch(store, db, params, history)
    if endpoint == "epost":
        return epost(db, params, history)
    if endpoint == "espell":
        return espell(store, db, params)
    try:
        return _BY_DATABASE[endpoint](store, db, _with_ids(store, db, params, history))
    except _HistoryError as error:
        return _ERRORS[endpoint](params, str(error))


class _HistoryError(Exception):
    """Signal that the history server does not have what a call refers to."""


def _with_ids(store: GatewayStore, db: Database, params: Mapping[str, str], history: History) -> Mapping[str, str]:
    """Return the call; if it names a stored search, with one page of its UIDs instead of paging parameters.

    Raises:
        _HistoryError: the search is unknown, of another database, or has no such page.
    """
    key, environment = params.get("query_key", "").strip(), params.get("webenv", "")
    if params.get("id", "").strip() or not key:
        return params
    stored_search = history.find(environment, key)
    if stored_search is None or stored_search.db != db:
        raise _HistoryError("Unable to obtain query #1")
    start = whole_number(params, "retstart", 0, 10_000_000)
    size = whole_number(params, "retmax", _HISTORY_PAGE, _HISTORY_PAGE)
    uids = found_uids(store, stored_search, start, size)
    if not uids:
        place = f"query_key: {key}, WebEnv: {environment}, retstart: {start}, retmax: {size}"
        raise _HistoryError(f"Cannot retrieve history data. {place}")
    rest = {name: value for name, value in params.items() if name not in ("retstart", "retmax")}
    return rest | {"id": ",".join(uids)}


def epost(db: Database, params: Mapping[str, str], history: History) -> Reply:
    """Store IDs under a WebEnv, for later calls that refer to it."""
    uids = tuple(uid_list(params))
    if not uids:
        return _epost_error(params, "Empty ID list; Nothing to store")
    if len(uids) > _HISTORY_PAGE:
        return _epost_error(params, f"Too many UIDs in request. Maximum number of UIDs is {_HISTORY_PAGE}.")
    environment, key = history.keep(params.get("webenv", ""), StoredSearch(db, {}, uids))
    inner = f"\n\t<QueryKey>{key}</QueryKey>\n\t<WebEnv>{environment}</WebEnv>\n"
    return xml_reply("ePostResult", _EPOST_DOCTYPE, inner)


def _epost_error(_: Mapping[str, str], message: str) -> Reply:
    return xml_reply("ePostResult", _EPOST_DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


_ERRORS: Final[Mapping[str, Callable[[Mapping[str, str], str], Reply]]] = {
    "esearch": esearch_error,
    "esummary": esummary_error,
    "elink": elink_error,
    "einfo": einfo_error,
    "epost": _epost_error,
    "espell": espell_error,
    "efetch": lambda _, message: efetch_error(message),
}


def _elink(store: GatewayStore, params: Mapping[str, str], history: History) -> Reply:
    """Return elink's reply.

    ``db`` may name several databases; without it, or with a link's name, elink chooses the targets itself.
    """
    source = _DATABASES.get(params.get("dbfrom", "").strip().lower() or _DEFAULT_DATABASE)
    if source is None:
        return _bad_database("elink", params, params["dbfrom"])
    targets = _split(params.get("db", ""))
    wrong = next((name for name in targets if name not in (*_DATABASES, "all")), None)
    if wrong is not None:
        return _bad_database("elink", params, wrong)
    params = {**params, "db": ",".join(_DATABASES.get(name, name) for name in targets)}
    try:
        return elink(store, source, _with_ids(store, source, params, history), history)
    except _HistoryError as error:
        return elink_error(params, str(error))


def _split(names: str) -> list[str]:
    return [name for part in names.split(",") if (name := part.strip().lower())]


def _bad_database(endpoint: str, params: Mapping[str, str], written: str) -> Reply:
    return _ERRORS[endpoint](params, f"Invalid db name specified: {written[:60]}")
