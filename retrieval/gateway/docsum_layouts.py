"""Define each database's own XML layout of a document summary (version=2.0), as in NCBI's DTDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retrieval.gateway.docsum import DTD, Tag
from retrieval.gateway.records import Database

# The DTDs whose URL at NCBI is known; the others are named without the date that belongs to theirs.
_DATED: Final[Mapping[Database, str]] = {"gene": "20150202", "snp": "20230110", "pubmed": "20160808"}


def doctype_of(db: Database) -> str:
    if db not in _DATED:
        return f"-//NLM//DTD esummary {db}//EN|{DTD}/esummary_{db}.dtd"
    day = _DATED[db]
    return f"-//NLM//DTD esummary {db} {day}//EN|{DTD}/{day}/esummary_{db}.dtd"


def _plain(*names: str) -> tuple[Tag, ...]:
    return tuple(Tag(name) for name in names)


_AUTHOR: Final = _plain("Name", "AuthType", "ClusterID")
_TRAITS: Final = Tag(
    "trait_set", item="trait",
    parts=(Tag("trait_xrefs", item="trait_xref", parts=_plain("db_source", "db_id")), Tag("trait_name")),
)  # fmt: skip
_CLASSIFICATION: Final = (
    *_plain("description", "last_evaluated", "review_status", "fda_recognized_database"),
    _TRAITS,
)
_PLACE: Final = _plain(
    "status", "assembly_name", "chr", "band", "start", "stop", "inner_start", "inner_stop", "outer_start",
    "outer_stop", "display_start", "display_stop", "assembly_acc_ver", "annotation_release", "alt", "ref",
)  # fmt: skip
_ALLELE: Final = (
    Tag("measure_id"),
    Tag("variation_xrefs", item="variation_xref", parts=_plain("db_source", "db_id")),
    *_plain("variation_name", "cdna_change"),
    Tag("aliases", item="string"),
    Tag("variation_loc", item="assembly_set", parts=_PLACE),
    Tag("allele_freq_set", item="allele_freq", parts=_plain("source", "value", "minor_allele")),
    *_plain("variant_type", "canonical_spdi"),
)

LAYOUTS: Final[Mapping[Database, tuple[Tag, ...]]] = {
    "pubmed": (
        *_plain("PubDate", "EPubDate", "Source"),
        Tag("Authors", item="Author", parts=_AUTHOR),
        *_plain("LastAuthor", "Title", "SortTitle", "Volume", "Issue", "Pages"),
        Tag("Lang", item="string"),
        *_plain("NlmUniqueID", "ISSN", "ESSN"),
        Tag("PubType", item="flag"),
        *_plain("RecordStatus", "PubStatus"),
        Tag("ArticleIds", item="ArticleId", parts=_plain("IdType", "IdTypeN", "Value")),
        Tag("History", item="PubMedPubDate", parts=_plain("PubStatus", "Date")),
        Tag("References", item="Reference", parts=_plain("RefSource", "RefType", "PMID", "Note")),
        Tag("Attributes", item="flag"),
        *_plain("PmcRefCount", "FullJournalName", "ELocationID", "DocType"),
        Tag("SrcContribList", item="Author", parts=_AUTHOR),
        *_plain("BookTitle", "Medium", "Edition", "PublisherLocation", "PublisherName", "SrcDate", "ReportNumber"),
        *_plain("AvailableFromURL", "LocationLabel"),
        Tag("DocContribList", item="Author", parts=_AUTHOR),
        *_plain("DocDate", "BookName", "Chapter", "SortPubDate", "SortFirstAuthor", "VernacularTitle"),
    ),
    "pmc": (
        *_plain("PubDate", "EPubDate", "PrintPubDate", "Source"),
        Tag("Authors", item="Author", parts=_plain("Name", "AuthType")),
        *_plain("Title", "Volume", "Issue", "Pages"),
        Tag("ArticleIds", item="ArticleId", parts=_plain("IdType", "Value")),
        *_plain("FullJournalName", "SortDate", "PmcLiveDate"),
    ),
    "clinvar": (
        *_plain("obj_type", "accession", "accession_version", "title"),
        Tag("variation_set", item="variation", parts=_ALLELE),
        Tag("supporting_submissions", parts=(Tag("scv", item="string"), Tag("rcv", item="string"))),
        Tag("germline_classification", parts=_CLASSIFICATION),
        Tag("clinical_impact_classification", parts=_CLASSIFICATION),
        Tag("oncogenicity_classification", parts=_CLASSIFICATION),
        *_plain("record_status", "gene_sort", "chr_sort", "location_sort", "variation_set_name", "variation_set_id"),
        Tag("genes", item="gene", parts=_plain("symbol", "GeneID", "strand", "source")),
        Tag("molecular_consequence_list", item="string"),
        *_plain("protein_change", "fda_recognized_database"),
    ),
    "taxonomy": _plain(
        "Status", "Rank", "Division", "ScientificName", "CommonName", "TaxId", "AkaTaxId", "Genus", "Species",
        "Subsp", "ModificationDate", "GenBankDivision",
    ),
    "medgen": (
        *_plain("ConceptId", "Title"),
        Tag("Definition", parts=_plain("value")),
        Tag("SemanticId"),
        Tag("SemanticType", parts=_plain("value")),
        *_plain("Suppressed", "ConceptMeta", "ModificationDate", "Merged"),
    ),
    "omim": _plain("Oid", "Title", "AltTitles", "Locus"),
    "nuccore": _plain(
        "Caption", "Title", "Extra", "AccessionVersion", "Slen", "TaxId", "MolType", "Biomol", "CreateDate",
        "UpdateDate",
    ),
}  # fmt: skip
