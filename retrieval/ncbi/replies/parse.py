"""Parse replies: convert a checked call and a body to records.

Pure; no network, no prompts. Formats follow the E-utilities manual (NBK25499) and recorded replies; every form that
the call table lets a model ask for is read. An unexpected body raises an error of a named type and is never an empty
result; a truncated body keeps the whole records before the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from xml.etree import ElementTree

from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.ncbi.replies.parse_text import excerpt, parse_text
from retrieval.ncbi.replies.parse_xml import parse_xml
from retrieval.ncbi.replies.records import (
    BlastResult,
    DocRecord,
    FailedRecord,
    GeneRecord,
    IdList,
    ParsedReply,
    Record,
    RecordList,
    TextRecord,
)
from retrieval.ncbi.replies.summaries import database_overview, doc_from_mapping, linked_databases
from retrieval.types import NcbiCall, RawReply

_HTML = re.compile(r"^\s*(<\?xml[^>]*>\s*)?<(!doctype html|html)\b", re.IGNORECASE)
_NO_RECORD: Final = "no record came back"
_WORD: Final = re.compile(r"[A-Za-z0-9_.]+")
_VERSION: Final = re.compile(r"\.\d{1,3}$")


def parse_reply(call: NcbiCall, raw: RawReply) -> ParsedReply:
    """Parse one reply; ids of the call that no record came back for are failed records at the end.

    Raises:
        NCBI_REPLY_ERROR: the body is NCBI's own error text.
        NCBI_MALFORMED: the body is not in a format of this call (HTML page, truncated before its first record).
        BLAST_FAILED: the search failed or its RID is unknown.
    """
    body = raw.body.lstrip("\ufeff")
    if not body.strip():
        raise NcbiError("NCBI sent an empty body", NCBI_MALFORMED)
    if _HTML.match(body):
        raise NcbiError("NCBI sent a web page where data was asked for", NCBI_MALFORMED)
    if call.endpoint in ("blast_put", "blast_get"):
        return parse_blast(body)
    parsed = _parsed(call, body)
    if isinstance(parsed, RecordList) and call.endpoint in ("efetch", "esummary"):
        return replace(parsed, records=(*parsed.records, *_without_record(call, parsed)))
    return parsed


def _parsed(call: NcbiCall, body: str) -> ParsedReply:
    if body.lstrip()[:1] in "{[":
        return _from_json(call, body)
    if body.lstrip().startswith("<"):
        return parse_xml(call.db, body)
    if call.endpoint in ("efetch", "esummary"):
        return parse_text(call.db, body)
    raise NcbiError(f"{call.endpoint} sent plain text: {excerpt(body)}", NCBI_MALFORMED)


def _without_record(call: NcbiCall, parsed: RecordList) -> list[Record]:
    """Return a failed record for each requested id that the reply has no record for.

    A record may have another id than was asked for (a version, a number for an accession), so that where the ids that
    no record has are more than the records that are missing, only their number is told.
    """
    ids = list(dict.fromkeys(filter(None, call.params.get("id", "").split(","))))
    first = int(call.params.get("retstart", 0))
    ids = ids[first : first + int(call.params.get("retmax", len(ids)))]
    num_missing = len(ids) - len(parsed.records)
    if parsed.cut or num_missing <= 0:
        return []
    known = frozenset(name for record in parsed.records for name in _names_of(record))
    missing = [uid for uid in ids if known.isdisjoint((uid.upper(), _VERSION.sub("", uid).upper()))]
    if len(missing) == num_missing:
        return [FailedRecord(uid, _NO_RECORD) for uid in missing]
    return [FailedRecord("", _NO_RECORD) for _ in range(num_missing)]


def _names_of(record: Record) -> Iterable[str]:
    """Return the ids of a record, with and without version: of a sequence also those in its fields and title."""
    texts = [record.title.partition(" ")[0]] if isinstance(record, TextRecord) else [record.uid]
    if isinstance(record, DocRecord):
        texts += [record.fields.get("caption", ""), record.fields.get("accession", "")]
    words = [word.upper() for text in texts for word in _WORD.findall(text)]
    return (*words, *(_VERSION.sub("", word) for word in words))


def _from_json(call: NcbiCall, body: str) -> ParsedReply:
    document, cut = _load_json(body)
    if error := document.get("error") or document.get("ERROR"):
        raise NcbiError(str(error), NCBI_REPLY_ERROR)
    if "esearchresult" in document:
        return _id_list(document["esearchresult"])
    if "linksets" in document:
        return _links_json(document)
    if "einforesult" in document:
        return _einfo(document["einforesult"])
    if "result" in document:
        result = document["result"]
        uids = [str(uid) for uid in result.get("uids", ())]
        docs = [_document(call.db, uid, result[uid]) for uid in uids if uid in result]
        return RecordList(call.db, tuple(docs), cut=cut)
    if "esummaryresult" in document:
        raise NcbiError(excerpt(" ".join(map(str, document["esummaryresult"]))), NCBI_REPLY_ERROR)
    raise NcbiError(f"{call.endpoint} sent JSON of an unknown shape", NCBI_MALFORMED)


def _load_json(body: str) -> tuple[dict[str, Any], bool]:
    """Return the document, and whether it was truncated (then only whole records of an esummary remain)."""
    try:
        # NCBI sometimes puts raw newlines into strings.
        document = json.loads(body, strict=False)
    except json.JSONDecodeError as error:
        if "NCBI C++ Exception" in body:
            raise NcbiError(excerpt(body), NCBI_REPLY_ERROR) from error
        return _salvage_json(body), True
    except RecursionError as error:
        raise NcbiError("NCBI's JSON is nested too deep", NCBI_MALFORMED) from error
    if not isinstance(document, dict):
        raise NcbiError("NCBI sent JSON that is no object", NCBI_MALFORMED)
    return document, False


def _salvage_json(body: str) -> dict[str, Any]:
    decoder = json.JSONDecoder(strict=False)
    match = re.search(r'"result"\s*:\s*\{\s*"uids"\s*:\s*', body)
    result: dict[str, Any] = {}
    if match:
        try:
            result["uids"], at = decoder.raw_decode(body, match.end())
            while entry := re.compile(r'\s*,\s*"(\w+)"\s*:\s*').match(body, at):
                result[entry[1]], at = decoder.raw_decode(body, entry.end())
        except (json.JSONDecodeError, RecursionError):
            pass  # the truncated record; those before it are whole
    if len(result) < 2:
        raise NcbiError("NCBI's JSON ends before its first record does", NCBI_MALFORMED)
    return {"result": result}


def _document(db: str, uid: str, value: Any) -> Record:
    if not isinstance(value, Mapping):
        return FailedRecord(uid, "no document summary")
    if error := value.get("error"):
        return FailedRecord(uid, str(error))
    return doc_from_mapping(db, uid, value)


def _id_list(result: Mapping[str, Any]) -> IdList:
    if error := result.get("ERROR"):
        raise NcbiError(str(error), NCBI_REPLY_ERROR)
    errors, warnings = result.get("errorlist") or {}, result.get("warninglist") or {}
    not_found = (*_strings(errors, "phrasesnotfound"), *_strings(warnings, "quotedphrasesnotfound"))
    ignored = (*_strings(warnings, "phrasesignored"), *_strings(errors, "fieldsnotfound"))
    ids = _strings(result, "idlist")
    count = int(result.get("count") or len(ids))
    return IdList(count, ids, not_found, ignored, is_count="idlist" not in result)


def _strings(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, values.get(name) or ()))


def _links_json(document: Mapping[str, Any]) -> ParsedReply:
    sets: Sequence[Mapping[str, Any]] = document["linksets"]
    if error := next(filter(None, (one.get("error") or one.get("ERROR") for one in sets)), None):
        raise NcbiError(str(error), NCBI_REPLY_ERROR)
    if any("idchecklist" in one for one in sets):
        return RecordList("elink", tuple(record for one in sets for record in _checked(one.get("idchecklist") or {})))
    links = (link for one in sets for db in one.get("linksetdbs", ()) for link in db.get("links", ()))
    # With cmd=neighbor_score, a link is an id with its score.
    ids = tuple(dict.fromkeys(str(link["id"] if isinstance(link, Mapping) else link) for link in links))
    return IdList(len(ids), ids)


def _checked(found: Mapping[str, Any]) -> list[Record]:
    """Return what acheck and ncheck say of each id: the links that it has, whether it has neighbors."""
    records = [
        linked_databases(str(one["id"]), [(link["dbto"], link["linkname"]) for link in one.get("linkinfos", ())])
        for one in found.get("idlinksets") or ()
    ]
    for one in found.get("ids") or ():
        answer = one.get("hasneighbor") or one.get("haslinkout") or ""
        records.append(DocRecord(str(one.get("value", "")), f"has neighbors: {answer}"))
    return records


def _einfo(result: Mapping[str, Any]) -> ParsedReply:
    if names := result.get("dblist"):
        return IdList(len(names), tuple(map(str, names)))
    info = result.get("dbinfo")
    info = info[0] if isinstance(info, list) and info else info
    if not isinstance(info, Mapping):
        raise NcbiError(excerpt(str(result.get("ERROR") or result)), NCBI_REPLY_ERROR)
    name, title, count = (str(info.get(key, "")) for key in ("dbname", "description", "count"))
    return database_overview(name, title, count, [str(one.get("name")) for one in info.get("fieldlist", ())])


# Exceptions of the parsers for a reply of an unknown shape.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def is_empty_reply(call: NcbiCall, reply: RawReply) -> bool:
    """Return whether nothing was counted, linked or aligned, or every record is an error or a gene's names alone.

    An overview (einfo) never counts as empty.
    """
    try:
        parsed = parse_reply(call, reply)
    except NcbiError as error:
        return _is_hollow(reply.body) if NCBI_MALFORMED.is_of(error) else is_not_found(error)
    except _UNREADABLE:
        return False  # the session parses the same reply and reports the error
    match parsed:
        case IdList(count=count, ids=ids):
            return not count and not ids
        case RecordList(records=records):
            return all(map(_says_little, records))
        case BlastResult(hits=hits):
            return not hits


def _says_little(record: Record) -> bool:
    return isinstance(record, FailedRecord) or (isinstance(record, GeneRecord) and record.has_names_only)


def _is_hollow(body: str) -> bool:
    """Return whether a body is one XML element with nothing in it: of a database whose records are not read here."""
    try:
        refuse_declared(body)
        root = ElementTree.fromstring(body.lstrip("\ufeff"))
    except (DeclaredXml, ElementTree.ParseError):
        return False
    return not len(root) and not (root.text or "").strip() and root.tag.lower() != "html"


def is_not_found(error: NcbiError) -> bool:
    """Return whether an error means that the source lacks the item: no such database, record or search."""
    return error.fault in (NCBI_REPLY_ERROR, BLAST_FAILED)
