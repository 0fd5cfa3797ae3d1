"""Parse the XML forms of the E-utilities, by their root element.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.errors import NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.ncbi.calls.parameter_classes import common_name
from retrieval.ncbi.replies.articles import articles_from_xml
from retrieval.ncbi.replies.gene_types import gene_type
from retrieval.ncbi.replies.records import (
    DocRecord,
    FailedRecord,
    GeneRecord,
    GeneType,
    IdList,
    ParsedReply,
    Record,
    RecordList,
)
from retrieval.ncbi.replies.sequences import sequences_from_gbset, sequences_from_tseqset
from retrieval.ncbi.replies.summaries import database_overview, doc_from_mapping, linked_databases, mapping_from_xml

_DOCUMENT: Final = ("<DocumentSummary ", "</DocumentSummary>")
_ARTICLES: Final = "<PubmedArticleSet"
_HEAD_CHARS: Final = 2000
_GENE_TYPES: Final[Mapping[str, GeneType]] = {
    "protein-coding": "protein-coding",
    "pseudo": "pseudogene",
    **dict.fromkeys(("ncRNA", "tRNA", "rRNA", "snRNA", "scRNA", "snoRNA", "miscRNA"), "ncRNA"),
}


def parse_xml(db: str, body: str) -> ParsedReply:
    """Parse one body.

    Raises:
        NCBI_REPLY_ERROR: it is NCBI's own error.
        NCBI_MALFORMED: it is of another kind, or cut off before its first record.
    """
    try:
        refuse_declared(body)
    except DeclaredXml as error:
        raise NcbiError("NCBI's XML declares entities, which a reply never does", NCBI_MALFORMED) from error
    if docs := [_xml_document(db, text) for text in _documents(body)]:
        return RecordList(db, tuple(docs), cut=body.count(_DOCUMENT[0]) > len(docs))
    if _ARTICLES in body[:_HEAD_CHARS]:
        records, cut = articles_from_xml(body)
        if records or not cut:
            return RecordList(db, tuple(records), cut=cut)
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise NcbiError("NCBI's XML ends before its first record does", NCBI_MALFORMED) from error
    read = _ROOTS.get(root.tag)
    if read is None:
        _refuse_error(root)
        raise NcbiError(f"NCBI sent XML of an unknown kind: <{root.tag[:40]}>", NCBI_MALFORMED)
    return read(db, root)


def _documents(body: str) -> Iterator[str]:
    """Yield the whole document summaries, in time that is linear in the body's length whatever it holds."""
    start, end = body.find(_DOCUMENT[0]), 0
    while start >= 0 and (end := body.find(_DOCUMENT[1], start)) >= 0:
        end += len(_DOCUMENT[1])
        yield body[start:end]
        start = body.find(_DOCUMENT[0], end)


def _xml_document(db: str, text: str) -> Record:
    try:
        element = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise NcbiError("a document summary is no valid XML", NCBI_MALFORMED) from error
    uid = element.get("uid", "")
    if message := element.findtext("error"):
        return FailedRecord(uid, message)
    return doc_from_mapping(db, uid, mapping_from_xml(db, element))


def _texts(root: Element, *paths: str) -> tuple[str, ...]:
    return tuple(text for path in paths for one in root.iterfind(path) if (text := (one.text or "").strip()))


def _search(_: str, root: Element) -> ParsedReply:
    ids = _texts(root, "IdList/Id")
    if not ids:
        _refuse_error(root)
    not_found = _texts(root, "ErrorList/PhraseNotFound", "WarningList/QuotedPhraseNotFound")
    ignored = _texts(root, "WarningList/PhraseIgnored", "ErrorList/FieldNotFound")
    count = int(root.findtext("Count") or len(ids))
    return IdList(count, ids, not_found, ignored, is_count=root.find("IdList") is None)


def _refuse_error(root: Element) -> None:
    if message := (root.findtext(".//ERROR") or "").strip():
        raise NcbiError(message, NCBI_REPLY_ERROR)


def _summaries(db: str, root: Element) -> ParsedReply:
    sums = root.findall("DocSum")
    if not sums:
        _refuse_error(root)
    return RecordList(db, tuple(doc_from_mapping(db, one.findtext("Id") or "", _items(one)) for one in sums))


def _items(doc: Element) -> dict[str, Any]:
    """Return the fields of a version 1.0 XML summary: named items instead of named elements, lists of items too."""
    found: dict[str, Any] = {}
    for item in doc.iterfind("Item"):
        parts = [(one.text or "").strip() for one in item.iterfind("Item")]
        found[item.get("Name", "").lower()] = parts or (item.text or "").strip()
    return found | ({"pubtype": found["pubtypelist"]} if "pubtypelist" in found else {})


def _overview(_: str, root: Element) -> ParsedReply:
    info = root.find("DbInfo")
    if info is None:
        names = _texts(root, "DbList/DbName")
        if not names:
            _refuse_error(root)
        return IdList(len(names), names)
    fields = _texts(info, "FieldList/Field/Name")
    name, title, count = (info.findtext(tag) or "" for tag in ("DbName", "Description", "Count"))
    return database_overview(name, title, count, fields)


def _links(_: str, root: Element) -> ParsedReply:
    checks = root.findall("LinkSet/IdCheckList")
    if checks:
        return RecordList("elink", tuple(record for one in checks for record in _checked(one)))
    ids = tuple(dict.fromkeys(_texts(root, "LinkSet/LinkSetDb/Link/Id")))
    if not ids:
        _refuse_error(root)
    return IdList(len(ids), ids)


def _checked(found: Element) -> Iterator[Record]:
    for one in found.iterfind("IdLinkSet"):
        names = [(link.findtext("DbTo") or "", link.findtext("LinkName") or "") for link in one.iterfind("LinkInfo")]
        yield linked_databases(one.findtext("Id") or "", names)
    for one in found.iterfind("Id"):
        answer = one.get("HasNeighbor") or one.get("HasLinkOut") or ""
        yield DocRecord((one.text or "").strip(), f"has neighbors: {answer}")


def _taxa(db: str, root: Element) -> ParsedReply:
    return RecordList(db, tuple(map(_taxon, root.iterfind("Taxon"))))


def _taxon(taxon: Element) -> Record:
    common = _texts(taxon, "OtherNames/GenbankCommonName", "OtherNames/CommonName")
    fields = {
        "commonname": common[0] if common else "",
        "rank": taxon.findtext("Rank") or "",
        "division": taxon.findtext("Division") or "",
        "synonyms": ", ".join(_texts(taxon, "OtherNames/Synonym")[:5]),
        "parent": taxon.findtext("ParentTaxId") or "",
        "lineage": taxon.findtext("Lineage") or "",
    }
    shown = {name: text.strip() for name, text in fields.items() if text.strip()}
    return DocRecord(taxon.findtext("TaxId") or "", taxon.findtext("ScientificName") or "", shown)


def _sequences(db: str, root: Element) -> ParsedReply:
    return RecordList(db, tuple(sequences_from_gbset(root)))


def _short_sequences(db: str, root: Element) -> ParsedReply:
    return RecordList(db, tuple(sequences_from_tseqset(root)))


def _genes(db: str, root: Element) -> ParsedReply:
    return RecordList(db, tuple(map(_gene, root.iterfind("Entrezgene"))))


def _gene(gene: Element) -> Record:
    named, organism = "Entrezgene_gene/Gene-ref/Gene-ref_", "Entrezgene_source/BioSource/BioSource_org/Org-ref/Org-ref_"
    name, summary = gene.findtext(f"{named}desc") or "", gene.findtext("Entrezgene_summary") or ""
    designations = _texts(gene, "Entrezgene_prot/Prot-ref/Prot-ref_name/Prot-ref_name_E")
    kind = gene.find("Entrezgene_type")
    derived = gene_type(name, "|".join(designations), summary)
    scientific = gene.findtext(f"{organism}taxname") or ""
    track = "Entrezgene_track-info/Gene-track/Gene-track_"
    current = _texts(gene, f"{track}current-id/Dbtag/Dbtag_tag/Object-id/Object-id_id")
    return GeneRecord(
        uid=gene.findtext(f"{track}geneid") or "",
        symbol=gene.findtext(f"{named}locus") or gene.findtext(f"{named}locus-tag") or "",
        name=name,
        organism=common_name(scientific, gene.findtext(f"{organism}common") or ""),
        scientific_name=scientific,
        chromosome=_chromosome(gene),
        location=gene.findtext(f"{named}maploc") or "",
        aliases=_texts(gene, f"{named}syn/Gene-ref_syn_E"),
        other_names=designations,
        summary=summary,
        gene_type=_GENE_TYPES.get(kind.get("value", "") if kind is not None else "", derived),
        replaced_by=current[0] if current else "",
    )


def _chromosome(gene: Element) -> str:
    for one in gene.iterfind("Entrezgene_source/BioSource/BioSource_subtype/SubSource"):
        kind = one.find("SubSource_subtype")
        if kind is not None and kind.get("value") == "chromosome":
            return one.findtext("SubSource_name") or ""
    return ""


def _id_list(_: str, root: Element) -> ParsedReply:
    ids = _texts(root, "Id")
    return IdList(len(ids), ids)


_ROOTS: Final[Mapping[str, Callable[[str, Element], ParsedReply]]] = {
    "eSearchResult": _search,
    "eSummaryResult": _summaries,
    "eInfoResult": _overview,
    "eLinkResult": _links,
    "TaxaSet": _taxa,
    "GBSet": _sequences,
    "INSDSet": _sequences,
    "TSeqSet": _short_sequences,
    "Entrezgene-Set": _genes,
    "IdList": _id_list,
}
