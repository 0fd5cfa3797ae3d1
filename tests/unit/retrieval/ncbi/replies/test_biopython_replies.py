"""What Biopython reads of its recorded replies is read here, with the same values."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from Bio import Entrez, Medline, SeqIO
from Bio.Blast import NCBIXML

from retrieval.errors import NcbiError
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.ncbi.replies.records import DocRecord, FailedRecord, IdList, ParsedReply, RecordList
from retrieval.types import Endpoint, Focus, NcbiCall, RawReply

REPLIES = Path(os.environ.get("ARROWHEAD_BIOPYTHON_TESTS", Path(__file__).parents[4] / "data" / "biopython"))
# The elements that Biopython leaves in the text of an article.
_MARKUP = re.compile(r"</?(?:i|b|u|sub|sup|mml:\w+|math|m\w+)(?: [^>]*)?/?>")


def files(folder: str, pattern: str) -> list[str]:
    return sorted(path.name for path in (REPLIES / folder).glob(pattern))


def text_of(folder: str, name: str) -> str:
    return (REPLIES / folder / name).read_text(encoding="utf-8", errors="replace")


def parsed(name: str, endpoint: Endpoint, db: str, folder: str = "Entrez") -> ParsedReply:
    body = text_of(folder, name)
    return parse_reply(NcbiCall(endpoint, db, {}), RawReply(200, "text/xml", body, len(body)))


def docs(reply: ParsedReply) -> list[DocRecord]:
    assert isinstance(reply, RecordList)
    assert not any(isinstance(record, FailedRecord) for record in reply.records)
    assert condense(reply, Focus()).text.startswith("[")
    return [record for record in reply.records if isinstance(record, DocRecord)]


def biopythons(name: str) -> Any:
    with (REPLIES / "Entrez" / name).open("rb") as stream:
        return Entrez.read(stream)


def plain(text: object) -> str:
    return " ".join(_MARKUP.sub("", str(text)).split())


def letters(text: object) -> str:
    """The letters and digits of a text: how markup is rendered is the matter of its reader."""
    folded = unicodedata.normalize("NFKC", plain(text)).casefold()
    return "".join(char for char in folded if char.isalnum())


@pytest.mark.parametrize("name", files("Entrez", "pubmed[124567].xml"))
def test_articles_have_biopythons_titles_journals_and_abstracts(name: str) -> None:
    """A PubmedArticleSet, of articles and chapters of books."""
    theirs = biopythons(name)
    ours = {record.uid: record for record in docs(parsed(name, "efetch", "pubmed"))}

    articles = theirs["PubmedArticle"]
    assert len(ours) == len(articles) + len(theirs["PubmedBookArticle"])
    for entry in articles:
        citation = entry["MedlineCitation"]
        record, article = ours[str(citation["PMID"])], citation["Article"]
        assert letters(record.title) == letters(article["ArticleTitle"])
        assert record.fields["source"] == plain(article["Journal"]["Title"])
        if year := article["Journal"]["JournalIssue"]["PubDate"].get("Year"):
            assert record.fields["pubdate"].startswith(year)
        abstract = article.get("Abstract", {}).get("AbstractText", [])
        for part in abstract:
            if "<math" not in part and "mml:" not in part:  # a formula's markup is that of its reader
                assert letters(part) in letters(record.fields["abstract"])
        assert ("abstract" in record.fields) == bool(abstract)


@pytest.mark.parametrize("name", files("Entrez", "nucleotide1.xml") + files("Entrez", "protein.xml"))
def test_genbanks_xml_has_biopythons_definition_organism_and_letters(name: str) -> None:
    """A GBSet."""
    theirs = biopythons(name)
    ours = docs(parsed(name, "efetch", "nuccore"))

    assert [record.uid for record in ours] == [entry["GBSeq_accession-version"] for entry in theirs]
    for record, entry in zip(ours, theirs, strict=True):
        assert record.title == entry["GBSeq_definition"].rstrip(".")
        assert record.fields["organism"] == entry["GBSeq_organism"]
        assert record.fields["length"] == f"{entry['GBSeq_length']} letters"
        assert record.fields["sequence"].rstrip(".") == entry["GBSeq_sequence"][:120].upper()


@pytest.mark.parametrize("name", files("Entrez", "nucleotide2.xml"))
def test_a_short_sequence_has_biopythons_values(name: str) -> None:
    """A TSeqSet."""
    for ours, theirs in zip(docs(parsed(name, "efetch", "nuccore")), biopythons(name), strict=True):
        assert (ours.uid, ours.title) == (theirs["TSeq_accver"], theirs["TSeq_defline"])
        assert ours.fields["organism"] == theirs["TSeq_orgname"]
        assert ours.fields["length"] == f"{theirs['TSeq_length']} letters"
        assert ours.fields["sequence"].rstrip(".") == theirs["TSeq_sequence"][:120]


@pytest.mark.parametrize("name", files("Entrez", "taxonomy.xml"))
def test_a_taxon_has_biopythons_name_rank_and_lineage(name: str) -> None:
    """A TaxaSet."""
    for ours, theirs in zip(docs(parsed(name, "efetch", "taxonomy")), biopythons(name), strict=True):
        assert (ours.uid, ours.title) == (theirs["TaxId"], theirs["ScientificName"])
        names = theirs["OtherNames"]
        common = [names["GenbankCommonName"]] if "GenbankCommonName" in names else names["CommonName"]
        assert ours.fields.get("commonname", "") == "".join(common[:1])
        for field, key in (("rank", "Rank"), ("lineage", "Lineage"), ("division", "Division")):
            assert ours.fields[field] == theirs[key]


@pytest.mark.parametrize("name", files("Entrez", "elink[12345].xml"))
def test_links_are_biopythons(name: str) -> None:
    """All of all link sets, each once."""
    theirs = [link["Id"] for one in biopythons(name) for db in one["LinkSetDb"] for link in db["Link"]]

    assert parsed(name, "elink", "pubmed") == IdList(len(set(theirs)), tuple(dict.fromkeys(theirs)))


@pytest.mark.parametrize("name", files("Entrez", "elink[78].xml"))
def test_checks_of_links_are_biopythons(name: str) -> None:
    """acheck names the links of each id, ncheck says whether there are neighbors."""
    ours = {record.uid: record.title for record in docs(parsed(name, "elink", "pubmed"))}

    for one in biopythons(name):
        checked = one["IdCheckList"]
        for entry in checked.get("IdLinkSet", ()):
            links = ", ".join(f"{link['DbTo']} {link['LinkName']}" for link in entry["LinkInfo"])
            assert ours[str(entry["Id"])] == links
        for uid in checked.get("Id", ()):
            assert ours[str(uid)] == f"has neighbors: {uid.attributes['HasNeighbor']}"
    assert ours


@pytest.mark.parametrize("name", files("Entrez", "einfo[12].xml"))
def test_an_overview_is_biopythons(name: str) -> None:
    """The databases, or one of them with its fields."""
    theirs, ours = biopythons(name), parsed(name, "einfo", "")

    if not theirs.get("DbInfo"):
        assert ours == IdList(len(theirs["DbList"]), tuple(theirs["DbList"]))
        return
    (record,), (info,) = docs(ours), theirs["DbInfo"]
    assert (record.uid, record.title, record.fields["records"]) == (info["DbName"], info["Description"], info["Count"])
    assert record.fields["fields"] == ", ".join(one["Name"] for one in info["FieldList"])


@pytest.mark.parametrize("name", files("Entrez", "esearch*.xml"))
def test_a_search_has_biopythons_count_ids_and_words_that_were_left_out(name: str) -> None:
    """Also where nothing was found."""
    theirs, ours = biopythons(name), parsed(name, "esearch", "pubmed")

    assert isinstance(ours, IdList)
    assert (ours.count, ours.ids) == (int(theirs["Count"]), tuple(theirs["IdList"]))
    errors, warnings = theirs.get("ErrorList", {}), theirs.get("WarningList", {})
    assert ours.not_found == (*errors.get("PhraseNotFound", ()), *warnings.get("QuotedPhraseNotFound", ()))
    assert ours.ignored == (*warnings.get("PhraseIgnored", ()), *errors.get("FieldNotFound", ()))


@pytest.mark.parametrize("name", files("Entrez", "esummary[1346].xml"))
def test_a_summary_has_biopythons_fields(name: str) -> None:
    """The form of version 1.0."""
    db = {"esummary1.xml": "pubmed", "esummary3.xml": "protein", "esummary4.xml": "nuccore"}.get(name, "taxonomy")
    theirs, ours = biopythons(name), docs(parsed(name, "esummary", db))

    assert [record.uid for record in ours] == [entry["Id"] for entry in theirs]
    for record, entry in zip(ours, theirs, strict=True):
        values = {key.lower(): plain(int(v) if isinstance(v, int) else v) for key, v in entry.items()}
        assert record.fields and all(values[key] == text for key, text in record.fields.items())
        assert record.title == (values.get("title") or values.get("scientificname", ""))


@pytest.mark.parametrize("name", files("GenBank", "*.gb"))
def test_genbanks_text_has_biopythons_records(name: str) -> None:
    """What Biopython cannot read is malformed, never a record."""
    body = text_of("GenBank", name)
    reply = RawReply(200, "text/plain", body, len(body))
    try:
        theirs = list(SeqIO.parse(REPLIES / "GenBank" / name, "genbank"))
        ours = parse_reply(NcbiCall("efetch", "nuccore", {}), reply)
    except (ValueError, NcbiError):
        return
    assert isinstance(ours, RecordList)
    whole = docs(ours)
    # A record without its last line is cut off.
    assert len(theirs) - len(whole) == (1 if ours.cut else 0)
    for record, entry in zip(whole, theirs, strict=False):
        assert (record.uid, record.title) == (entry.id, entry.description.rstrip("."))
        assert record.fields["length"] == f"{len(entry)} letters"


@pytest.mark.parametrize("name", files("Medline", "*.txt"))
def test_medlines_text_has_biopythons_records(name: str) -> None:
    """Title, source, date and abstract."""
    with (REPLIES / "Medline" / name).open(encoding="utf-8") as stream:
        theirs = list(Medline.parse(stream))

    ours = docs(parsed(name, "efetch", "pubmed", "Medline"))

    assert [record.uid for record in ours] == [entry["PMID"] for entry in theirs]
    for record, entry in zip(ours, theirs, strict=True):
        assert record.title == entry["TI"]
        assert record.fields["pubdate"] == entry["DP"]
        assert record.fields.get("abstract", "") == entry.get("AB", "")


def _alignments(name: str) -> Iterator[Any]:
    with (REPLIES / "Blast" / name).open() as stream:
        for record in NCBIXML.parse(stream):
            yield from (found for found in record.alignments if found.hsps)


def _is_minus(hsp: Any) -> bool:
    return hsp.sbjct_start > hsp.sbjct_end or (len(hsp.frame) > 1 and hsp.frame[1] < 0)


def _complete(names: Iterable[str]) -> list[str]:
    """The results in the first form that Biopython's reader of this form takes."""
    kept = (name for name in names if not name.startswith(("broken", "mock", "megablast_legacy")))
    return [name for name in kept if "</BlastOutput>" in text_of("Blast", name)]


@pytest.mark.parametrize("name", _complete(files("Blast", "*.xml")))
def test_hits_have_biopythons_places_scores_and_accessions(name: str) -> None:
    """Of every program; the places are those of the subject as it is stored, the first greater on its minus strand."""
    theirs, ours = list(_alignments(name)), parse_blast(text_of("Blast", name)).hits

    assert len(ours) == len(theirs)
    for hit, alignment in zip(ours, theirs, strict=True):
        best = alignment.hsps[0]
        low, high = sorted((best.sbjct_start, best.sbjct_end))
        assert (hit.subject_start, hit.subject_stop) == ((high, low) if _is_minus(best) else (low, high))
        assert (hit.bits, hit.expect, hit.identities) == (best.bits, best.expect, best.identities)
        assert hit.align_length == (best.align_length or hit.align_length)
        assert hit.title in f"{alignment.hit_id} {alignment.hit_def}"
        if not alignment.hit_id.startswith("gnl|"):
            assert re.split("[._]", hit.accession)[0] == re.split("[-_]", alignment.accession)[0]


@pytest.mark.parametrize("name", files("Blast", "xml2_*blast[npx]_001.xml") + files("Blast", "*blast[npx]_001_v2.xml"))
def test_the_second_form_of_xml_is_read_as_the_first(name: str) -> None:
    """Of one search, saved in both."""
    first = name.replace("xml2_", "xml_").replace("_v2", "")
    if not (REPLIES / "Blast" / first).exists():
        pytest.skip("the first form is not here")
    ours, theirs = (parse_blast(text_of("Blast", one)).hits for one in (name, first))

    assert ours
    of = {hit.accession: hit for hit in theirs}
    shared = [hit for hit in ours if hit.accession in of and hit.bits == of[hit.accession].bits]
    assert len(shared) > len(ours) // 2
    assert all(_places(hit) == _places(of[hit.accession]) for hit in shared)


def _places(hit: Any) -> tuple[int, int]:
    return hit.subject_start, hit.subject_stop
