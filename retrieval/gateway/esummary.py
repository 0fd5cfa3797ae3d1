"""Implement esummary: document summaries as JSON, and as XML in the older layout or in each database's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from retrieval.gateway.docsum import UNKNOWN, V1, build_of, v1_reply, v2_error, v2_reply
from retrieval.gateway.docsum_layouts import doctype_of
from retrieval.gateway.records import Database, Record
from retrieval.gateway.replies import Reply, is_json, json_reply, page_of, text_of, uid_list, xml_reply
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.stretches import Stretches
from retrieval.gateway.summaries import Summaries

_MAX_IDS: Final = 10_000
# Databases whose own layout is the default.
_OWN_LAYOUT: Final[frozenset[Database]] = frozenset({"gene", "snp", "clinvar"})
Found = Iterator[tuple[str, Record | None]]


def esummary(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    """Return the document summaries of a call; ``version=2.0`` selects a database's own XML layout."""
    uids = uid_list(params)
    if not uids:
        return esummary_error(params, "Empty id list - nothing todo")
    if len(uids) > _MAX_IDS:
        return esummary_error(params, f"Too many UIDs in request. Maximum number of UIDs is {_MAX_IDS}.")
    uids = page_of(uids, params)
    bad = next((index for index, uid in enumerate(uids) if not _is_uid(db, uid)), None)
    complaint = "" if bad is None else f"Invalid uid {uids[bad]} at position= {bad}"
    stretches = Stretches(store)
    found = (pair for uid in uids if _is_uid(db, uid) for pair in _found(store, stretches, db, uid))
    forms = Summaries(store)
    if is_json(params):
        return _as_json(forms, found, complaint)
    if db in _OWN_LAYOUT or params.get("version", "").strip() == "2.0":
        documents = (forms.markup(record) if record else v2_error(uid) for uid, record in found)
        return v2_reply(doctype_of(db), build_of(store), documents, complaint)
    return v1_reply(((uid, forms.items(record) if record else None) for uid, record in found), complaint)


def esummary_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("esummary", {"esummaryresult": [message]})
    return xml_reply("eSummaryResult", V1, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _is_uid(db: Database, uid: str) -> bool:
    return db == "nuccore" or (uid.isascii() and uid.isdigit() and len(uid) <= 12)


def _found(store: GatewayStore, stretches: Stretches, db: Database, uid: str) -> Found:
    """Yield (UID, record) for an ID; in nuccore an accession names all its segments."""
    if db != "nuccore":
        number = str(int(uid))
        record = store.record(db, number)
        yield (number if record else uid), record
        return
    named = stretches.named(uid)
    yield from ((stretch.uid, stretch) for stretch in named)
    if not named:
        yield uid, None


def _as_json(forms: Summaries, found: Found, complaint: str) -> Reply:
    documents: dict[str, Any] = {
        uid: forms.document(record) if record else {"uid": uid, "error": UNKNOWN} for uid, record in found
    }
    result = {"uids": list(documents), **documents}
    return json_reply("esummary", {**({"error": complaint} if complaint else {}), "result": result})
