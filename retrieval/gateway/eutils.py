"""One E-utilities call, from query parameters and the store to NCBI's reply. Pure; knows nothing of HTTP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from retrieval.gateway.efetch import efetch
from retrieval.gateway.einfo import einfo_database, einfo_error, einfo_list
from retrieval.gateway.elink import elink, elink_error
from retrieval.gateway.esearch import esearch, esearch_error, found_uids
from retrieval.gateway.esummary import esummary, esummary_error
from retrieval.gateway.history import History, KeptSearch
from retrieval.gateway.records import DATABASES, Database
from retrieval.gateway.replies import PLAIN, Reply, uid_list, whole_number, xml_reply
from retrieval.gateway.store import GatewayStore

_DATABASES: Final[Mapping[str, Database]] = {**{db: db for db in DATABASES}, "nucleotide": "nuccore"}
ENDPOINTS: Final = ("esearch", "esummary", "efetch", "elink", "einfo", "epost")
_HISTORY_PAGE: Final = 10_000


def answer(store: GatewayStore, endpoint: str, params: Mapping[str, str], history: History | None = None) -> Reply:
    """NCBI's reply to one call; ``endpoint`` is one of ENDPOINTS; a bad call gets NCBI's own error body.

    Without a ``history``, a search kept in this call is gone after it.
    """
    history = history or History()
    written = params.get("db", "")
    if endpoint == "einfo" and not written:
        return einfo_list(params)
    if endpoint == "elink":
        return _elink(store, params)
    db = _DATABASES.get(written.strip().lower())
    if db is None:
        return _bad_database(endpoint, params, written)
    if endpoint == "einfo":
        return einfo_database(store, db, params)
    if endpoint == "esearch":
        return esearch(store, db, params, history)
    if endpoint == "epost":
        return epost(db, params, history)
    if not params.get("id", "").strip() and params.get("query_key", "").strip():
        kept = history.find(params.get("webenv", ""), params["query_key"].strip())
        if kept is None or kept.db != db:
            return _ERRORS.get(endpoint, esummary_error)(params, "Unable to obtain query #1")
        params = _with_ids(store, kept, params)
    return _BY_DATABASE[endpoint](store, db, params)


def _with_ids(store: GatewayStore, kept: KeptSearch, params: Mapping[str, str]) -> Mapping[str, str]:
    """The call with one page of the kept search's uids, and no paging left to do."""
    start = whole_number(params, "retstart", 0, 10_000_000)
    size = whole_number(params, "retmax", _HISTORY_PAGE, _HISTORY_PAGE)
    rest = {name: value for name, value in params.items() if name not in ("retstart", "retmax")}
    return rest | {"id": ",".join(found_uids(store, kept, start, size))}


def epost(db: Database, params: Mapping[str, str], history: History) -> Reply:
    """Ids kept under a WebEnv, for calls that name it."""
    uids = tuple(uid_list(params)[:_HISTORY_PAGE])
    if not uids:
        return xml_reply("ePostResult", _EPOST_DOCTYPE, "\n\t<ERROR>Empty id list - nothing todo</ERROR>\n")
    environment, key = history.keep(params.get("webenv", ""), KeptSearch(db, {}, uids))
    inner = f"\n\t<QueryKey>{key}</QueryKey>\n\t<WebEnv>{environment}</WebEnv>\n"
    return xml_reply("ePostResult", _EPOST_DOCTYPE, inner)


_EPOST_DOCTYPE: Final = "-//NLM//DTD epost 20090526//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20090526/epost.dtd"


_BY_DATABASE: Final[Mapping[str, Callable[[GatewayStore, Database, Mapping[str, str]], Reply]]] = {
    "esummary": esummary,
    "efetch": efetch,
}
_ERRORS: Final[Mapping[str, Callable[[Mapping[str, str], str], Reply]]] = {
    "esearch": esearch_error,
    "esummary": esummary_error,
    "elink": elink_error,
    "einfo": einfo_error,
}


def _elink(store: GatewayStore, params: Mapping[str, str]) -> Reply:
    written = params.get("dbfrom", ""), params.get("db", "") or params.get("dbfrom", "")
    source, target = (_DATABASES.get(name.strip().lower()) for name in written)
    if source is None or target is None:
        return _bad_database("elink", params, written[0] if source is None else written[1])
    return elink(store, source, target, params)


def _bad_database(endpoint: str, params: Mapping[str, str], written: str) -> Reply:
    message = f"Invalid db name specified: {written[:60]}"
    if endpoint == "efetch":
        return Reply(400, PLAIN, message + "\n")
    return _ERRORS[endpoint](params, message)
