"""Parse document summaries of each database, in JSON, XML and plain text, into records, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from retrieval.ncbi.gene_types import gene_type
from retrieval.ncbi.organisms import common_name
from retrieval.ncbi.records import DocRecord, FailedRecord, GeneRecord, OmimRecord, Record, SnpRecord, TextRecord

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
    return DocRecord(uid, title, fields)


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
        summary=summary,
        gene_type=gene_type(name, _flat(doc.get("otherdesignations")), summary),
        replaced_by=_flat(doc.get("currentid")).strip("0") and _flat(doc.get("currentid")),
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _snp(uid: str, doc: Mapping[str, Any]) -> SnpRecord:
    alleles = re.search(r"SEQ=\[([^\]]+)\]", _flat(doc.get("docsum")))
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
    if db == "snp":
        doc["genes"] = [
            {"name": g.findtext("NAME") or "", "gene_id": g.findtext("GENE_ID") or ""} for g in element.iter("GENE_E")
        ]
    return doc


_DOCSUM = re.compile(r"^\s*(\d+)\. ", re.MULTILINE)
_OFFICIAL = re.compile(r"Official Symbol: (\S+) and Name: (.*)")
_BRACKETED = re.compile(r"\[([^\]]*?)(?: \(([^)]*)\))?\]\s*$")


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
        gene_type=gene_type(name, values.get("Other Designations", "")),
        replaced_by=replaced[1] if replaced else "",
    )


def fasta_records(body: str) -> Iterator[TextRecord]:
    for block in body.split(">")[1:]:
        title, _, letters = block.partition("\n")
        sequence = "".join(letters.split())
        yield TextRecord(title.strip(), sequence[:_FASTA_HEAD], len(sequence))
