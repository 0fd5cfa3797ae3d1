"""Build NCBI's document summary of a record: esummary's JSON mapping, and efetch's plain text (gene)."""

from __future__ import annotations

from typing import Any

from retrieval.formats.records import Gene, OmimEntry, SequenceSegment, Snp

_LAST = 999999999  # NCBI's sort key of a gene without coordinates


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
        "summary": gene.summary,
        "chrsort": gene.chromosome.rjust(2, "0") if gene.chromosome.isdigit() else gene.chromosome or "~~last",
        "chrstart": min(gene.start or 0, gene.stop or 0) if located else _LAST,
        "organism": {
            "scientificname": gene.organism.scientific_name,
            "commonname": gene.organism.common_name,
            "taxid": gene.organism.tax_id,
        },
        "locationhist": [],
    }


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
        "alttitles": entry.alternative_titles,
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
