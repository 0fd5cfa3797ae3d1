"""Answer one E-utilities call, from query parameters and the store to NCBI's reply.

Knows nothing of HTTP servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from retrieval.formats.records import DATABASES, Database
from retrieval.gateway.eutils.efetch import efetch
from retrieval.gateway.eutils.einfo import einfo_database, einfo_error, einfo_list
from retrieval.gateway.eutils.elink import elink, elink_error
from retrieval.gateway.eutils.esearch import esearch, esearch_error, found_uids
from retrieval.gateway.eutils.espell import espell, espell_error
from retrieval.gateway.eutils.esummary import esummary, esummary_error
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.http_reply import Reply, efetch_error, text_of, uid_list, whole_number, xml_reply
from retrieval.gateway.store.reader import GatewayStore

_DATABASES: Final[Mapping[str, Database]] = {**{db: db for db in DATABASES}, "nucleotide": "nuccore"}
ENDPOINTS: Final = ("esearch", "esummary", "efetch", "elink", "einfo", "epost", "espell")
_HISTORY_PAGE: Final = 10_000


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
    db = _DATABASES.get(written.strip().lower())
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


_EPOST_DOCTYPE: Final = "-//NLM//DTD epost 20090526//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20090526/epost.dtd"


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


_BY_DATABASE: Final[Mapping[str, Callable[[GatewayStore, Database, Mapping[str, str]], Reply]]] = {
    "esummary": esummary,
    "efetch": efetch,
}
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
    source = _DATABASES.get(params.get("dbfrom", "pubmed").strip().lower())
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
