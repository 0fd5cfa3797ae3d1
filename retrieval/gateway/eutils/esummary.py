"""Implement esummary: document summaries as JSON, and as XML in the older layout or in each database's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from retrieval.formats.records import (
    Article,
    Concept,
    Database,
    FullText,
    Gene,
    OmimEntry,
    Record,
    SequenceSegment,
    Snp,
    Taxon,
    Variation,
    database_of,
)
from retrieval.gateway.citations.pubmed_citation import citation_of, element_of
from retrieval.gateway.documents.docsum_xml import (
    LAYOUTS,
    UNKNOWN,
    V1,
    Item,
    build_of,
    doctype_of,
    gene_markup,
    items_of,
    snp_markup,
    v1_reply,
    v2_document,
    v2_error,
    v2_reply,
)
from retrieval.gateway.documents.genes import gene_document, omim_document, segment_document, snp_document
from retrieval.gateway.documents.literature import pmc_citation, pmc_document, pmc_items, pubmed_document, pubmed_items
from retrieval.gateway.documents.taxonomy import Lineages, taxonomy_document, taxonomy_items
from retrieval.gateway.documents.variation import clinvar_document, medgen_document, medgen_items
from retrieval.gateway.http_reply import Reply, is_json, json_reply, page_of, text_of, uid_list, xml_reply
from retrieval.gateway.store.reader import GatewayStore, SegmentLookup

_V1_NAMES: Final = {"oid": "Oid", "alttitles": "AltTitles", "accessionversion": "AccessionVersion", "slen": "Length"}


class Summaries:
    """Build the document summaries of one call.

    Methods raise GatewayDataError if a stored article cannot be read.
    """

    def __init__(self, store: GatewayStore) -> None:
        self._store = store

    @cached_property
    def _lineages(self) -> Lineages:
        return Lineages(self._store)

    def document(self, record: Record) -> dict[str, Any]:
        """Return the JSON form."""
        match record:
            case Gene():
                return gene_document(record)
            case Snp():
                return snp_document(record)
            case OmimEntry():
                return omim_document(record)
            case SequenceSegment():
                return segment_document(record)
            case Article():
                return pubmed_document(citation_of(element_of(record)), record.date)
            case FullText():
                return pmc_document(pmc_citation(record), record)
            case Variation():
                return clinvar_document(record)
            case Taxon():
                return taxonomy_document(record, self._lineages.ancestors(record))
            case Concept():
                return medgen_document(record)

    def items(self, record: Record) -> list[Item]:
        """Return the items of the older XML layout."""
        match record:
            case Article():
                return pubmed_items(citation_of(element_of(record)))
            case FullText():
                return pmc_items(pmc_citation(record))
            case Taxon():
                return taxonomy_items(self.document(record))
            case Concept():
                return medgen_items(record)
            case _:
                return items_of(self.document(record), _V1_NAMES)

    def markup(self, record: Record) -> str:
        """Return the markup of the database's own XML layout."""
        document = self.document(record)
        if isinstance(record, Gene):
            return gene_markup(document)
        if isinstance(record, Snp):
            return snp_markup(document)
        return v2_document(document, LAYOUTS[database_of(record)])


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
    message = "" if bad is None else f"Invalid uid {uids[bad]} at position= {bad}"
    found = _found(store, db, [uid for uid in uids if _is_uid(db, uid)])
    forms = Summaries(store)
    if is_json(params):
        return _as_json(forms, found, message)
    if db in _OWN_LAYOUT or params.get("version", "").strip() == "2.0":
        documents = (forms.markup(record) if record else v2_error(uid) for uid, record in found)
        return v2_reply(doctype_of(db), build_of(store), documents, message)
    return v1_reply(((uid, forms.items(record) if record else None) for uid, record in found), message)


def esummary_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("esummary", {"esummaryresult": [message]})
    return xml_reply("eSummaryResult", V1, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _is_uid(db: Database, uid: str) -> bool:
    return db == "nuccore" or (uid.isascii() and uid.isdigit() and len(uid) <= 12)


def _found(store: GatewayStore, db: Database, uids: Sequence[str]) -> Found:
    """Yield (UID, record) for each ID; in nuccore an accession names all its segments."""
    if db == "nuccore":
        segments = SegmentLookup(store)
        for uid in uids:
            named = segments.named(uid)
            yield from ((segment.uid, segment) for segment in named)
            if not named:
                yield uid, None
        return
    for uid in uids:
        number = str(int(uid))
        record = store.record(db, number)
        yield (number if record else uid), record


def _as_json(forms: Summaries, found: Found, message: str) -> Reply:
    documents: dict[str, Any] = {
        uid: forms.document(record) if record else {"uid": uid, "error": UNKNOWN} for uid, record in found
    }
    result = {"uids": list(documents), **documents}
    return json_reply("esummary", {**({"error": message} if message else {}), "result": result})
