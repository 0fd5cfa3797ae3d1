"""Convert document summaries to records, whatever form they came in.

Pure. A summary's fields have the lower-case names of NCBI's JSON (version 2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from retrieval.ncbi.calls.parameter_classes import common_name
from retrieval.ncbi.replies.gene_types import noted
from retrieval.ncbi.replies.records import (
    DocRecord,
    FailedRecord,
    GeneRecord,
    OmimRecord,
    Record,
    RecordList,
    SnpRecord,
)

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
    others, summary = _flat(doc.get("otherdesignations")), _flat(doc.get("summary"))
    told = noted(summary, name, others)
    return GeneRecord(
        uid=uid,
        symbol=_flat(doc.get("name")),
        name=name,
        organism=common_name(_flat(organism.get("scientificname")), _flat(organism.get("commonname"))),
        scientific_name=_flat(organism.get("scientificname")),
        chromosome=_flat(doc.get("chromosome")),
        location=_flat(doc.get("maplocation")),
        aliases=split(_flat(doc.get("otheraliases"))),
        other_names=split(others, "|"),
        summary=told.summary,
        gene_type=told.gene_type,
        locus=told.locus,
        has_names_only=told.has_names_only,
        replaced_by=_flat(doc.get("currentid")).strip("0") and _flat(doc.get("currentid")),
    )


def split(text: str, separator: str = ",") -> tuple[str, ...]:
    """Return the parts that are not blank."""
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
        loci=tuple(dict.fromkeys(split(_flat(doc.get("locus"))))),
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


def database_overview(name: str, title: str, count: str, fields: Iterable[str]) -> RecordList:
    """Return what einfo says of one database."""
    doc = {"title": title, "records": count, "fields": ", ".join(fields)}
    return RecordList("einfo", (doc_from_mapping("einfo", name, doc),))


def linked_databases(uid: str, links: Iterable[tuple[str, str]]) -> Record:
    """Return what elink's acheck says of one id: (database, name) of each of its links."""
    names = [f"{db} {name}" for db, name in links]
    return DocRecord(uid, ", ".join(names)) if names else FailedRecord(uid, "no links")
