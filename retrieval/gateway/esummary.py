"""esummary: document summaries as JSON, and as XML in each database's own layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from retrieval.gateway.documents import gene_document, omim_document, segment_document, snp_document
from retrieval.gateway.records import Database
from retrieval.gateway.replies import Reply, is_json, json_reply, text_of, uid_list, xml_reply
from retrieval.gateway.store import GatewayStore

_DTD: Final = "https://eutils.ncbi.nlm.nih.gov/eutils/dtd"
_DOCTYPES: Final[Mapping[str, str]] = {
    "gene": f"-//NLM//DTD esummary gene 20150202//EN|{_DTD}/20150202/esummary_gene.dtd",
    "snp": f"-//NLM//DTD esummary snp 20230110//EN|{_DTD}/20230110/esummary_snp.dtd",
}
_DOCTYPE_V1: Final = f"-//NLM//DTD esummary v1 20041029//EN|{_DTD}/20041029/esummary-v1.dtd"
_UNKNOWN: Final = "cannot get document summary"
_MAX_IDS: Final = 10_000


def esummary(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    uids = uid_list(params)[:_MAX_IDS]
    if not uids:
        return esummary_error(params, "Empty id list - nothing todo")
    bad = next((index for index, uid in enumerate(uids) if not _is_uid(db, uid)), None)
    valid = [uid for uid in uids if _is_uid(db, uid)]
    complaint = "" if bad is None else f"Invalid uid {uids[bad]} at position= {bad}"
    documents = [(key, document) for uid in valid for key, document in _documents(store, db, uid)]
    if is_json(params):
        return _as_json(documents, complaint)
    return _as_v2(db, documents, complaint) if db in _DOCTYPES else _as_v1(documents, complaint)


def esummary_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("esummary", {"esummaryresult": [message]})
    return xml_reply("eSummaryResult", _DOCTYPE_V1, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def document_of(store: GatewayStore, db: Database, uid: str) -> dict[str, Any] | None:
    """The summary of one record of gene, snp or omim; None where there is none."""
    if db == "gene":
        return gene_document(gene) if (gene := store.gene(uid)) else None
    if db == "snp":
        return snp_document(snp) if (snp := store.snp(uid)) else None
    return omim_document(entry) if (entry := store.omim(uid)) else None


def _is_uid(db: Database, uid: str) -> bool:
    return db == "nuccore" or (uid.isascii() and uid.isdigit() and len(uid) <= 12)


def _documents(store: GatewayStore, db: Database, uid: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if db == "nuccore":
        found = [s for s in store.segments(uid.split(":")[0]) if uid in (s.uid, s.accession, s.accession.split(".")[0])]
        yield from ((segment.uid, segment_document(segment)) for segment in found)
        if found:
            return
    elif (document := document_of(store, db, str(int(uid)))) is not None:
        yield str(document["uid"]), document
        return
    yield uid, {"uid": uid, "error": _UNKNOWN}


def _as_json(documents: list[tuple[str, dict[str, Any]]], complaint: str) -> Reply:
    result: dict[str, Any] = {"uids": [key for key, _ in documents], **dict(documents)}
    return json_reply("esummary", {**({"error": complaint} if complaint else {}), "result": result})


def _as_v2(db: Database, documents: list[tuple[str, dict[str, Any]]], complaint: str) -> Reply:
    write = _gene_markup if db == "gene" else snp_markup
    entries = "\n".join(
        f'<DocumentSummary uid="{text_of(uid)}">\n\t<error>{_UNKNOWN}</error>\n</DocumentSummary>\n'
        if "error" in document
        else write(document)
        for uid, document in documents
    )
    error = f"\n<ERROR>{text_of(complaint)}</ERROR>" if complaint else ""
    inner = (
        f'{error}\n<DocumentSummarySet status="OK">\n<DbBuild>Build230501-2305m.1</DbBuild>\n\n{entries}\n'
        "</DocumentSummarySet>\n"
    )
    return xml_reply("eSummaryResult", _DOCTYPES[db], inner)


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


def _gene_markup(doc: Mapping[str, Any]) -> str:
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
    """One dbSNP ``<DocumentSummary>`` on one line, as esummary and efetch share it."""
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


_V1_NAMES: Final = {"oid": "Oid", "alttitles": "AltTitles", "accessionversion": "AccessionVersion", "slen": "Length"}


def _as_v1(documents: list[tuple[str, dict[str, Any]]], complaint: str) -> Reply:
    """The older layout (DocSum, Item), which OMIM and the nucleotide database have by default."""
    error = f"\n<ERROR>{text_of(complaint)}</ERROR>" if complaint else ""
    inner = "".join(_v1_markup(uid, document) for uid, document in documents)
    return xml_reply("eSummaryResult", _DOCTYPE_V1, f"{error}\n{inner}")


def _v1_markup(uid: str, document: Mapping[str, Any]) -> str:
    if "error" in document:
        return f"\t<ERROR>{_UNKNOWN}: {text_of(uid)}</ERROR>\n"
    items = "".join(
        f'\t<Item Name="{_V1_NAMES.get(key, key.title())}" Type="{"Integer" if isinstance(value, int) else "String"}">'
        f"{text_of(value)}</Item>\n"
        for key, value in document.items()
        if key != "uid"
    )
    return f"<DocSum>\n\t<Id>{text_of(uid)}</Id>\n{items}</DocSum>\n\n"
