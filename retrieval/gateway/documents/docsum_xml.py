"""Render document summaries as XML: the older layout (DocSum, Item) and each database's own (DocumentSummary)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from retrieval.formats.records import Database
from retrieval.gateway.http_reply import Reply, text_of, xml_reply
from retrieval.gateway.store.reader import GatewayStore

DTD: Final = "https://eutils.ncbi.nlm.nih.gov/eutils/dtd"
V1: Final = f"-//NLM//DTD esummary v1 20041029//EN|{DTD}/20041029/esummary-v1.dtd"
UNKNOWN: Final = "cannot get document summary"


def build_of(store: GatewayStore) -> str:
    """Return a build name for the current data, in the form of NCBI's build names."""
    imports = store.version()
    return f"Build-{store.fingerprint[:12] or store.kind}" + (f".{imports}" if imports else "")


@dataclass(frozen=True, slots=True)
class Item:
    """Represent an Item element of the older layout; a list or structure holds Items."""

    name: str
    kind: Literal["String", "Integer", "Date", "List", "Structure"]
    content: str | tuple[Item, ...]


def text(name: str, value: str) -> Item:
    return Item(name, "String", value)


def number(name: str, value: int) -> Item:
    return Item(name, "Integer", str(value))


def date(name: str, value: str) -> Item:
    return Item(name, "Date", value)


def many(name: str, items: Iterable[Item]) -> Item:
    return Item(name, "List", tuple(items))


def items_of(document: Mapping[str, Any], names: Mapping[str, str]) -> list[Item]:
    """Return a flat mapping as items, under the names given or the capitalized keys."""
    return [
        Item(names.get(key, key.title()), "Integer" if isinstance(value, int) else "String", str(value))
        for key, value in document.items()
        if key != "uid"
    ]


def v1_reply(documents: Iterable[tuple[str, Sequence[Item] | None]], message: str) -> Reply:
    """Build the reply in the older layout; ``documents`` are (UID, its items or None for a missing record)."""
    error = f"\n<ERROR>{text_of(message)}</ERROR>" if message else ""
    inner = "".join(_v1_document(uid, items) for uid, items in documents)
    return xml_reply("eSummaryResult", V1, f"{error}\n{inner}")


def _v1_document(uid: str, items: Sequence[Item] | None) -> str:
    if items is None:
        return f"<ERROR>UID={text_of(uid)}: {UNKNOWN}</ERROR>\n\n"
    return f"<DocSum>\n\t<Id>{text_of(uid)}</Id>\n{''.join(_item(item, 1) for item in items)}</DocSum>\n\n"


def _item(item: Item, depth: int) -> str:
    tabs = "\t" * depth
    if isinstance(item.content, str):
        inner = text_of(item.content)
    else:
        inner = "".join(_item(part, depth + 1) for part in item.content)
        inner = f"\n{inner}{tabs}" if inner else ""
    return f'{tabs}<Item Name="{_attribute(item.name)}" Type="{item.kind}">{inner}</Item>\n'


def _attribute(value: str) -> str:
    return text_of(value).replace('"', "&quot;")


@dataclass(frozen=True, slots=True)
class Tag:
    """Describe how a value of the JSON form is written in a database's own layout.

    ``key`` is the JSON key, by default the name in lower case. ``item`` is the element of each entry of a list.
    ``parts`` are the elements within an entry, or within the value where it is a structure.
    """

    name: str
    key: str = ""
    item: str = ""
    parts: tuple[Tag, ...] = ()

    def markup(self, document: Mapping[str, Any]) -> str:
        value = document[self.key or self.name.lower()]
        if isinstance(value, list):
            inner = "".join(f"<{self.item}>{self._content(entry)}</{self.item}>" for entry in value)
        else:
            inner = self._content(value)
        return f"<{self.name}>{inner}</{self.name}>"

    def _content(self, value: Any) -> str:
        return "".join(part.markup(value) for part in self.parts) if self.parts else text_of(value)


def v2_document(document: Mapping[str, Any], layout: tuple[Tag, ...]) -> str:
    fields = "".join(f"\t{tag.markup(document)}\n" for tag in layout)
    return f'<DocumentSummary uid="{_attribute(str(document["uid"]))}">\n{fields}</DocumentSummary>\n'


def v2_error(uid: str) -> str:
    return f'<DocumentSummary uid="{_attribute(uid)}">\n\t<error>{UNKNOWN}</error>\n</DocumentSummary>\n'


def v2_reply(doctype: str, build: str, documents: Iterable[str], message: str) -> Reply:
    error = f"\n<ERROR>{text_of(message)}</ERROR>" if message else ""
    entries = "\n".join(documents)
    inner = (
        f'{error}\n<DocumentSummarySet status="OK">\n<DbBuild>{text_of(build)}</DbBuild>\n\n{entries}\n'
        "</DocumentSummarySet>\n"
    )
    return xml_reply("eSummaryResult", doctype, inner)


_EMPTY: Final = re.compile(r"<(\w+)></\1>")
# What the JSON form leaves empty and the XML forms write as 0.
_ZERO_FOR_NONE: Final = ("status", "currentid", "geneweight", "global_samplesize")


def own_document(db: Database, document: Mapping[str, Any]) -> str:
    """Return the markup of a document in its database's own layout; dbSNP's is one line, which efetch has too."""
    values = {key: 0 if key in _ZERO_FOR_NONE and value == "" else value for key, value in document.items()}
    if db != "snp":
        return v2_document(values, LAYOUTS[db])
    fields = "".join(_SNP_TAGS.get(key, Tag(key.upper())).markup(values) for key in values if key != "uid")
    inner = _EMPTY.sub(r"<\1/>", fields)
    return f'<DocumentSummary uid="{values["uid"]}">{inner}</DocumentSummary>'


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
_CLASSIFICATION: Final = (*_plain("description", "last_evaluated", "review_status", "fda_recognized_database"), _TRAITS)
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
_SNP_TAGS: Final = {
    "global_mafs": Tag("GLOBAL_MAFS", item="MAF", parts=_plain("STUDY", "FREQ")),
    "genes": Tag("GENES", item="GENE_E", parts=_plain("NAME", "GENE_ID")),
}
LAYOUTS: Final[Mapping[Database, tuple[Tag, ...]]] = {
    "gene": (
        *_plain("Name", "Description", "Status", "CurrentID", "Chromosome", "GeneticSource", "MapLocation"),
        *_plain("OtherAliases", "OtherDesignations", "NomenclatureSymbol", "NomenclatureName", "NomenclatureStatus"),
        Tag("Mim", item="int"),
        Tag("GenomicInfo", item="GenomicInfoType",
            parts=_plain("ChrLoc", "ChrAccVer", "ChrStart", "ChrStop", "ExonCount")),
        *_plain("GeneWeight", "Summary", "ChrSort", "ChrStart"),
        Tag("Organism", parts=_plain("ScientificName", "CommonName", "TaxID")),
        Tag("LocationHist", item="LocationHistType"),
    ),
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
