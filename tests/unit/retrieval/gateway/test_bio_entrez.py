"""Biopython reads every reply of the gateway: the contract of its E-utilities.

Bio.Entrez parses by the DTD a reply names, of which it ships copies. Those of esummary's own layouts are among them
for gene and clinvar only; the others it fetches from NCBI, whatever ``validate`` says.
"""

from __future__ import annotations

import io
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import uvicorn
from Bio import Entrez, Medline, SeqIO
from Bio.Entrez.Parser import DataHandler
from gateway_records import ARTICLES

from retrieval.formats.records import DATABASES, Database
from retrieval.gateway.app import answer, create_gateway_app
from retrieval.gateway.documents.docsum_xml import LAYOUTS, Tag
from retrieval.gateway.http_reply import Reply
from retrieval.gateway.store.reader import GatewayStore

NCBI = "https://eutils.ncbi.nlm.nih.gov"
UIDS: dict[Database, str] = {
    "gene": "7157", "snp": "28934578", "omim": "151623", "nuccore": "NG_017013.2:101-180", "pubmed": "10000001",
    "pmc": "9000001", "clinvar": "12374", "taxonomy": "9606", "medgen": "9000",
}  # fmt: skip
PMIDS = ",".join(str(article.pmid) for article in ARTICLES)


@pytest.fixture(scope="module")
def address(store: GatewayStore) -> Iterator[str]:
    """The gateway as a server on loopback."""
    server = uvicorn.Server(uvicorn.Config(create_gateway_app(store), log_config=None, lifespan="off"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(120)
    listener.close()


@pytest.fixture
def entrez(address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``entrez("esearch", **keywords)`` calls the function of Bio.Entrez, its calls to NCBI led to the gateway."""

    def led(request: urllib.request.Request) -> Any:
        request.full_url = request.full_url.replace(NCBI, address)
        return urllib.request.urlopen(request, timeout=120)

    def call(name: str, **keywords: object) -> Any:
        Entrez._open.previous = 0  # NCBI's limit of calls a second is not the gateway's
        return getattr(Entrez, name)(**keywords)

    monkeypatch.setattr(Entrez, "urlopen", led)
    monkeypatch.setattr(Entrez, "email", "tests@example.org")
    monkeypatch.setattr(Entrez, "max_tries", 1)
    return call


def read(reply: Reply) -> Any:
    return Entrez.read(io.BytesIO(reply.body.encode()))


@pytest.mark.parametrize("db", DATABASES)
def test_searches_are_read_and_find_the_record(store: GatewayStore, db: Database) -> None:
    """esearch of every database satisfies the DTD, with and without the history."""
    term = {"nuccore": "NG_017013.2"}.get(db, f"{UIDS[db]}[uid]")
    for history in ("", "y"):
        found = read(answer(store, "esearch", {"db": db, "term": term, "usehistory": history}))
        assert list(found["IdList"]) == [UIDS[db]]
    assert found["WebEnv"].startswith("MCID_")


@pytest.mark.parametrize("db", [db for db in DATABASES if db != "snp"])
def test_default_summaries_are_read(store: GatewayStore, db: Database) -> None:
    """esummary without a version satisfies the DTD that Biopython ships, and names the record."""
    found = read(answer(store, "esummary", {"db": db, "id": UIDS[db]}))
    if db in ("gene", "clinvar"):
        assert found["DocumentSummarySet"]["DocumentSummary"][0].attributes["uid"] == UIDS[db]
    else:
        assert found[0]["Id"] == UIDS[db]


def _declared(tag: Tag) -> Iterator[str]:
    """A DTD's declarations of one element of a layout."""
    inner = f"({','.join(f'{part.name}?' for part in tag.parts)})" if tag.parts else "(#PCDATA)"
    yield f"<!ELEMENT {tag.name} {f'({tag.item})*' if tag.item else inner}>"
    if tag.item:
        yield f"<!ELEMENT {tag.item} {inner}>"
    for part in tag.parts:
        yield from _declared(part)


@pytest.mark.parametrize("db", [db for db in LAYOUTS if db not in ("clinvar", "gene")])
def test_own_layouts_are_read_where_their_dtd_is_at_hand(
    store: GatewayStore, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """version=2.0 is the database's own layout; Biopython reads it once it has a DTD of that layout."""
    names = ",".join(f"{tag.name}?" for tag in LAYOUTS[db])
    lines = [line for tag in LAYOUTS[db] for line in _declared(tag)]
    lines += [f"<!ELEMENT DocumentSummary ({names})>", "<!ELEMENT DbBuild (#PCDATA)>"]
    lines += ["<!ELEMENT DocumentSummarySet (DbBuild?,DocumentSummary*)>"]
    (tmp_path / f"esummary_{db}.dtd").write_text("\n".join([*lines, "<!ELEMENT eSummaryResult (DocumentSummarySet?)>"]))
    monkeypatch.setattr(DataHandler, "local_dtd_dir", str(tmp_path))
    reply = answer(store, "esummary", {"db": db, "id": UIDS[db], "version": "2.0"})
    document = read(reply)["DocumentSummarySet"]["DocumentSummary"][0]
    element = ElementTree.fromstring(reply.body).find("DocumentSummarySet/DocumentSummary")
    assert element is not None
    assert [child.tag for child in element] == [tag.name for tag in LAYOUTS[db]]
    assert set(document) == {tag.name for tag in LAYOUTS[db]}


def test_articles_and_chapters_are_read_as_pubmed_sends_them(store: GatewayStore) -> None:
    """efetch's PubmedArticleSet satisfies NLM's DTD, markup in titles and all."""
    found = read(answer(store, "efetch", {"db": "pubmed", "id": PMIDS, "retmode": "xml"}))
    pmids = [str(article["MedlineCitation"]["PMID"]) for article in found["PubmedArticle"]]
    assert pmids == ["10000001", "10000002", "10000003", "10000005"]
    title = found["PubmedArticle"][0]["MedlineCitation"]["Article"]["ArticleTitle"]
    assert title.startswith("The <i>TP53</i> R175H & R273H variants: Zn<sup>2+</sup> loss at pH < 7")
    assert str(found["PubmedBookArticle"][0]["BookDocument"]["PMID"]) == "10000004"


def test_full_texts_are_read_with_their_words(store: GatewayStore) -> None:
    """pmc-articleset: Biopython finds the JATS DTD by what NCBI writes into each article, and so does it here."""
    (article,) = read(answer(store, "efetch", {"db": "pmc", "id": "PMC9000001"}))
    assert article["front"]["article-meta"]["article-id"][1] == "9000001"
    assert article["body"]["sec"][0]["p"] == ["p53 binds <bold>zinc</bold> & DNA."]


def test_taxa_are_read_with_their_lineage(store: GatewayStore) -> None:
    """TaxaSet: the lineage is built from the parents, a circle of them ends."""
    human, circle = read(answer(store, "efetch", {"db": "taxonomy", "id": "9606,70001"}))
    assert human["Lineage"] == "Eukaryota; Primates; Homo"
    assert [(taxon["TaxId"], taxon["Rank"]) for taxon in human["LineageEx"]][-1] == ("9605", "genus")
    assert human["OtherNames"]["GenbankCommonName"] == "human"
    assert circle["Lineage"] == "Circle two"


def test_medline_records_are_read(store: GatewayStore) -> None:
    """Bio.Medline finds one record for each, with the tags it knows."""
    body = answer(store, "efetch", {"db": "pubmed", "id": UIDS["pubmed"], "rettype": "medline", "retmode": "text"}).body
    (record,) = Medline.parse(io.StringIO(body))
    assert record["PMID"] == "10000001"
    assert record["AU"][0] == "Müller-Österreich ŽA"
    assert record["TI"].startswith("The TP53 R175H & R273H variants")
    assert record["SO"].endswith("doi: 10.1093/nar/gkaa001. Epub 2020 Nov 5.")


def test_nucleotides_are_read_as_fasta(store: GatewayStore) -> None:
    """Bio.SeqIO reads the stretches efetch sends."""
    body = answer(store, "efetch", {"db": "nuccore", "id": "NG_017013.2", "rettype": "fasta"}).body
    (sequence,) = SeqIO.parse(io.StringIO(body), "fasta")
    assert (sequence.id, len(sequence)) == ("NG_017013.2:101-180", 80)


@pytest.mark.parametrize("db", DATABASES)
def test_uid_lists_are_read(store: GatewayStore, db: Database) -> None:
    """rettype=uilist, as text and as XML, has the ids that are in the store."""
    params = {"db": db, "id": f"{UIDS[db]},424242", "rettype": "uilist"}
    assert answer(store, "efetch", params).body == f"{UIDS[db]}\n"
    assert list(read(answer(store, "efetch", {**params, "retmode": "xml"}))) == [UIDS[db]]


@pytest.mark.parametrize("db", [db for db in DATABASES if db != "snp"])
def test_fetched_summaries_are_read(store: GatewayStore, db: Database) -> None:
    """efetch rettype=docsum is esummary's XML."""
    fetched = answer(store, "efetch", {"db": db, "id": UIDS[db], "rettype": "docsum"})
    assert fetched == answer(store, "esummary", {"db": db, "id": UIDS[db]})
    read(fetched)


@pytest.mark.parametrize("db", DATABASES)
def test_descriptions_of_databases_are_read(store: GatewayStore, db: Database) -> None:
    """einfo counts the records and lists fields and links."""
    (info,) = read(answer(store, "einfo", {"db": db}))["DbInfo"]
    assert (info["DbName"], int(info["Count"])) == (db, store.count(db))
    assert info["FieldList"][0]["Name"] == "ALL"
    assert all(link["Name"] == f"{db}_{link['DbTo']}" for link in info["LinkList"])


@pytest.mark.parametrize("command", ["neighbor", "neighbor_score", "neighbor_history", "acheck", "ncheck", "lcheck"])
def test_links_are_read(store: GatewayStore, command: str) -> None:
    """elink's forms satisfy the DTD for an id with links and one without."""
    sets = read(answer(store, "elink", {"dbfrom": "gene", "db": "pubmed", "id": "7157&5", "cmd": command}))
    assert [found["DbFrom"] for found in sets] == ["gene", "gene"]


def test_biopython_searches_posts_and_fetches_over_http(entrez: Callable[..., Any]) -> None:
    """The history leads from esearch to esummary and efetch, from epost likewise, page by page."""
    found = Entrez.read(entrez("esearch", db="pubmed", term="Lancet[ta]", usehistory="y", retmax=0))
    kept = {"db": "pubmed", "webenv": found["WebEnv"], "query_key": found["QueryKey"]}
    assert found["Count"] == "2"
    pages = [Entrez.read(entrez("esummary", **kept, retstart=at, retmax=1))[0]["Id"] for at in (0, 1)]
    assert sorted(pages) == ["10000002", "10000003"]
    records = list(Medline.parse(entrez("efetch", **kept, rettype="medline", retmode="text")))
    assert [record["PMID"] for record in records] == pages
    posted = Entrez.read(entrez("epost", db="pubmed", id=PMIDS))
    kept = {"db": "pubmed", "webenv": posted["WebEnv"], "query_key": posted["QueryKey"]}
    articles = Entrez.read(entrez("efetch", **kept, retmode="xml", retstart=1, retmax=2))["PubmedArticle"]
    assert [str(article["MedlineCitation"]["PMID"]) for article in articles] == ["10000002", "10000003"]


def test_biopython_follows_links_over_http(entrez: Callable[..., Any]) -> None:
    """A list of ids makes a link set of each, a text with commas one of all; a history leads on to the articles."""
    apart = Entrez.read(entrez("elink", dbfrom="pubmed", db="gene", id=["10000001", "10000002", "10000005"]))
    assert [list(found["IdList"]) for found in apart] == [["10000001"], ["10000002"], ["10000005"]]
    assert [link["Id"] for link in apart[0]["LinkSetDb"][0]["Link"]] == ["7157"]
    assert apart[2]["LinkSetDb"] == []
    (together,) = Entrez.read(entrez("elink", dbfrom="pubmed", linkname="pubmed_gene", id="10000001,10000002"))
    assert together["LinkSetDb"][0]["LinkName"] == "pubmed_gene"
    (kept,) = Entrez.read(entrez("elink", dbfrom="gene", db="pubmed", id="7157", cmd="neighbor_history"))
    key = kept["LinkSetDbHistory"][0]["QueryKey"]
    summaries = Entrez.read(entrez("esummary", db="pubmed", webenv=kept["WebEnv"], query_key=key))
    assert [summary["Id"] for summary in summaries] == ["10000001", "10000002"]


def test_biopython_asks_what_there_is_over_http(entrez: Callable[..., Any]) -> None:
    """einfo lists the databases, and describes one."""
    assert list(Entrez.read(entrez("einfo"))["DbList"]) == list(DATABASES)
    assert Entrez.read(entrez("einfo", db="pubmed"))["DbInfo"][0]["Count"] == "5"


def test_biopython_reports_what_the_gateway_refuses(entrez: Callable[..., Any]) -> None:
    """Errors in a body are raised by read, those of efetch as HTTP errors already by the call."""
    with pytest.raises(RuntimeError, match="UID=424242: cannot get document summary"):
        Entrez.read(entrez("esummary", db="pubmed", id="424242"))
    with pytest.raises(RuntimeError, match="Invalid db name specified: nope"):
        Entrez.read(entrez("epost", db="nope", id="1"))
    for keywords in ({"db": "pubmed", "id": "abc"}, {"db": "pubmed", "id": "10000001", "rettype": "fasta"}):
        with pytest.raises(urllib.request.HTTPError, match="400"):
            entrez("efetch", **keywords)
