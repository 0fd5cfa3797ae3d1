"""Parse replies: convert a checked call and a body to records.

Pure; no network, no prompts. Formats follow the E-utilities manual (NBK25499) and recorded replies. An unexpected body
raises an error of a named type and is never an empty result; a truncated body keeps the whole records before the cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from retrieval.errors import BlastFailed, NcbiError, NcbiMalformed, NcbiReplyError
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.ncbi.calls.parameter_classes import common_name
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.ncbi.replies.records import (
    BlastResult,
    DocRecord,
    FailedRecord,
    GeneRecord,
    GeneType,
    IdList,
    OmimRecord,
    ParsedReply,
    Record,
    RecordList,
    SnpRecord,
    TextRecord,
)
from retrieval.types import NcbiCall, RawReply

# Held against the locus types of HGNC's 43,000 approved names (docs/benchmarks.md). "(gene/pseudogene)" is a gene of
# which some people have the pseudogene.
_PSEUDOGENE = re.compile(r"(?<!gene/)pseudogene", re.IGNORECASE)
_RNA = re.compile(
    r"non-?(protein )?coding|antisense RNA|\b(antisense|intronic|divergent|bidirectional|sense) transcript|"
    r"^microRNA\b|\b(lnc|linc)RNA\b|\b(sno|sca|sn|vault |Y |7SK |7SL )RNA(?= \d|$| host)|host genes?( \d+)?$|"
    r"\b(ribosomal|transfer|small nuclear|small Cajal body-specific) RNA( [\w.-]*\d[\w.-]*)?$|^small nucleolar RNA\b|"
    r"^piwi-interacting RNA|^RNA, |\bRNA gene\b|RNA component\b(?! interacting)|"
    r"(?<![mt])RNA( transcript)?( [A-Z]?\d*)?$|(?<!receptor )overlapping transcript|\btranscript, (Y-linked|XIST)|"
    r"downstream neighbor$|cancer susceptibility \d+$|HLA complex group \d+$|region, candidate \d+$|"
    r"(?<!inducible )(?<!induced )(?<!early )(?<!region )(?<!overlapping )(?<!mesoderm specific )"
    r"(?<!leukocyte specific )(?<!placenta expressed )\btranscript( \d+[A-Z]?)?$",
    re.IGNORECASE,
)
# "tRNA-Ala", but not "tRNA-histidine guanylyltransferase".
_TRNA = re.compile(
    r"(^|encoded (mitochondrial )?)tRNA( suppressor|-([A-Z][a-z]{2}|[A-Z]\b|iMet|SeC|undetermined)\b)|encoded \d+S rRNA"
)
_RNA_FAMILY = re.compile(
    r"family with sequence similarity (27|66|74|85|87|88|95|99|106|138|157|182|201|215|223|224|225|226|230|238|239|242|"
    r"245|247) member\b"
)
# A summary that says what the gene's product is; "encodes a protein that binds non-coding RNA" says another thing.
_RNA_SUMMARY = re.compile(
    r"^(?:long |small )?non-?coding RNA\b|"
    r"\b(?:gene|locus)\b(?:(?!protein|enzyme|subunit|receptor|factor)[^.]){0,60}"
    r"\b(?:produces|encodes|represents|is|expresses)\b(?:(?!protein\b|enzyme|subunit|receptor|factor)[^.]){0,60}"
    r"\bnon-?(?:protein[- ])?coding (?:RNA|transcript)\b",
    re.IGNORECASE,
)
_UNCHARACTERIZED = re.compile(r"^uncharacterized (LOC\d+|gene)", re.IGNORECASE)
_PROTEIN = re.compile(r"\bprotein\b", re.IGNORECASE)


def gene_type(name: str, designations: str = "", summary: str = "") -> GeneType:
    """Return the type of the gene with that name.

    ``designations`` are the other names; a summary that mentions the encoded protein or RNA settles ambiguous names.
    """
    if _PSEUDOGENE.search(name):
        return "pseudogene"
    if _RNA.search(name) or re.search(r"\((non-protein coding|pseudogene)\)", designations):
        return "pseudogene" if "(pseudogene)" in designations and not _RNA.search(name) else "ncRNA"
    if _TRNA.search(name) or _RNA_FAMILY.match(name) or _RNA_SUMMARY.search(summary):
        return "ncRNA"
    if _UNCHARACTERIZED.match(name) and not _PROTEIN.search(designations + summary):
        return "ncRNA"
    return "protein-coding"


_FASTA_HEAD = 120  # letters of a sequence that are shown
# Most informative fields of the databases without a record type of their own, in reading order.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "pubmed": ("title", "source", "pubdate", "lastauthor"),
    "nuccore": ("title", "caption", "organism", "slen", "moltype", "genome", "chromosome"),
    "protein": ("title", "caption", "organism", "slen"),
    "taxonomy": ("scientificname", "commonname", "rank", "division", "taxid"),
    "medgen": ("title", "conceptid", "definition", "semantictype"),
    "clinvar": ("title", "accession", "clinical_significance", "germline_classification", "gene_sort", "chr_sort"),
    "einfo": ("title", "records", "fields"),
}


def doc_from_mapping(db: str, uid: str, doc: Mapping[str, Any]) -> Record:
    """Convert one document summary to a record.

    ``doc`` has the lower-case keys of the JSON form (version 2.0), whatever its source format.
    """
    if db == "gene":
        return _gene(uid, doc)
    if db == "snp":
        return _snp(uid, doc)
    if db == "omim":
        return _omim(uid, doc)
    names = _FIELDS.get("nuccore" if db == "nucleotide" else db, ("title", "name", "description"))
    fields = {name: text for name in names if (text := _flat(doc.get(name)))}
    title = fields.pop("title", "") or fields.pop("scientificname", "")
    return DocRecord(uid, title, fields, is_retracted=_RETRACTED.search(_notices(doc)) is not None)


_RETRACTED: Final = re.compile(r"\bretracted publication\b|\b(?<!partial )retraction in\b", re.IGNORECASE)


def _notices(doc: Mapping[str, Any]) -> str:
    """Return an article's publication types and the kinds of notices that refer to it."""
    references = doc.get("references")
    listed = references if isinstance(references, list) else []
    kinds = [one.get("reftype") for one in listed if isinstance(one, Mapping)]
    return "; ".join([_flat(doc.get("pubtype")), *map(_flat, kinds)])


def _flat(value: Any) -> str:
    """Return a field of any type as one line of text."""
    if isinstance(value, Mapping):
        return _flat(value.get("description") or value.get("value") or value.get("name"))
    if isinstance(value, list):
        return ", ".join(filter(None, map(_flat, value)))
    return " ".join(str(value).split()) if value not in (None, "") else ""


def _gene(uid: str, doc: Mapping[str, Any]) -> GeneRecord:
    organism = doc.get("organism") or {}
    name = _flat(doc.get("description"))
    summary = _flat(doc.get("summary"))
    return GeneRecord(
        uid=uid,
        symbol=_flat(doc.get("name")),
        name=name,
        organism=common_name(_flat(organism.get("scientificname")), _flat(organism.get("commonname"))),
        scientific_name=_flat(organism.get("scientificname")),
        chromosome=_flat(doc.get("chromosome")),
        location=_flat(doc.get("maplocation")),
        aliases=_split(_flat(doc.get("otheraliases"))),
        other_names=_split(_flat(doc.get("otherdesignations")), "|"),
        summary=summary,
        gene_type=gene_type(name, _flat(doc.get("otherdesignations")), summary),
        replaced_by=_flat(doc.get("currentid")).strip("0") and _flat(doc.get("currentid")),
    )


def _split(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def _snp(uid: str, doc: Mapping[str, Any]) -> SnpRecord:
    alleles = re.search(r"SEQ=\[([^\[\]]+)\]", _flat(doc.get("docsum")))
    genes = tuple((str(g.get("name", "")), str(g.get("gene_id", ""))) for g in doc.get("genes") or ())
    return SnpRecord(
        uid=uid,
        chromosome=_flat(doc.get("chr")),
        position=_flat(doc.get("chrpos")),
        genes=genes,
        function=_flat(doc.get("fxn_class")).replace(",", ", "),
        alleles=alleles[1] if alleles else "",
        clinical=_flat(doc.get("clinical_significance")),
    )


def _omim(uid: str, doc: Mapping[str, Any]) -> OmimRecord:
    oid = _flat(doc.get("oid"))
    title, _, symbol = _flat(doc.get("title")).partition(";")
    return OmimRecord(
        uid=uid,
        prefix=oid[:1] if oid[:1] in "*+#%^" else "",
        title=title.strip(),
        symbol=symbol.split(";")[0].strip(),
        loci=tuple(dict.fromkeys(_split(_flat(doc.get("locus"))))),
        other_titles=_flat(doc.get("alttitles")),
    )


def mapping_from_xml(db: str, element: ElementTree.Element) -> dict[str, Any]:
    """Convert a ``<DocumentSummary>`` to the keys of the JSON form.

    Names differ only in case and in the lists handled here.
    """
    doc: dict[str, Any] = {child.tag.lower(): (child.text or "").strip() for child in element}
    if (organism := element.find("Organism")) is not None:
        doc["organism"] = {c.tag.lower(): (c.text or "").strip() for c in organism} or doc.get("organism", "")
    if db == "pubmed":
        doc["pubtype"] = [kind.text or "" for kind in element.iter("PubType")]
        doc["references"] = [{"reftype": kind.text or ""} for kind in element.iter("RefType")]
    if db == "snp":
        doc["genes"] = [
            {"name": g.findtext("NAME") or "", "gene_id": g.findtext("GENE_ID") or ""} for g in element.iter("GENE_E")
        ]
    return doc


_DOCSUM = re.compile(r"^[ \t]*(\d{1,6})\. ", re.MULTILINE)
_OFFICIAL = re.compile(r"Official Symbol: (\S+) and Name: (.*)")
_BRACKETED = re.compile(r"\[([^\[\]]*?)(?: \(([^()]*)\))?\]\s*$")


def docs_from_text(body: str) -> list[Record]:
    """Parse numbered plain-text summaries, [] if the body has none.

    An efetch of gene without a format returns them.
    """
    starts = [m.start() for m in _DOCSUM.finditer(body)]
    ends = [*starts[1:], len(body)]
    return [_gene_from_text(body[a:b].strip()) for a, b in zip(starts, ends, strict=False)]


def _gene_from_text(block: str) -> Record:
    lines = block.split("\n")
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    uid = values.get("ID", "").split()[0] if values.get("ID") else ""
    if not uid:
        return FailedRecord("", " ".join(block.split())[:120])
    symbol = lines[0].split(". ", 1)[-1].strip()
    official = _OFFICIAL.search(block)
    described = official[2] if official else next((line for line in lines[1:] if _BRACKETED.search(line)), "")
    bracket = _BRACKETED.search(described)
    name = _BRACKETED.sub("", described).strip()
    chromosome, _, rest = values.get("Chromosome", "").partition(";")
    replaced = re.search(r"replaced with GeneID: (\d+)", block)
    return GeneRecord(
        uid=uid,
        symbol=official[1] if official else symbol,
        name=name,
        organism=common_name(bracket[1], bracket[2] or "") if bracket else "",
        scientific_name=bracket[1] if bracket else "",
        chromosome=chromosome.strip(),
        location=rest.replace("Location:", "").strip(),
        aliases=_split(values.get("Other Aliases", "")),
        other_names=_split(values.get("Other Designations", ""), ";"),
        gene_type=gene_type(name, values.get("Other Designations", "")),
        replaced_by=replaced[1] if replaced else "",
    )


def fasta_records(body: str) -> Iterator[TextRecord]:
    for block in body.split(">")[1:]:
        title, _, letters = block.partition("\n")
        sequence = "".join(letters.split())
        yield TextRecord(title.strip(), sequence[:_FASTA_HEAD], len(sequence))


_HTML = re.compile(r"^\s*(<\?xml[^>]*>\s*)?<(!doctype html|html)\b", re.IGNORECASE)
_DOCUMENT: Final = ("<DocumentSummary ", "</DocumentSummary>")


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
    except RecursionError as error:
        raise NcbiMalformed("NCBI's JSON is nested too deep") from error
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
        except (json.JSONDecodeError, RecursionError):
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
    try:
        refuse_declared(body)
    except DeclaredXml as error:
        raise NcbiMalformed("NCBI's XML declares entities, which a reply never does") from error
    if docs := [_xml_document(call.db, text) for text in _documents(body)]:
        return RecordList(call.db, tuple(docs), cut=body.count(_DOCUMENT[0]) > len(docs))
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


def _documents(body: str) -> Iterator[str]:
    """Yield the whole document summaries, in time that is linear in the body's length whatever it holds."""
    start, end = body.find(_DOCUMENT[0]), 0
    while start >= 0 and (end := body.find(_DOCUMENT[1], start)) >= 0:
        end += len(_DOCUMENT[1])
        yield body[start:end]
        start = body.find(_DOCUMENT[0], end)


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


_ENTRY: Final = re.compile(r"^[0-9]{1,6}\. (Error occurred)?", re.MULTILINE)
_XML_RECORD: Final = re.compile(r"<[A-Za-z][\w.:-]*[^<>]*>\s*<[A-Za-z]")
_XML_ERROR: Final = re.compile(r"<eFetchResult>\s*<ERROR>")
_XML_HEAD: Final = re.compile(r"<[?!][^>]*>")
_HEAD_CHARS: Final = 20_000
# Exceptions of the parsers for a reply of an unknown shape.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def is_empty_reply(call: NcbiCall, reply: RawReply) -> bool:
    """Return whether nothing was counted, linked or aligned, or every record is an error.

    An overview (einfo) never counts as empty.
    """
    if call.endpoint == "efetch":
        return _no_document(call, reply)
    try:
        parsed = parse_reply(call, reply)
    except NcbiError as error:
        return is_not_found(error)
    except _UNREADABLE:
        return False  # the session parses the same reply and reports the error
    match parsed:
        case IdList(count=count, ids=ids):
            return not count and not ids
        case RecordList(records=records):
            return all(isinstance(record, FailedRecord) for record in records)
        case BlastResult(hits=hits):
            return not hits


def is_not_found(error: NcbiError) -> bool:
    """Return whether an error means that the source lacks the item: no such database, record or search."""
    return isinstance(error, NcbiReplyError | BlastFailed)


def _no_document(call: NcbiCall, reply: RawReply) -> bool:
    """Return whether an efetch body has no record, judged by its outline.

    Every database has its own efetch format, and not all of them are parsed here.
    """
    body = reply.body.lstrip("\ufeff").strip()
    if body.startswith("<"):
        head = _XML_HEAD.sub("", body[:_HEAD_CHARS])
        return _XML_RECORD.search(head) is None or _XML_ERROR.search(head) is not None
    entries = _ENTRY.findall(body)
    return not body or body.startswith("Error") or (bool(entries) and all(entries))
