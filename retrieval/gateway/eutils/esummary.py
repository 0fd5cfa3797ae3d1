"""Implement esummary: document summaries as JSON, and as XML in the older layout or in each database's own.

The JSON mappings of gene, snp, omim and nuccore are built here, as is efetch's plain text of a gene; those of the other
databases come from ``documents``.
"""

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
from retrieval.formats.tables import is_number
from retrieval.gateway.citations.pubmed_citation import citation_of, element_of
from retrieval.gateway.documents.docsum_xml import (
    UNKNOWN,
    V1,
    Item,
    build_of,
    doctype_of,
    items_of,
    own_document,
    v1_reply,
    v2_error,
    v2_reply,
)
from retrieval.gateway.documents.literature import pmc_citation, pmc_document, pmc_items, pubmed_document, pubmed_items
from retrieval.gateway.documents.taxonomy import Lineages, taxonomy_document, taxonomy_items
from retrieval.gateway.documents.variation import clinvar_document, medgen_document, medgen_items
from retrieval.gateway.http_reply import Reply, is_json, json_reply, page_of, text_of, uid_list, xml_reply
from retrieval.gateway.store.reader import GatewayStore, SegmentLookup

_LAST = 999999999  # NCBI's sort key of a gene without coordinates
_V1_NAMES: Final = {"oid": "Oid", "alttitles": "AltTitles", "accessionversion": "AccessionVersion", "slen": "Length"}
_MAX_IDS: Final = 10_000
OF_GENE: Final = "(title and place are those of NCBI Gene; OMIM's own are not in the sample)"
# Databases whose own layout is the default.
_OWN_LAYOUT: Final[frozenset[Database]] = frozenset({"gene", "snp", "clinvar"})
Found = Iterator[tuple[str, Record | None]]


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
        return own_document(database_of(record), self.document(record))


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
    return db == "nuccore" or is_number(uid, 12)


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


def gene_document(gene: Gene) -> dict[str, Any]:
    located = gene.start is not None and gene.stop is not None
    place = {
        "chrloc": gene.chromosome,
        "chraccver": gene.accession,
        "chrstart": gene.start,
        "chrstop": gene.stop,
        "exoncount": gene.exons or "",
    }
    return {
        "uid": str(gene.gene_id),
        "name": gene.symbol,
        "description": gene.name,
        "status": gene.status or "",
        "currentid": gene.current_id or "",
        "chromosome": gene.chromosome,
        "geneticsource": "mitochondrion" if gene.chromosome == "MT" else "genomic",
        "maplocation": gene.map_location,
        "otheraliases": ", ".join(gene.aliases),
        "otherdesignations": "|".join(gene.designations),
        "nomenclaturesymbol": (gene.official_symbol or gene.symbol) if gene.nomenclature else "",
        "nomenclaturename": gene.name if gene.nomenclature else "",
        "nomenclaturestatus": gene.nomenclature,
        "mim": list(gene.mim),
        "genomicinfo": [place] if located else [],
        "geneweight": gene.weight or "",
        "summary": " ".join(filter(None, (gene.summary, hgnc_note(gene)))),
        "chrsort": gene.chromosome.rjust(2, "0") if gene.chromosome.isdigit() else gene.chromosome or "~~last",
        "chrstart": min(gene.start or 0, gene.stop or 0) if located else _LAST,
        "organism": {
            "scientificname": gene.organism.scientific_name,
            "commonname": gene.organism.common_name,
            "taxid": gene.organism.tax_id,
        },
        "locationhist": [],
    }


def hgnc_note(gene: Gene) -> str:
    """Return what HGNC's table says of a gene beyond its names, and what it lacks; "" for a record without it."""
    if not gene.locus_type:
        return ""
    known = [f"Gene type: {gene.gene_type or 'unknown'}", f"locus type: {gene.locus_type}"]
    known += [f"Ensembl: {gene.ensembl}"] if gene.ensembl else []
    known += [f"UniProt: {', '.join(gene.uniprot)}"] if gene.uniprot else []
    lacks = "; place, OMIM number and summary are not in it" if not (gene.chromosome or gene.summary) else ""
    return f"[{'; '.join(known)}; from HGNC's table{lacks}]"


def snp_document(snp: Snp) -> dict[str, Any]:
    chromosome, position = snp.chromosome, snp.position
    return {
        "uid": str(snp.snp_id),
        "snp_id": snp.snp_id,
        "allele_origin": "",
        "global_mafs": [{"study": study, "freq": frequency} for study, frequency in snp.mafs],
        "global_population": "",
        "global_samplesize": "",
        "suspected": "",
        "clinical_significance": snp.clinical,
        "genes": [{"name": symbol, "gene_id": gene_id} for symbol, gene_id in snp.genes],
        "acc": snp.accession,
        "chr": chromosome,
        "handle": snp.handles,
        "spdi": snp.spdi,
        "fxn_class": snp.function_class,
        "validated": snp.validated,
        "docsum": snp.docsum,
        "tax_id": 9606,
        "orig_build": int(snp.orig_build) if snp.orig_build else "",
        "upd_build": int(snp.upd_build) if snp.upd_build else "",
        "createdate": snp.created,
        "updatedate": snp.updated,
        "ss": snp.ss,
        "allele": snp.allele,
        "snp_class": snp.snp_class,
        "chrpos": f"{chromosome}:{position}" if position else "",
        "chrpos_prev_assm": f"{chromosome}:{snp.position_grch37}" if snp.position_grch37 else "",
        "text": "",
        "snp_id_sort": f"{snp.snp_id:010d}",
        "clinical_sort": "1" if snp.clinical else "0",
        "cited_sort": "",
        "chrpos_sort": position.rjust(10, "0") if position else "",
        "merged_sort": "0",
    }


def omim_document(entry: OmimEntry) -> dict[str, Any]:
    return {
        "uid": str(entry.mim_number),
        "oid": f"{entry.prefix or ' '}{entry.mim_number}",
        "title": entry.title,
        "alttitles": entry.alternative_titles or (OF_GENE if entry.is_of_gene else ""),
        "locus": entry.locus,
    }


def segment_document(segment: SequenceSegment) -> dict[str, Any]:
    return {
        "uid": segment.uid,
        "caption": segment.accession.split(".")[0],
        "title": segment.title,
        "extra": f"{segment.accession}:{segment.start}-{segment.stop}",
        "accessionversion": segment.accession,
        "slen": segment.record_length,
        "taxid": segment.tax_id,
        "moltype": "",
        "biomol": "",
        "createdate": "",
        "updatedate": "",
    }


def gene_text(gene: Gene, number: int) -> str:
    """Render one numbered entry as efetch prints it, with line breaks at both ends."""
    organism = gene.organism.scientific_name
    if gene.organism.common_name:
        organism += f" ({gene.organism.common_name})"
    official = f"{gene.nomenclature} Symbol: {gene.official_symbol or gene.symbol} and Name: {gene.name}"
    head = official if gene.nomenclature else gene.name
    lines = [
        f"{number}. {gene.symbol}",
        f"{head} [{organism}]",
        *_labelled("Other Aliases", ", ".join(gene.aliases)),
        *_labelled("Other Designations", "; ".join(gene.designations)),
        *_place(gene),
        *_labelled("MIM", ", ".join(gene.mim)),
        *_labelled("Note", hgnc_note(gene)),
        *_status_lines(gene),
        f"ID: {gene.gene_id}",
    ]
    return "\n" + "\n".join(lines) + "\n"


def _labelled(label: str, text: str) -> list[str]:
    return [f"{label}: {text}"] if text else []


def _place(gene: Gene) -> list[str]:
    lines = []
    if gene.chromosome == "MT":
        lines.append("Mitochondrion: MT")
    elif gene.chromosome:
        location = f"; Location: {gene.map_location}" if gene.map_location else ""
        lines.append(f"Chromosome: {gene.chromosome}{location}")
    if gene.accession and gene.start is not None and gene.stop is not None:
        low, high = sorted((gene.start, gene.stop))
        strand = ", complement" if gene.start > gene.stop else ""
        chromosome = f"Chromosome {gene.chromosome}" if gene.chromosome else ""
        lines.append(f"Annotation: {chromosome} {gene.accession} ({low + 1}..{high + 1}{strand})")
    return lines


def _status_lines(gene: Gene) -> list[str]:
    if gene.status == 1 and gene.current_id:
        return [f"This record was replaced with GeneID: {gene.current_id}"]
    return ["This record was discontinued."] if gene.status == 2 else []
