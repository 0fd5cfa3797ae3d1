"""Render the XML document summaries of Gene and dbSNP, the default layout of these two databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retrieval.gateway.replies import text_of

_GENE_TAGS: Final = (
    ("Name", "name"),
    ("Description", "description"),
    ("Status", "status"),
    ("CurrentID", "currentid"),
    ("Chromosome", "chromosome"),
    ("GeneticSource", "geneticsource"),
    ("MapLocation", "maplocation"),
    ("OtherAliases", "otheraliases"),
    ("OtherDesignations", "otherdesignations"),
    ("NomenclatureSymbol", "nomenclaturesymbol"),
    ("NomenclatureName", "nomenclaturename"),
    ("NomenclatureStatus", "nomenclaturestatus"),
)
_ZERO_FOR_NONE: Final = ("status", "currentid")  # the JSON form leaves them empty, the XML form writes 0


def gene_markup(doc: Mapping[str, Any]) -> str:
    plain = "".join(
        f"\t<{tag}>{text_of(doc[key] or (0 if key in _ZERO_FOR_NONE else ''))}</{tag}>\n" for tag, key in _GENE_TAGS
    )
    mims = "".join(f"\t\t<int>{number}</int>\n" for number in doc["mim"])
    organism = doc["organism"]
    return (
        f'<DocumentSummary uid="{doc["uid"]}">\n{plain}\t<Mim>\n{mims}\t</Mim>\n'
        f"\t<GenomicInfo>\n{''.join(map(_place_markup, doc['genomicinfo']))}\t</GenomicInfo>\n"
        f"\t<GeneWeight>{doc['geneweight'] or 0}</GeneWeight>\n\t<Summary>{text_of(doc['summary'])}</Summary>\n"
        f"\t<ChrSort>{text_of(doc['chrsort'])}</ChrSort>\n\t<ChrStart>{doc['chrstart']}</ChrStart>\n"
        f"\t<Organism>\n\t\t<ScientificName>{text_of(organism['scientificname'])}</ScientificName>\n"
        f"\t\t<CommonName>{text_of(organism['commonname'])}</CommonName>\n"
        f"\t\t<TaxID>{organism['taxid']}</TaxID>\n\t</Organism>\n\t<LocationHist>\n\t</LocationHist>\n"
        "</DocumentSummary>\n"
    )


def _place_markup(place: Mapping[str, Any]) -> str:
    return (
        f"\t\t<GenomicInfoType>\n\t\t\t<ChrLoc>{text_of(place['chrloc'])}</ChrLoc>\n"
        f"\t\t\t<ChrAccVer>{text_of(place['chraccver'])}</ChrAccVer>\n\t\t\t<ChrStart>{place['chrstart']}</ChrStart>\n"
        f"\t\t\t<ChrStop>{place['chrstop']}</ChrStop>\n\t\t\t<ExonCount>{place['exoncount']}</ExonCount>\n"
        "\t\t</GenomicInfoType>\n"
    )


def snp_markup(doc: Mapping[str, Any]) -> str:
    """Render one dbSNP ``<DocumentSummary>`` on one line, as esummary and efetch share it."""
    special = {"global_mafs": _mafs_markup(doc), "genes": _genes_markup(doc)}
    fields = "".join(
        special[key] if key in special else _element(key.upper(), _snp_value(key, value))
        for key, value in doc.items()
        if key != "uid"
    )
    return f'<DocumentSummary uid="{doc["uid"]}">{fields}</DocumentSummary>'


def _snp_value(key: str, value: object) -> object:
    return 0 if key == "global_samplesize" and value == "" else value


def _element(tag: str, value: object) -> str:
    return f"<{tag}>{text_of(value)}</{tag}>" if value != "" else f"<{tag}/>"


def _mafs_markup(doc: Mapping[str, Any]) -> str:
    mafs = "".join(
        f"<MAF><STUDY>{text_of(maf['study'])}</STUDY><FREQ>{text_of(maf['freq'])}</FREQ></MAF>"
        for maf in doc["global_mafs"]
    )
    return f"<GLOBAL_MAFS>{mafs}</GLOBAL_MAFS>" if mafs else "<GLOBAL_MAFS/>"


def _genes_markup(doc: Mapping[str, Any]) -> str:
    genes = "".join(
        f"<GENE_E><NAME>{text_of(gene['name'])}</NAME><GENE_ID>{text_of(gene['gene_id'])}</GENE_ID></GENE_E>"
        for gene in doc["genes"]
    )
    return f"<GENES>{genes}</GENES>" if genes else "<GENES/>"
