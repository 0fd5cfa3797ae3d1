"""Which identifiers an answer may send: those that its question names and that its replies have in places for ids."""

from __future__ import annotations

import json
import math
from itertools import combinations

import pytest

from retrieval.types import NcbiCall
from server.egress.provenance import Origin, Weighed, bits_of, reply_ids, said_ids, weigh
from server.egress.recognition.recognizer import Allowed
from server.egress.recognition.terms import Part, Refused

SEARCH = NcbiCall("esearch", "gene", {"db": "gene", "term": "BRCA1"})
LINK = NcbiCall("elink", "omim", {"dbfrom": "gene", "db": "omim", "id": "672"})
ABSTRACT = NcbiCall("efetch", "pubmed", {"db": "pubmed", "id": "7545954"})
SNP = {"uid": "334", "snp_id": 334, "genes": [{"name": "HBB", "gene_id": "3043"}], "chrpos": "11:5227002"}
ARTICLE_IDS = [{"idtype": "pmc", "value": "PMC77"}, {"idtype": "doi", "value": "9"}]
LINKED = [{"dbfrom": "gene", "ids": ["672"], "linksetdbs": [{"dbto": "omim", "links": ["113705"]}]}]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("What does PMID 7545954 say?", {("pubmed", "7545954")}),
        ("pmid: 7545954, 31978945 and 1", {("pubmed", "7545954"), ("pubmed", "31978945"), ("pubmed", "1")}),
        ("Compare PubMed articles 7545954 and 31978945.", {("pubmed", "7545954"), ("pubmed", "31978945")}),
        ("PubMed ID is 7545954", {("pubmed", "7545954")}),
        ("7545954[uid] OR 31978945[pmid]", {("pubmed", "7545954"), ("pubmed", "31978945")}),
        ("Where is rs334, and rs1217074595?", {("snp", "334"), ("snp", "1217074595")}),
        ("Gene ID 672 or GeneID:675", {("gene", "672"), ("gene", "675")}),
        ("MIM #154700; OMIM entry number 134797", {("omim", "154700"), ("omim", "134797")}),
        ("PMC7095418 and PMCID 5", {("pmc", "7095418"), ("pmc", "5")}),
        ("NM_000059.4 and ENSG00000012048", {("", "NM_000059.4"), ("", "ENSG00000012048")}),
        ("ClinVar 12345, VCV000012345.2", {("clinvar", "12345"), ("", "VCV000012345.2")}),
        ("txid9606, taxonomy ID 10090", {("taxonomy", "9606"), ("taxonomy", "10090")}),
    ],
)  # fmt: skip
def test_a_question_names_its_identifiers(text: str, ids: set[tuple[str, str]]) -> None:
    """As people write them, by database."""
    assert set(said_ids(text)) == ids


@pytest.mark.parametrize(
    "text",
    [
        "Her telephone number is 0301 5552397.",
        "MRN 1048812, born 12.03.1954",
        "chr17:43044295",
        "ferritin 1120, TSH 5.21",
        "PMID: 155-523-97",
        "PubMed says 20.5 percent",
        "the gene ACE 20448",
        "sample id 20448",
        "genes 10, 15, 8",
        "mrs334 and NM_12.1",
    ],
)
def test_other_numbers_are_none(text: str) -> None:
    """Whatever they are of, nobody called them an identifier."""
    assert set(said_ids(text)) == set()


@pytest.mark.parametrize(
    ("call", "body", "ids"),
    [
        (SEARCH, {"esearchresult": {"count": "2", "retmax": "20", "idlist": ["672", "675"]}},
         {("gene", "672"), ("gene", "675")}),
        (LINK, {"linksets": LINKED}, {("omim", "113705")}),
        (NcbiCall("esummary", "snp", {"db": "snp", "id": "334"}), {"result": {"uids": ["334"], "334": SNP}},
         {("snp", "334"), ("gene", "3043")}),
        (NcbiCall("esummary", "pubmed", {"db": "pubmed", "id": "1"}),
         {"result": {"uids": ["1"], "1": {"articleids": ARTICLE_IDS}}}, {("pubmed", "1"), ("pmc", "77")}),
        (NcbiCall("esearch", "pubmed", {"db": "pubmed", "term": "x"}),
         "<eSearchResult><Count>31978</Count><IdList><Id>7545954</Id></IdList></eSearchResult>",
         {("pubmed", "7545954")}),
        (ABSTRACT, '<PMID Version="1">7545954</PMID><Year>1995</Year><ArticleId IdType="pmc">PMC42</ArticleId>',
         {("pubmed", "7545954"), ("pmc", "42")}),
        (ABSTRACT, "PMID- 7545954\nDP  - 1995\n", {("pubmed", "7545954")}),
        (NcbiCall("efetch", "nuccore", {"db": "nuccore", "id": "NM_000059.4"}),
         'LOCUS NM_000059 11386 bp\n /db_xref="GeneID:675"\n /db_xref="MIM:600185"',
         {("", "NM_000059"), ("gene", "675"), ("omim", "600185")}),
        (NcbiCall("efetch", "gene", {"db": "gene", "rettype": "uilist"}), "672\n675\n",
         {("gene", "672"), ("gene", "675")}),
    ],
)  # fmt: skip
def test_a_reply_gives_the_ids_that_stand_in_its_places(
    call: NcbiCall, body: object, ids: set[tuple[str, str]]
) -> None:
    """Counts, positions, years and lengths are none."""
    text = body if isinstance(body, str) else json.dumps(body)

    found = set(reply_ids(call, text))
    assert ids <= found
    numbers = {number for _, number in found}
    assert not numbers & {"2", "20", "5227002", "31978", "1995", "11386", "9", "0"}


def _of(ids: str, **more: str) -> Allowed:
    parts = tuple(Part("id", one, "gene") for one in ids.split(","))
    return Allowed(NcbiCall("esummary", "gene", {"db": "gene", "id": ids} | more), ("id",), len(ids), parts)


def test_an_accession_without_its_version_stands_for_each() -> None:
    """The other way round a version is a number that anyone could choose."""
    loose, exact = Origin(), Origin()
    loose.hear("What is NM_000059?")
    exact.hear("What is NM_000059.4?")
    call = NcbiCall("efetch", "nuccore", {"db": "nuccore", "id": "NM_000059.5"})
    allowed = Allowed(call, ("id",), 11, (Part("id", "NM_000059.5"),))

    assert isinstance(weigh(allowed, loose), Weighed)
    assert isinstance(weigh(allowed, exact), Refused)


def test_no_two_calls_share_a_code() -> None:
    """The codes of all sets of ids that an answer could ask for satisfy Kraft's inequality."""
    origin = Origin()
    origin.hear(", ".join(f"gene ID {number}" for number in range(100, 108)))
    total = 0.0
    for size in range(1, 9):
        for chosen in combinations(range(100, 108), size):
            weighed = weigh(_of(",".join(map(str, chosen))), origin)
            assert isinstance(weighed, Weighed)
            total += 2.0**-weighed.bits

    assert total <= 1


def test_what_a_reply_from_here_repeats_is_not_met() -> None:
    """A gateway names the number that it was asked for, also where it has no such record, and finds those around it."""
    origin = Origin()
    summary = NcbiCall("esummary", "snp", {"db": "snp", "id": "1555239700"})
    origin.learn(summary, json.dumps({"result": {"uids": ["1555239700"]}}), is_paid=False)
    around = NcbiCall("esearch", "pubmed", {"db": "pubmed", "term": "15552396:15552398[uid]"})
    origin.learn(around, json.dumps({"esearchresult": {"idlist": ["15552397"]}}), is_paid=False)

    assert origin.ids == {}


def test_an_id_that_was_found_here_counts_in_full() -> None:
    """Searches of this machine's data are free, so that a model could make any id known; one from outside was paid."""
    here, outside = Origin(), Origin()
    found = json.dumps({"esearchresult": {"idlist": ["672"]}})
    here.learn(SEARCH, found, is_paid=False)
    outside.learn(SEARCH, found, is_paid=True)
    bits = {}
    for name, origin in (("here", here), ("outside", outside)):
        weighed = weigh(_of("672"), origin)
        assert isinstance(weighed, Weighed)
        bits[name] = weighed.bits

    assert bits["here"] > bits["outside"] + 25
    here.learn(SEARCH, found, is_paid=True)
    assert here.found_here == set()


def test_a_form_that_came_before_costs_little() -> None:
    """The parameters of a second call of the same form say nothing new."""
    origin = Origin()
    origin.hear("gene ID 672, gene ID 675")
    first = weigh(_of("672"), origin)
    assert isinstance(first, Weighed)
    origin.forms[first.form] = None
    second = weigh(_of("675"), origin)

    assert isinstance(second, Weighed) and second.bits < first.bits - 8


def test_a_name_of_the_question_costs_less_than_one_of_the_tables() -> None:
    """A name out of millions can carry letters; one of the few in the question cannot."""
    origin = Origin()
    origin.hear("Which drugs are affected by variants of TPMT in Crohn disease?")
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": "X"})

    def bits(name: str) -> float:
        return bits_of(Allowed(call, ("symbol",), 4, (Part("name", name),)), origin)

    assert bits("TPMT") == bits("crohn disease") < bits("NUDT15") - 10
    assert bits("NUDT15") - bits("human") > 10
    assert bits("TPMT") >= math.log2(11)
