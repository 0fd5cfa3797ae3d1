"""Parse replies: convert a checked call and a body to records.

Pure; no network, no prompts. Formats follow the E-utilities manual (NBK25499) and recorded replies. An unexpected body
raises an error of a named type and is never an empty result; a truncated body keeps the whole records before the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from retrieval.errors import NcbiMalformed, NcbiReplyError
from retrieval.ncbi.parse_blast import parse_blast
from retrieval.ncbi.parse_docs import doc_from_mapping, docs_from_text, fasta_records, mapping_from_xml
from retrieval.ncbi.records import FailedRecord, IdList, ParsedReply, Record, RecordList
from retrieval.types import NcbiCall, RawReply

_HTML = re.compile(r"^\s*(<\?xml[^>]*>\s*)?<(!doctype html|html)\b", re.IGNORECASE)
_DOCUMENT = re.compile(r"<DocumentSummary .*?</DocumentSummary>", re.DOTALL)


def parse_reply(call: NcbiCall, raw: RawReply) -> ParsedReply:
    """Parse one reply.

    Raises:
        NcbiReplyError: the body is NCBI's own error text.
        NcbiMalformed: the body is not in a format of this call (HTML page, truncated before its first record).
        BlastFailed: the search failed or its RID is unknown.
    """
    body = raw.body.lstrip("\ufeff")
    if not body.strip():
        raise NcbiMalformed("NCBI sent an empty body")
    if _HTML.match(body):
        raise NcbiMalformed("NCBI sent a web page where data was asked for")
    if call.endpoint in ("blast_put", "blast_get"):
        return parse_blast(body)
    if body.lstrip()[:1] in "{[":
        return _from_json(call, body)
    if body.lstrip().startswith("<"):
        return _from_xml(call, body)
    if call.endpoint in ("efetch", "esummary"):
        return _from_text(call, body)
    raise NcbiMalformed(f"{call.endpoint} sent plain text: {_excerpt(body)}")


def _from_json(call: NcbiCall, body: str) -> ParsedReply:
    document, cut = _load_json(body)
    if error := document.get("error") or document.get("ERROR"):
        raise NcbiReplyError(str(error))
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
        raise NcbiReplyError(_excerpt(" ".join(map(str, document["esummaryresult"]))))
    raise NcbiMalformed(f"{call.endpoint} sent JSON of an unknown shape")


def _load_json(body: str) -> tuple[dict[str, Any], bool]:
    """Return the document, and whether it was truncated (then only whole records of an esummary remain)."""
    try:
        # NCBI sometimes puts raw newlines into strings.
        document = json.loads(body, strict=False)
    except json.JSONDecodeError as error:
        if "NCBI C++ Exception" in body:
            raise NcbiReplyError(_excerpt(body)) from error
        return _salvage_json(body), True
    if not isinstance(document, dict):
        raise NcbiMalformed("NCBI sent JSON that is no object")
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
        except json.JSONDecodeError:
            pass  # the truncated record; those before it are whole
    if len(result) < 2:
        raise NcbiMalformed("NCBI's JSON ends before its first record does")
    return {"result": result}


def _document(db: str, uid: str, value: Any) -> Record:
    if not isinstance(value, Mapping):
        return FailedRecord(uid, "no document summary")
    if error := value.get("error"):
        return FailedRecord(uid, str(error))
    return doc_from_mapping(db, uid, value)


def _id_list(result: Mapping[str, Any]) -> IdList:
    if error := result.get("ERROR"):
        raise NcbiReplyError(str(error))
    missing = tuple(map(str, result.get("errorlist", {}).get("phrasesnotfound", ())))
    ids = tuple(map(str, result.get("idlist", ())))
    return IdList(int(result.get("count") or len(ids)), ids, missing)


def _links_json(document: Mapping[str, Any]) -> IdList:
    if error := next((s["error"] for s in document["linksets"] if s.get("error")), None):
        raise NcbiReplyError(str(error))
    ids = [str(i) for s in document["linksets"] for db in s.get("linksetdbs", ()) for i in db.get("links", ())]
    unique = tuple(dict.fromkeys(ids))
    return IdList(len(unique), unique)


def _einfo(result: Mapping[str, Any]) -> ParsedReply:
    if names := result.get("dblist"):
        return IdList(len(names), tuple(map(str, names)))
    info = result.get("dbinfo")
    info = info[0] if isinstance(info, list) and info else info
    if not isinstance(info, Mapping):
        raise NcbiReplyError(_excerpt(str(result.get("ERROR") or result)))
    fields = ", ".join(str(f.get("name")) for f in info.get("fieldlist", ()))
    doc = {"title": str(info.get("description", "")), "records": str(info.get("count", "")), "fields": fields}
    return RecordList("einfo", (doc_from_mapping("einfo", str(info.get("dbname", "")), doc),))


def _from_xml(call: NcbiCall, body: str) -> ParsedReply:
    if found := _DOCUMENT.findall(body):
        docs = [_xml_document(call.db, text) for text in found]
        return RecordList(call.db, tuple(docs), cut=body.count("<DocumentSummary ") > len(found))
    if "<!ENTITY" in body:
        raise NcbiMalformed("NCBI's XML declares entities, which a reply never does")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise NcbiMalformed("NCBI's XML ends before its first record does") from error
    if root.tag == "eLinkResult":
        return _links_xml(root)
    if (message := root.findtext(".//ERROR")) and root.find(".//Id") is None:
        raise NcbiReplyError(message)
    if root.tag == "eSearchResult":
        missing = tuple(e.text or "" for e in root.iterfind("ErrorList/PhraseNotFound"))
        ids = tuple(e.text or "" for e in root.iterfind("IdList/Id"))
        return IdList(int(root.findtext("Count") or len(ids)), ids, missing)
    if root.tag == "eSummaryResult" and (sums := root.findall("DocSum")):
        return RecordList(call.db, tuple(doc_from_mapping(call.db, d.findtext("Id") or "", _items(d)) for d in sums))
    if root.tag == "eInfoResult":
        names = tuple(e.text or "" for e in root.iterfind("DbList/DbName"))
        return IdList(len(names), names)
    raise NcbiMalformed(f"{call.endpoint} sent XML of an unknown kind: <{root.tag}>")


def _items(doc: ElementTree.Element) -> dict[str, Any]:
    """Return the fields of a version 1.0 XML summary: named items instead of named elements."""
    return {item.get("Name", "").lower(): (item.text or "").strip() for item in doc.iterfind("Item")}


def _links_xml(root: ElementTree.Element) -> IdList:
    ids = tuple(dict.fromkeys(e.text or "" for e in root.iterfind("LinkSet/LinkSetDb/Link/Id")))
    if not ids and (message := root.findtext(".//ERROR")):
        raise NcbiReplyError(message)
    return IdList(len(ids), ids)


def _xml_document(db: str, text: str) -> Record:
    try:
        element = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise NcbiMalformed("a document summary is no valid XML") from error
    uid = element.get("uid", "")
    if message := element.findtext("error"):
        return FailedRecord(uid, message)
    return doc_from_mapping(db, uid, mapping_from_xml(db, element))


def _from_text(call: NcbiCall, body: str) -> ParsedReply:
    if body.lstrip().startswith(">"):
        return RecordList(call.db, tuple(fasta_records(body)))
    if call.db == "gene" and (docs := docs_from_text(body)):
        return RecordList("gene", tuple(docs))
    if body.lstrip().startswith(("Seq-entry ::=", "Entrezgene ::=", "Seq-annot ::=")):
        raise NcbiMalformed("NCBI sent ASN.1, which is not read; ask for rettype=fasta or use esummary")
    raise NcbiReplyError(_excerpt(body))


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:160]
