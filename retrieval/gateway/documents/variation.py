"""Build the document summaries of ClinVar and MedGen."""

from __future__ import annotations

import re
from typing import Any, Final
from xml.sax.saxutils import escape

from retrieval.formats.records import Concept, Variation
from retrieval.gateway.documents.docsum_xml import Item, many, text

_CHANGE: Final = re.compile(r":([cgmnr]\.[^\s(]+)")
_PROTEIN: Final = re.compile(r"\(p\.([A-Z][a-z]{2})(\d+)([A-Z][a-z]{2}|=)\)")
_LETTERS: Final = {
    "Ala": "A", "Arg": "R", "Asn": "N", "Asp": "D", "Cys": "C", "Gln": "Q", "Glu": "E", "Gly": "G", "His": "H",
    "Ile": "I", "Leu": "L", "Lys": "K", "Met": "M", "Phe": "F", "Pro": "P", "Sec": "U", "Ser": "S", "Ter": "*",
    "Thr": "T", "Trp": "W", "Tyr": "Y", "Val": "V",
}  # fmt: skip
_ASSEMBLIES: Final = {"GRCh38": "GCF_000001405.38", "GRCh37": "GCF_000001405.25"}
_NEVER: Final = "1/01/01 00:00"  # NCBI's date for a missing classification
# The UMLS semantic type identifiers for the kinds of concepts in MedGen.
_SEMANTIC_IDS: Final = {
    "Acquired Abnormality": "T020", "Anatomical Abnormality": "T190", "Cell or Molecular Dysfunction": "T049",
    "Clinical Attribute": "T201", "Congenital Abnormality": "T019", "Disease or Syndrome": "T047",
    "Experimental Model of Disease": "T050", "Finding": "T033", "Injury or Poisoning": "T037",
    "Laboratory or Test Result": "T034", "Mental or Behavioral Dysfunction": "T048", "Mental Process": "T041",
    "Neoplastic Process": "T191", "Organism Attribute": "T032", "Organism Function": "T040",
    "Pathologic Function": "T046", "Pharmacologic Substance": "T121", "Phenomenon or Process": "T067",
    "Physiologic Function": "T039", "Sign or Symptom": "T184",
}  # fmt: skip


def clinvar_document(variation: Variation) -> dict[str, Any]:
    """Build the JSON mapping of a ClinVar variation.

    The germline classification holds the record's classification of any kind; the store has the position on one
    assembly only.
    """
    accession = f"VCV{variation.variation_id:09d}"
    chromosome, position = variation.chromosome, variation.position
    return {
        "uid": str(variation.variation_id),
        "obj_type": variation.kind,
        "accession": accession,
        "accession_version": accession,
        "title": variation.name,
        "variation_set": [_allele(variation)],
        "supporting_submissions": {"scv": _accessions(variation, "SCV"), "rcv": _accessions(variation, "RCV")},
        "germline_classification": _classification(
            variation.significance, _evaluated(variation.last_evaluated), variation.review_status, _traits(variation)
        ),
        "clinical_impact_classification": _classification("", _NEVER, "", []),
        "oncogenicity_classification": _classification("", _NEVER, "", []),
        "record_status": "",
        "gene_sort": variation.genes[0][0] if variation.genes else "",
        "chr_sort": chromosome.rjust(2, "0") if chromosome.isdigit() else chromosome,
        "location_sort": position.rjust(20, "0") if position else "",
        "variation_set_name": "",
        "variation_set_id": "",
        "genes": [{"symbol": name, "geneid": number, "strand": "", "source": ""} for name, number in variation.genes],
        "molecular_consequence_list": [],
        "protein_change": _protein_change(variation.name),
        "fda_recognized_database": "",
    }


def _allele(variation: Variation) -> dict[str, Any]:
    change = _CHANGE.search(variation.name)
    return {
        "measure_id": str(variation.allele_id),
        "variation_xrefs": [{"db_source": "dbSNP", "db_id": variation.rs}] if variation.rs else [],
        "variation_name": variation.name,
        "cdna_change": change[1] if change else "",
        "aliases": [],
        "variation_loc": [_place(variation)] if variation.chromosome or variation.cytogenetic else [],
        "allele_freq_set": [],
        "variant_type": variation.kind,
        "canonical_spdi": "",
    }


def _place(variation: Variation) -> dict[str, str]:
    edges = dict.fromkeys(("inner_start", "inner_stop", "outer_start", "outer_stop"), "")
    stop = variation.position if variation.kind == "single nucleotide variant" else ""
    return {
        "status": "previous" if variation.assembly == "GRCh37" else "current",
        "assembly_name": variation.assembly,
        "chr": variation.chromosome,
        "band": variation.cytogenetic,
        "start": variation.position,
        "stop": stop,
        **edges,
        "display_start": variation.position,
        "display_stop": stop,
        "assembly_acc_ver": _ASSEMBLIES.get(variation.assembly, ""),
        "annotation_release": "",
        "alt": "",
        "ref": "",
    }


def _accessions(variation: Variation, kind: str) -> list[str]:
    return [accession for accession in variation.accessions if accession.startswith(kind)]


def _classification(description: str, evaluated: str, status: str, traits: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "description": description,
        "last_evaluated": evaluated,
        "review_status": status,
        "fda_recognized_database": "",
        "trait_set": traits,
    }


def _evaluated(day: str) -> str:
    return f"{day.replace('-', '/')} 00:00" if day else _NEVER


def _traits(variation: Variation) -> list[dict[str, Any]]:
    """Return the phenotypes, with identifiers only for a single one: of several, it is unknown whose they are."""
    own = variation.phenotype_ids if len(variation.phenotypes) == 1 else ()
    pairs = (identifier.partition(":") for identifier in own)
    references = [{"db_source": source, "db_id": number} for source, _, number in pairs]
    return [{"trait_xrefs": references, "trait_name": name} for name in variation.phenotypes]


def _protein_change(name: str) -> str:
    """Return the protein change of a name in one-letter codes: D369N for "(p.Asp369Asn)".

    Returns "" for changes that have no one-letter form.
    """
    found = _PROTEIN.search(name)
    if found is None or found[1] not in _LETTERS:
        return ""
    after = found[1] if found[3] == "=" else found[3]
    return f"{_LETTERS[found[1]]}{found[2]}{_LETTERS[after]}" if after in _LETTERS else ""


def medgen_document(concept: Concept) -> dict[str, Any]:
    return {
        "uid": str(concept.uid),
        "conceptid": concept.cui,
        "title": concept.name,
        "definition": {"value": concept.definition},
        "semanticid": _SEMANTIC_IDS.get(concept.semantic_type, ""),
        "semantictype": {"value": concept.semantic_type},
        "suppressed": "",
        "conceptmeta": _concept_meta(concept),
        "modificationdate": "",
        "merged": "",
    }


def medgen_items(concept: Concept) -> list[Item]:
    document = medgen_document(concept)
    names = {
        "conceptid": "ConceptId", "title": "Title", "semanticid": "SemanticId", "suppressed": "Suppressed",
        "conceptmeta": "ConceptMeta", "modificationdate": "ModificationDate", "merged": "Merged",
    }  # fmt: skip
    items = [text(name, document[key]) for key, name in names.items()]
    items.insert(2, many("Definition", [text("value", concept.definition)]))
    items.insert(4, many("SemanticType", [text("value", concept.semantic_type)]))
    return items


def _concept_meta(concept: Concept) -> str:
    """Return the markup that MedGen has within a string."""
    names = [f'<Name type="preferred">{escape(concept.name)}</Name>']
    names += [f'<Name type="syn">{escape(name)}</Name>' for name in concept.synonyms]
    definition = f"<Definition>{escape(concept.definition)}</Definition>" if concept.definition else ""
    numbers = "".join(f"<MIM>{escape(number)}</MIM>" for source, number in concept.source_ids if source == "OMIM")
    others = "".join(
        f'<Name SAB="{escape(source, {chr(34): "&quot;"})}">{escape(number)}</Name>'
        for source, number in concept.source_ids
        if source != "OMIM"
    )
    return (
        f"<Names>{''.join(names)}</Names><Definitions>{definition}</Definitions><OMIM>{numbers}</OMIM>"
        f"<Sources>{others}</Sources>"
    )
