"""What the replies of the gateway's newer databases say: summaries, texts, links, errors."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_records import ARTICLES, call, make_store, summary

from retrieval.gateway.app import answer, create_gateway_app
from retrieval.gateway.eutils.history import History
from retrieval.gateway.store.reader import GatewayStore
from retrieval.gateway.store.writer import StoreWriter


@pytest.mark.parametrize(
    ("params", "kind", "beginning"),
    [
        ({}, "text/xml", "<?xml"),
        ({"retmode": "xml", "rettype": "abstract"}, "text/xml", "<?xml"),
        ({"retmode": "text"}, "text/plain", "1. Lancet."),
        ({"rettype": "abstract"}, "text/plain", "1. Lancet."),
        ({"rettype": "medline"}, "text/plain", "\nPMID- 10000002"),
        ({"rettype": "docsum", "retmode": "text"}, "text/plain", "\n1: The Hasty Group. A finding"),
        ({"rettype": "uilist"}, "text/plain", "10000002\n"),
    ],
)
def test_pubmeds_forms_are_chosen_by_type_and_mode(
    store: GatewayStore, params: dict[str, str], kind: str, beginning: str
) -> None:
    """XML unless a text is asked for; retmode=xml wins over a type that is a text."""
    reply = call(store, "efetch", db="pubmed", id="10000002", **params)
    assert reply.content_type.startswith(kind)
    assert reply.body.startswith(beginning)


@pytest.mark.parametrize(
    ("db", "params", "message"),
    [
        ("pubmed", {"id": "10000001", "rettype": "fasta"}, "Report 'fasta' not found in 'pubmed' presentation"),
        ("clinvar", {"id": "12374", "rettype": "vcv"}, "Report 'vcv' not found in 'clinvar' presentation"),
        ("taxonomy", {"id": "human"}, "ID list is empty! Possibly it has no correct IDs."),
        ("pmc", {"id": "0"}, "ID list is empty! Possibly it has no correct IDs."),
        ("pubmed", {"query_key": "7", "webenv": "gone"}, "Unable to obtain query #1"),
        ("pubmed", {"id": ",".join(map(str, range(1, 10_002)))}, "Too many UIDs in request."),
    ],
)
def test_efetch_refuses_in_ncbis_words(store: GatewayStore, db: str, params: dict[str, str], message: str) -> None:
    """HTTP 400 with an eFetchResult."""
    reply = call(store, "efetch", db=db, **params)
    assert reply.status == 400
    assert f"<eFetchResult>\n\t<ERROR>{message}" in reply.body


@pytest.mark.parametrize(
    ("db", "root"), [("pubmed", "PubmedArticleSet"), ("pmc", "pmc-articleset"), ("taxonomy", "TaxaSet")]
)
def test_unknown_uids_are_an_empty_set(store: GatewayStore, db: str, root: str) -> None:
    """As at NCBI, a number that is no record is no error of efetch."""
    reply = call(store, "efetch", db=db, id="424242")
    assert (reply.status, reply.body.endswith(f"<{root}>\n</{root}>\n")) == (200, True)


@pytest.mark.parametrize("retmode", ["json", "xml"])
def test_too_many_ids_of_a_summary_are_refused(store: GatewayStore, retmode: str) -> None:
    """Said, not cut off."""
    ids = ",".join(map(str, range(1, 10_002)))
    assert "Too many UIDs in request" in call(store, "esummary", db="pubmed", id=ids, retmode=retmode).body


def test_a_page_beyond_the_end_of_a_search_is_named(store: GatewayStore) -> None:
    """With NCBI's words, and HTTP 400 from efetch."""
    history = History()
    search = {"db": "pubmed", "term": "zinc", "usehistory": "y", "retmode": "json"}
    found = json.loads(answer(store, "esearch", search, history).body)["esearchresult"]
    params = {"db": "pubmed", "webenv": found["webenv"], "query_key": found["querykey"], "retstart": "9"}
    reply = answer(store, "efetch", params, history)
    assert (reply.status, "Cannot retrieve history data. query_key: 1" in reply.body) == (400, True)
    assert "Cannot retrieve history data" in answer(store, "esummary", params, history).body


def test_a_clinvar_summary_names_place_genes_and_classification(store: GatewayStore) -> None:
    """In the layout of 2024: germline_classification with its traits; what there is not has NCBI's empty date."""
    found = summary(store, "clinvar", "12374")
    assert (found["accession"], found["obj_type"], found["protein_change"]) == (
        "VCV000012374", "single nucleotide variant", "R175H",
    )  # fmt: skip
    germline = found["germline_classification"]
    assert (germline["description"], germline["last_evaluated"]) == ("Pathogenic", "2024/06/03 00:00")
    assert germline["trait_set"][0]["trait_xrefs"][1] == {"db_source": "MedGen", "db_id": "C0085390"}
    assert found["genes"] == [{"symbol": "TP53", "geneid": "7157", "strand": "", "source": ""}]
    allele = found["variation_set"][0]
    assert (allele["cdna_change"], allele["variation_xrefs"]) == (
        "c.524G>A", [{"db_source": "dbSNP", "db_id": "28934578"}],
    )  # fmt: skip
    assert allele["variation_loc"][0]["start"] == allele["variation_loc"][0]["stop"] == "7675088"
    assert found["oncogenicity_classification"]["last_evaluated"] == "1/01/01 00:00"
    assert found["supporting_submissions"]["rcv"] == ["RCV000013144", "RCV000131301"]


def test_identifiers_of_one_phenotype_among_several_are_not_guessed(store: GatewayStore) -> None:
    """The store does not know whose they are."""
    traits = summary(store, "clinvar", "99")["germline_classification"]["trait_set"]
    assert traits == [{"trait_xrefs": [], "trait_name": "one"}, {"trait_xrefs": [], "trait_name": "two"}]


def test_a_taxons_summary_takes_its_group_and_genus_from_above(store: GatewayStore) -> None:
    """division is the everyday name of the nearest group that has one; GenBank's division is its own."""
    found = summary(store, "taxonomy", "63221")
    assert (found["division"], found["genus"], found["species"], found["subsp"]) == (
        "primates", "Homo", "sapiens", "neanderthalensis",
    )  # fmt: skip
    assert (summary(store, "taxonomy", "9606")["commonname"], found["taxid"]) == ("human", 63221)


def test_a_medgen_summary_has_its_structures(store: GatewayStore) -> None:
    """definition and semantictype hold a value, conceptmeta markup within a string."""
    found = summary(store, "medgen", "9000")
    assert (found["conceptid"], found["semanticid"], found["semantictype"]) == (
        "C0085390", "T191", {"value": "Neoplastic Process"},
    )  # fmt: skip
    assert found["definition"] == {"value": "A cancer <predisposition> & more."}
    assert "<OMIM><MIM>151623</MIM></OMIM>" in found["conceptmeta"]


def test_a_full_texts_summary_has_both_dates(store: GatewayStore) -> None:
    """When it could first be read, and when it was printed."""
    found = summary(store, "pmc", "9000001")
    assert (found["pubdate"], found["printpubdate"], found["pmclivedate"]) == ("2020 Nov 5", "2021 Jan 8", "2020/11/05")
    assert found["articleids"][0] == {"idtype": "pmid", "value": "10000001"}


def test_links_name_what_leads_where(store: GatewayStore) -> None:
    """Several databases make several links; the default is pubmed; an unknown linkname has none."""
    both = json.loads(call(store, "elink", dbfrom="gene", db="pubmed,omim", id="7157", retmode="json").body)
    assert {found["linkname"] for found in both["linksets"][0]["linksetdbs"]} == {"gene_pubmed", "gene_omim"}
    default = json.loads(call(store, "elink", dbfrom="gene", id="7157", retmode="json").body)
    assert default["linksets"][0]["linksetdbs"][0]["links"] == ["10000001", "10000002"]
    none = json.loads(call(store, "elink", dbfrom="gene", linkname="gene_books", id="7157", retmode="json").body)
    assert none["linksets"] == [{"dbfrom": "gene", "ids": ["7157"]}]


def test_a_term_narrows_the_links(store: GatewayStore) -> None:
    """Only links to what it finds; where it finds none of them, NCBI's words for that."""
    params = {"dbfrom": "gene", "db": "pubmed", "id": "7157"}
    some = json.loads(call(store, "elink", **params, term="Lancet[ta]", retmode="json").body)
    assert some["linksets"][0]["linksetdbs"][0]["links"] == ["10000002"]
    assert "<Info>No filtered links</Info>" in call(store, "elink", **params, term="nothing").body


class _Measured(GatewayStore):
    longest = 0

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self.longest = max(self.longest, len(sql))
        return super().query(sql, parameters)


def test_a_term_over_many_links_makes_no_long_statement(tmp_path: Path) -> None:
    """SQLite takes a megabyte of a statement, and the store keeps statements for their counts."""
    with contextlib.closing(make_store(tmp_path)) as made:
        path = made.path
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        links = (("gene", 7157, "pubmed", uid, False) for uid in range(20_000_000, 20_005_000))
        connection.executemany("INSERT INTO link VALUES (?, ?, ?, ?, ?)", links)
    with contextlib.closing(_Measured(path)) as store:
        params = {"dbfrom": "gene", "db": "pubmed", "id": "7157", "retmode": "json"}
        every = json.loads(call(store, "elink", **params).body)["linksets"][0]["linksetdbs"][0]["links"]
        some = json.loads(call(store, "elink", **params, term="Lancet[ta]").body)["linksets"][0]["linksetdbs"][0]
        assert len(every) > 5000 and 0 < len(some["links"]) < 3
        assert store.longest < 5000


def test_acheck_lists_the_links_an_id_has(store: GatewayStore) -> None:
    """Only those that lead somewhere."""
    reply = call(store, "elink", dbfrom="clinvar", id="12374,99", cmd="acheck", retmode="json")
    checked = json.loads(reply.body)["linksets"][0]["idchecklist"]["idlinksets"]
    assert [[info["linkname"] for info in found["linkinfos"]] for found in checked] == [
        ["clinvar_gene", "clinvar_snp", "clinvar_omim"],
        [],
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dbfrom": "gene", "id": ""}, "Empty id list"),
        ({"dbfrom": "nope", "id": "1"}, "Invalid db name specified: nope"),
        ({"dbfrom": "gene", "db": "omim,nope", "id": "1"}, "Invalid db name specified: nope"),
        ({"dbfrom": "gene", "id": "1", "cmd": "prlinks"}, "Invalid command: prlinks"),
        ({"dbfrom": "gene", "id": "1", "term": "(" * 200}, "nested"),
        ({"dbfrom": "gene", "query_key": "1", "webenv": "gone"}, "Unable to obtain query #1"),
    ],
)
def test_elink_refuses_in_words(store: GatewayStore, params: dict[str, str], message: str) -> None:
    """In both formats."""
    for retmode in ("json", "xml"):
        assert message in call(store, "elink", retmode=retmode, **params).body


async def test_repeated_ids_make_link_sets_of_their_own(store: GatewayStore) -> None:
    """id=1&id=2 are two sets, id=1,2 is one; hundreds of repeats are taken."""
    transport = httpx.ASGITransport(app=create_gateway_app(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        path = "/entrez/eutils/elink.fcgi?dbfrom=gene&db=pubmed&retmode=json"
        apart = (await client.get(f"{path}&id=7157&id=5,6")).json()["linksets"]
        many = (await client.get(path + "".join(f"&id={number}" for number in range(1, 301)))).json()["linksets"]
    assert [found["ids"] for found in apart] == [["7157"], ["5", "6"]]
    assert len(many) == 300


async def test_a_record_that_cannot_be_read_is_an_answer_and_not_a_crash(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is told which one; the log, which holds no ids, that there is one; other calls go on."""
    with contextlib.closing(make_store(tmp_path)) as made:
        path = made.path
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        StoreWriter(connection).put(replace(ARTICLES[0], xml="<nothing/>"))
    with contextlib.closing(GatewayStore(path)) as store:
        transport = httpx.ASGITransport(app=create_gateway_app(store))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            uid = str(ARTICLES[0].pmid)
            reply = await client.get("/entrez/eutils/esummary.fcgi", params={"db": "pubmed", "id": uid})
            assert reply.status_code == 500 and f"PMID {uid}: the store holds no PubMed element" in reply.text
            assert (await client.get("/entrez/eutils/einfo.fcgi")).status_code == 200
    own = [record for record in caplog.records if record.name.startswith("retrieval")]
    assert any(record.levelname == "ERROR" for record in own) and not any(uid in r.getMessage() for r in own)
