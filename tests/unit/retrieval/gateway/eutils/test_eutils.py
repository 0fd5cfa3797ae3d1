"""The gateway's E-utilities replies: NCBI's shapes, read by Biopython and compared with recorded replies."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from Bio import Entrez

from retrieval.formats.records import SequenceSegment
from retrieval.gateway.app import answer
from retrieval.gateway.http_reply import Reply
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
RECORDED = DATA / "ncbi" / "ncbi_replies.jsonl.gz"
needs_recordings = pytest.mark.skipif(not RECORDED.exists(), reason="no recorded NCBI replies")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayStore]:
    opened = open_store(tmp_path_factory.mktemp("gateway"))
    yield opened
    opened.close()


def call(store: GatewayStore, endpoint: str, **params: str) -> Reply:
    return answer(store, endpoint, params)


def as_json(store: GatewayStore, endpoint: str, **params: str) -> Any:
    return json.loads(call(store, endpoint, retmode="json", **params).body)


def as_entrez(reply: Reply, validate: bool = True) -> Any:
    """What Biopython reads, with the DTDs it ships."""
    return Entrez.read(io.BytesIO(reply.body.encode()), validate=validate)


def ids(store: GatewayStore, db: str, term: str, **params: str) -> list[str]:
    return list(as_json(store, "esearch", db=db, term=term, **params)["esearchresult"].get("idlist", []))


def test_the_demo_question_finds_the_same_ids_in_both_orders_of_ncbi(store: GatewayStore) -> None:
    """LMP10 gives NCBI's three ids: by relevance the human gene first, by default the heaviest gene first."""
    assert ids(store, "gene", "LMP10", sort="relevance") == ["5699", "8138", "19171"]
    assert ids(store, "gene", "LMP10") == ["19171", "5699", "8138"]


@pytest.mark.parametrize("endpoint", ["esummary", "efetch"])
def test_a_long_list_of_ids_is_read_page_by_page(store: GatewayStore, endpoint: str) -> None:
    """retstart and retmax count in the ids of the call."""
    paged = call(store, endpoint, db="gene", id="5699,8138,19171", retstart="1", retmax="1").body
    assert paged == call(store, endpoint, db="gene", id="8138").body


class _Counted(GatewayStore):
    readings = 0

    def segments(self, accession: str | None = None) -> tuple[SequenceSegment, ...]:
        self.readings += 1
        return super().segments(accession)


@pytest.mark.parametrize(("endpoint", "more"), [("efetch", {}), ("efetch", {"rettype": "uilist"}), ("esummary", {})])
def test_ten_thousand_accessions_are_looked_up_in_one_reading(
    store: GatewayStore, endpoint: str, more: dict[str, str]
) -> None:
    """The whole table is read for stretches; once for each id kept the service busy for a quarter of a minute."""
    accession = store.segments()[0].accession
    with contextlib.closing(_Counted(store.path)) as count_rows:
        body = call(
            count_rows, endpoint, db="nuccore", id=",".join([accession, *(f"X{n}" for n in range(9_999))]), **more
        ).body
        assert accession in body and count_rows.readings == 1


def test_a_page_behind_the_ids_is_an_empty_summary(store: GatewayStore) -> None:
    """As in NCBI's JSON for a list of which nothing is left; it is no error in the call."""
    assert as_json(store, "esummary", db="gene", id="5699", retstart="5")["result"] == {"uids": []}


def test_the_replaced_record_names_its_successor(store: GatewayStore) -> None:
    """Gene 8138 was merged into 5699, and both JSON and text say so."""
    assert as_json(store, "esummary", db="gene", id="8138")["result"]["8138"]["currentid"] == 5699
    assert "This record was replaced with GeneID: 5699" in call(store, "efetch", db="gene", id="8138").body


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("PSMB10[sym] AND human[orgn]", ["5699", "8138"]),
        ("LMP10 NOT mouse[orgn]", ["5699", "8138"]),
        ("MECL1 AND Homo sapiens[Organism]", ["8138", "5699"]),
        ("(BRCA1[sym] OR BRCA2[sym]) AND human[orgn]", ["672", "675"]),
        ("BRCA1 OR BRCA2 NOT mouse[orgn] NOT rat[orgn]", ["672", "675"]),
        ('"tumor protein p53"[title] AND human[orgn]', ["7157"]),
        ("ENSG00000205220", ["5699"]),
        ("7157[uid]", ["7157"]),
        ("daf-16 AND worm[orgn]", ["172981"]),
        ("GAL4 AND yeast[orgn]", ["855828"]),
        ("LMP10 human[orgn]", ["5699", "8138"]),
        ("LMP10[sym] AND human[orgn", ["5699", "8138"]),
    ],
)
def test_boolean_and_tagged_terms_select_what_entrez_would(store: GatewayStore, term: str, expected: list[str]) -> None:
    """Tags, quotes, brackets and the operators, applied from left to right, give exactly these genes."""
    assert sorted(ids(store, "gene", term, sort="relevance")) == sorted(expected)


def test_snps_are_found_by_rs_number_bare_number_and_gene(store: GatewayStore) -> None:
    """The three ways a question names a SNP lead to the same record."""
    assert ids(store, "snp", "rs429358") == ids(store, "snp", "429358") == ["429358"]
    assert "429358" in ids(store, "snp", "APOE[gene]")


def test_omim_titles_are_ordered_by_how_much_of_them_was_asked_for(store: GatewayStore) -> None:
    """The phenotype called by its whole name stands before the gene whose longer title contains it."""
    assert ids(store, "omim", "Cystic fibrosis", sort="relevance") == ["219700", "602421"]


def test_a_wildcard_matches_every_beginning(store: GatewayStore) -> None:
    """PSMB1* finds PSMB10 of man and mouse."""
    assert {"5699", "19171"} <= set(ids(store, "gene", "PSMB1*"))


def test_pages_of_a_search_are_disjoint_and_complete(store: GatewayStore) -> None:
    """retstart and retmax cut the one ordered list of ids."""
    everything = ids(store, "gene", "kinase", retmax="1000")
    pages = [ids(store, "gene", "kinase", retstart=str(at), retmax="3") for at in range(0, len(everything), 3)]
    assert [uid for page in pages for uid in page] == everything
    assert len(everything) > 6


def test_an_empty_result_reports_the_phrase_as_ncbi_does(store: GatewayStore) -> None:
    """Nothing found: count 0, the error list and the warning list, and no translation stack."""
    result = as_json(store, "esearch", db="gene", term="AC006042.8")["esearchresult"]
    assert result == {
        "count": "0",
        "retmax": "0",
        "retstart": "0",
        "idlist": [],
        "translationset": [],
        "querytranslation": "(AC006042.8[All Fields])",
        "errorlist": {"phrasesnotfound": ["AC006042.8"], "fieldsnotfound": []},
        "warninglist": {"phrasesignored": [], "quotedphrasesnotfound": [], "outputmessages": ["No items found."]},
    }


def test_an_unknown_tag_is_reported_and_the_word_still_searched(store: GatewayStore) -> None:
    """Entrez names the field it does not know and falls back to all fields."""
    result = as_json(store, "esearch", db="gene", term="PSMB10[nonsense]")["esearchresult"]
    assert result["errorlist"]["fieldsnotfound"] == ["nonsense"]
    assert "5699" in result["idlist"]


@pytest.mark.parametrize("endpoint", ["esearch", "esummary", "einfo"])
def test_an_unknown_database_gets_ncbis_error_text(store: GatewayStore, endpoint: str) -> None:
    """The error stands in the body, with HTTP 200, in both formats."""
    for retmode in ("json", "xml"):
        reply = call(store, endpoint, db="genes", term="x", id="1", retmode=retmode)
        assert (reply.status, "Invalid db name specified: genes" in reply.body) == (200, True)


def test_efetch_of_an_unknown_database_is_http_400(store: GatewayStore) -> None:
    """efetch has no result body to carry an error."""
    assert call(store, "efetch", db="genes", id="1").status == 400


def test_missing_ids_and_terms_are_named(store: GatewayStore) -> None:
    """Every endpoint has its own words for an empty call."""
    assert "Empty term" in call(store, "esearch", db="gene", term=" ").body
    assert "Empty id list" in call(store, "esummary", db="gene", id=" ").body
    assert call(store, "efetch", db="gene", id="").body == "Supplied+id+parameter+is+empty.\n"


def test_a_symbol_given_as_id_is_an_invalid_uid(store: GatewayStore) -> None:
    """NCBI takes numbers only and names the first offender with its place."""
    reply = as_json(store, "esummary", db="gene", id="5699,BRCA1")
    assert reply["error"] == "Invalid uid BRCA1 at position= 1"
    assert reply["result"]["uids"] == ["5699"]


def test_an_unknown_uid_has_its_own_error_beside_good_ones(store: GatewayStore) -> None:
    """One missing record does not spoil the others."""
    result = as_json(store, "esummary", db="gene", id="5699,999999999")["result"]
    assert result["999999999"] == {"uid": "999999999", "error": "cannot get document summary"}
    assert result["5699"]["name"] == "PSMB10"


@pytest.mark.parametrize(
    "term", ["'; DROP TABLE record; --", '" OR 1=1', "%' OR '1'='1", "\x00gene", "[[[", "((((", "*", "AND OR NOT", "�"]
)
def test_hostile_terms_find_nothing_and_harm_nothing(store: GatewayStore, term: str) -> None:
    """SQL and syntax rubbish is only text: a well-formed reply, and the store still answers."""
    for retmode in ("json", "xml"):
        reply = call(store, "esearch", db="gene", term=term, retmode=retmode)
        assert reply.status == 200
        json.loads(reply.body) if retmode == "json" else as_entrez(reply)
    assert ids(store, "gene", "LMP10") != []


@pytest.mark.parametrize("term", ["x" * 20_000, "(" * 200 + "x", "a1 " * 400])
def test_terms_beyond_the_limits_are_refused_in_words(store: GatewayStore, term: str) -> None:
    """Length, nesting and word count are bounded, and the error says which bound it was."""
    assert re.search(
        r"characters|nested|words", as_json(store, "esearch", db="gene", term=term)["esearchresult"]["ERROR"]
    )


def test_biopython_reads_esearch_with_an_organism(store: GatewayStore) -> None:
    """The XML satisfies NCBI's DTD, translation set and stack included."""
    result = as_entrez(call(store, "esearch", db="gene", term="TP53 AND human[orgn]", sort="relevance"))
    assert list(result["IdList"]) == ["7157"]
    assert result["TranslationSet"][0]["To"] == '"Homo sapiens"[Organism]'
    assert result["TranslationStack"][-1] == "AND"


def test_biopython_reads_gene_summaries(store: GatewayStore) -> None:
    """The gene XML satisfies the DTD of 2015 and holds what the JSON holds."""
    documents = as_entrez(call(store, "esummary", db="gene", id="5699,8138"))["DocumentSummarySet"]["DocumentSummary"]
    assert [d["Name"] for d in documents] == ["PSMB10", "MECL1"]
    assert documents[0]["Organism"]["CommonName"] == "human"
    assert documents[0]["GenomicInfo"][0]["ChrStart"] == "67936849"


def test_version_two_of_einfo_tells_truncatable_and_rangable_fields(store: GatewayStore) -> None:
    """Only when asked for in XML, always in JSON; what a search does with the fields is what it says."""
    plain, newer = (call(store, "einfo", db="pubmed", **more).body for more in ({}, {"version": "2.0"}))
    assert "<IsTruncatable>" not in plain and "<IsRangable>" not in plain
    fields = {field["Name"]: field for field in as_entrez(Reply(200, "", newer))["DbInfo"][0]["FieldList"]}
    listed = {
        field["name"]: field for field in as_json(store, "einfo", db="pubmed")["einforesult"]["dbinfo"][0]["fieldlist"]
    }
    for name, expected in {"TITL": ("Y", "N"), "PDAT": ("N", "Y"), "UID": ("N", "N"), "AUTH": ("N", "N")}.items():
        assert (fields[name]["IsTruncatable"], fields[name]["IsRangable"]) == expected
        assert (listed[name]["istruncatable"], listed[name]["israngable"]) == expected


@pytest.mark.parametrize(
    ("source", "target", "uid", "expected"),
    [("gene", "omim", "1080", "602421"), ("snp", "gene", "429358", "348"), ("gene", "snp", "348", "429358")],
)
def test_links_lead_both_ways(store: GatewayStore, source: str, target: str, uid: str, expected: str) -> None:
    """gene to omim, snp to gene and gene to snp are known wherever a record says so."""
    (linkset,) = as_json(store, "elink", dbfrom=source, db=target, id=uid)["linksets"]
    assert expected in linkset["linksetdbs"][0]["links"]


def test_nucleotide_stretches_come_as_fasta_with_their_coordinates(store: GatewayStore) -> None:
    """The header names the stretch, seq_start and seq_stop cut it, and the letters agree with the coordinates."""
    whole = call(store, "efetch", db="nuccore", id="NG_029218.1", rettype="fasta").body
    head, *lines = whole.strip().split("\n")
    start, stop = map(int, re.findall(r":(\d+)-(\d+)", head)[0])
    letters = "".join(lines)
    assert len(letters) == stop - start + 1
    part = call(
        store, "efetch", db="nucleotide", id="NG_029218", seq_start=str(start + 5), seq_stop=str(start + 14)
    ).body
    assert part.split("\n")[1] == letters[5:15]


def _recorded(endpoint: str, db: str, retmode: str | None) -> Iterator[tuple[dict[str, str], str]]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            url = urlsplit(row["url"])
            params = dict(parse_qsl(url.query))
            wanted = url.path.endswith(f"/{endpoint}.fcgi") and params.get("db") == db
            if wanted and params.get("retmode") == retmode and row["status"] == "complete":
                yield params, row["body"]


def _tags(xml: str) -> list[str]:
    return sorted(set(re.findall(r"<([A-Za-z_]+)", xml)))


@pytest.mark.shared_data
@needs_recordings
@pytest.mark.parametrize("db", ["gene", "snp", "omim"])
def test_summaries_have_the_fields_of_the_recorded_ones_in_their_order(store: GatewayStore, db: str) -> None:
    """Every recorded summary of a record of the store has the same keys, order and kinds of values as ours."""
    compared = 0
    for params, body in _recorded("esummary", db, "json"):
        for uid, theirs in json.loads(body).get("result", {}).items():
            ours = as_json(store, "esummary", db=db, id=uid)["result"].get(uid, {}) if uid != "uids" else {}
            if "error" in ours or not ours or "error" in theirs:
                continue
            assert list(ours) == list(theirs), params
            assert _same_facts(db, ours, theirs) == [], uid
            compared += 1
    assert compared >= 50


def _same_facts(db: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Fields whose values differ, but for those the store holds in its own words or not at all."""
    own = {"gene": {"summary", "locationhist", "geneweight", "chrsort", "chrstart", "geneticsource"}}.get(db, set())
    return [key for key in theirs if key not in own and ours[key] != theirs[key]]


@pytest.mark.shared_data
@needs_recordings
def test_gene_texts_equal_the_recorded_ones(store: GatewayStore) -> None:
    """efetch's numbered text is NCBI's, letter for letter, for every gene both know."""
    compared = 0
    for _, body in _recorded("efetch", "gene", "json"):
        for block in re.split(r"\n(?=\d+\. )", "\n" + body.strip("\n")):
            if match := re.search(r"^ID: (\d+)$", block, re.MULTILINE):
                ours = call(store, "efetch", db="gene", id=match[1]).body
                if "Error occurred" not in ours:
                    assert _comparable(ours) == _comparable(block)
                    compared += 1
    assert compared >= 100


def _comparable(text: str) -> list[str]:
    """Lines without the number; NCBI changed some genes' aliases between one recorded reply and the next."""
    lines = re.sub(r"^\s*\d+\. ", "", text).strip().split("\n")
    return [line for line in lines if not line.startswith("Other Aliases: ")]


@pytest.mark.shared_data
@needs_recordings
def test_snp_documents_equal_the_recorded_ones(store: GatewayStore) -> None:
    """efetch's rootless XML is NCBI's, letter for letter, for every recorded SNP."""
    bodies = list(_recorded("efetch", "snp", "json"))
    for params, body in bodies:
        assert call(store, "efetch", db="snp", id=params["id"]).body == body
    assert len(bodies) >= 40


@pytest.mark.shared_data
@needs_recordings
@pytest.mark.parametrize("db", ["gene", "snp", "omim"])
def test_searches_have_the_recorded_shape(store: GatewayStore, db: str) -> None:
    """Wherever NCBI and the gateway both find something, or both nothing, the reply's keys and order are the same."""
    compared = 0
    for params, body in _recorded("esearch", db, "json"):
        theirs, ours = (json.loads(text)["esearchresult"] for text in (body, answer(store, "esearch", params).body))
        same_words = theirs.get("errorlist") == ours.get("errorlist")
        if (theirs["count"] == "0") == (ours["count"] == "0") and same_words:
            assert [key for key in ours if key != "warninglist"] == [key for key in theirs if key != "warninglist"]
            compared += 1
    assert compared >= 30


@pytest.mark.shared_data
@needs_recordings
def test_gene_xml_uses_no_element_that_ncbis_does_not(store: GatewayStore) -> None:
    """The markup of a located, official gene is a subset of the recorded one."""
    theirs = {tag for _, body in _recorded("esummary", "gene", None) for tag in _tags(body)}
    assert set(_tags(call(store, "esummary", db="gene", id="5699,1080").body)) <= theirs
