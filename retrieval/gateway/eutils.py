"""One E-utilities call, from query parameters and the store to NCBI's reply. Pure; knows nothing of HTTP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from retrieval.gateway.efetch import efetch
from retrieval.gateway.einfo import einfo_database, einfo_error, einfo_list
from retrieval.gateway.elink import elink, elink_error
from retrieval.gateway.esearch import esearch, esearch_error
from retrieval.gateway.esummary import esummary, esummary_error
from retrieval.gateway.records import Database
from retrieval.gateway.replies import PLAIN, Reply
from retrieval.gateway.store import GatewayStore

_DATABASES: Final[Mapping[str, Database]] = {
    "gene": "gene",
    "snp": "snp",
    "omim": "omim",
    "nuccore": "nuccore",
    "nucleotide": "nuccore",
}
ENDPOINTS: Final = ("esearch", "esummary", "efetch", "elink", "einfo")


def answer(store: GatewayStore, endpoint: str, params: Mapping[str, str]) -> Reply:
    """NCBI's reply to one call; ``endpoint`` is one of ENDPOINTS; a bad call gets NCBI's own error body."""
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
    return _BY_DATABASE[endpoint](store, db, params)


_BY_DATABASE: Final[Mapping[str, Callable[[GatewayStore, Database, Mapping[str, str]], Reply]]] = {
    "esearch": esearch,
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
