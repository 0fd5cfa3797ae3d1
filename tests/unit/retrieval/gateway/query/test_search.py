"""What a query finds, in which order: fields, ranges, truncation, organisms, pages; what replacing a record does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_records import make_store

from retrieval.formats.records import Article, Concept, Gene, Link, OmimEntry, Organism, Removal, Snp, Variation
from retrieval.gateway.app import answer
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.query.search import Page, StorePhraseLookup, search
from retrieval.gateway.query.syntax import parse_query
from retrieval.gateway.store.reader import SCHEMA_VERSION, SITE, GatewayStore, create_tables
from retrieval.gateway.store.writer import StoreWriter

HUMAN = Organism(9606, "Homo sapiens", "human")
MOUSE = Organism(10090, "Mus musculus", "mouse")
Find = Callable[..., list[str]]


def article(pmid: int, title: str, **fields: object) -> Article:
    empty: dict[str, object] = dict.fromkeys(
        ("journal", "authors", "types", "mesh", "mesh_major", "keywords", "languages"), ()
    )
    values = {"xml": "", "abstract": "", "date": "2010-05-02"} | empty | fields
    return Article(pmid=pmid, title=title, **values)  # type: ignore[arg-type]


def gene(uid: int, symbol: str, organism: Organism = HUMAN, **fields: object) -> Gene:
    return Gene(gene_id=uid, symbol=symbol, name=f"{symbol} thing", organism=organism, **fields)  # type: ignore[arg-type]


def snp(uid: int, chromosome: str, position: str) -> Snp:
    texts = dict.fromkeys(
        (
            *("accession", "position_grch37", "spdi", "function_class", "snp_class", "allele", "docsum", "clinical"),
            *("handles", "validated", "ss", "orig_build", "upd_build", "created", "updated"),
        ),
        "",
    )
    return Snp(snp_id=uid, genes=(("HBB", "3043"),), chromosome=chromosome, position=position, mafs=(), **texts)


RECORDS = (
    gene(3043, "HBB", aliases=("CD113t-C", "beta-globin"), weight=9),
    gene(15129, "Hbb-b1", MOUSE, aliases=("beta1",)),
    gene(3040, "HBA2", weight=5),
    snp(334, "11", "5227002"),
    snp(33930165, "11", "5227003"),
    snp(76723693, "X", "5227002"),
    OmimEntry(603903, "#", "SICKLE CELL ANEMIA", "", "11p15.4"),
    OmimEntry(141900, "*", "HEMOGLOBIN--BETA LOCUS; HBB", "", "11p15.4"),
    article(11, "Sickle cell anemia in children", authors=("Smith JA", "Van der Berg T"), date="2001"),
    article(12, "Anemia of sickle cells, and more", authors=("Smithson J",), types=("Review",), date="2012-03"),
    article(
        *(13, "Hydroxyurea therapy"),
        abstract="We treated sickle cell anemia with hydroxyurea.",
        mesh=("Anemia, Sickle Cell/drug therapy",),
        types=("Randomized Controlled Trial", "Journal Article"),
        languages=("eng",),
        date="2012-11-30",
        doi="10.1000/x(1)",
    ),
    article(14, "Müller cells in the retina", authors=("Müller H",), date="2020-01-05"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayStore]:
    path = tmp_path_factory.mktemp("store") / "gateway.sqlite"
    with write(path) as writer:
        for record in RECORDS:
            writer.put(record)
    opened = GatewayStore(path)
    yield opened
    opened.close()


class write:  # noqa: N801  # reads as the verb it is
    """A writer over a store at ``path``, made where there is none."""

    def __init__(self, path: Path) -> None:
        fresh = not path.exists()
        self._connection = sqlite3.connect(path)
        if fresh:
            create_tables(self._connection)
            meta = {"schema": SCHEMA_VERSION, "kind": SITE, "fingerprint": "test"}
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())

    def __enter__(self) -> StoreWriter:
        return StoreWriter(self._connection)

    def __exit__(self, *_: object) -> None:
        self._connection.commit()
        self._connection.close()


@pytest.fixture(scope="module")
def find(store: GatewayStore) -> Find:
    def run(db: str, term: str, **page: object) -> list[str]:
        tree = parse_query(term).tree
        assert tree is not None
        return search(store, db, tree, Page(**page)).uids  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("sickle cell anemia", {"11", "13"}),
        ("sickle[ti]", {"11", "12"}),
        ("sickle[tiab]", {"11", "12", "13"}),
        ('"sickle cell"', {"11", "13"}),
        ("hydroxy*", {"13"}),
        ("Smith[au]", {"11"}),
        ("Smith J[au]", {"11"}),
        ("Smith JB[au]", set()),
        ("van der Berg T[au]", {"11"}),
        ("anemia, sickle cell[mesh]", {"13"}),
        ("2012[dp]", {"12", "13"}),
        ("2012/11[dp]", {"13"}),
        ("2011:2015[dp]", {"12", "13"}),
        ('"2012/04/01"[Date - Publication] : "3000"[Date - Publication]', {"13", "14"}),
        ("review[pt]", {"12"}),
        ("randomized controlled trial[pt]", {"13"}),
        ("eng[la]", {"13"}),
        ("10.1000/x(1)[doi]", {"13"}),
        ("13[pmid]", {"13"}),
        ("11 13[uid]", {"11", "13"}),
        ("14", {"14"}),
        ("Muller[au]", {"14"}),
        ("hasabstract[filter]", {"13"}),
        ("sickle NOT 2012[dp]", {"11"}),
        ("(review[pt] OR 2020[dp]) AND cells", {"12", "14"}),
        ("nowhereatall[ti]", set()),
    ],
)
def test_articles_are_found_by_field(find: Find, term: str, found: set[str]) -> None:
    """Tags, phrases, truncation, dates and operators mean what they mean in PubMed."""
    assert set(find("pubmed", term)) == found


@pytest.mark.parametrize(
    ("db", "term", "found"),
    [
        ("gene", "HBB", ["3043", "15129"]),
        ("gene", "HBB[sym]", ["3043", "15129"]),
        ("gene", "hbb[sym] AND human[orgn]", ["3043"]),
        ("gene", "beta-globin", ["3043"]),
        ("gene", "globin", ["3043"]),
        ("gene", "mouse[orgn]", ["15129"]),
        ("gene", "txid9606[orgn]", ["3043", "3040"]),
        ("gene", "mouse", ["15129"]),
        ("gene", "HB*[sym]", ["3043", "3040", "15129"]),
        ("gene", "3040", ["3040"]),
        ("snp", "rs334", ["334"]),
        ("snp", "334[rs]", ["334"]),
        ("snp", "5227002[chrpos] AND 11[chr]", ["334"]),
        ("snp", "11:5227002[cpos]", ["334"]),
        ("snp", "5227000:5227002[cpos] AND human[orgn]", ["76723693", "334"]),
        ("snp", "HBB[gene] AND mouse[orgn]", []),
        ("omim", "sickle cell", ["603903"]),
        ("omim", "sickle cell anemia of children", ["603903"]),
        ("omim", "11p15.4[map]", ["603903", "141900"]),
    ],
)
def test_records_are_found_by_name_number_place_and_organism(find: Find, db: str, term: str, found: list[str]) -> None:
    """In the database's own order: weight for genes, the newest uid first elsewhere."""
    assert find(db, term) == found


def test_a_disease_finds_the_entries_of_its_genes(tmp_path: Path) -> None:
    """As in OMIM, where the text of a gene's entry names its diseases; a search of titles, or of a place, does not."""
    path = tmp_path / "gateway.sqlite"
    with write(path) as writer:
        writer.put(gene(2200, "FBN1", mim=("134797",)))
        writer.put(OmimEntry(134797, "*", "FIBRILLIN 1; FBN1", "", "15q21.1"))
        writer.put(OmimEntry(154700, "#", "MARFAN SYNDROME; MFS", "", "15q21.1"))
        writer.put(OmimEntry(608328, "#", "WEILL-MARCHESANI SYNDROME 2; WMS2", "", "15q21.1"))
        for disease in ("154700", "608328"):
            writer.put(Link("omim", disease, "gene", "2200"))
    store = GatewayStore(path)
    terms = ("marfan syndrome", "marfan[title]", "fibrillin", "FBN1 OR nothing")
    trees = [parse_query(term).tree for term in terms]
    found = [search(store, "omim", tree, Page(sort="relevance")) for tree in trees if tree]
    assert [hits.uids for hits in found] == [["154700", "134797"], ["154700"], ["134797"], ["134797"]]
    assert [hits.count for hits in found] == [2, 1, 1, 1]
    store.close()


def test_relevance_puts_what_is_named_so_before_what_mentions_it(find: Find) -> None:
    """Of genes, the symbol before an alias's part; of articles, the title before the abstract."""
    assert find("gene", "hb*", sort="relevance")[0] in {"3043", "3040"}
    assert find("pubmed", "sickle cell anemia", sort="relevance") == ["11", "13"]
    assert find("pubmed", "sickle", sort="pub_date") == ["13", "12", "11"]


def test_pages_are_parts_of_one_list(find: Find) -> None:
    """Page after page gives every hit once."""
    whole = find("pubmed", "cell OR cells OR anemia")
    pages = [uid for start in range(0, 6, 2) for uid in find("pubmed", "cell OR cells OR anemia", start=start, size=2)]
    assert pages == whole
    assert len(whole) == 4


def test_a_replaced_record_is_found_by_its_new_words_alone(tmp_path: Path) -> None:
    """The index forgets what the old record said, also after removal."""
    path = tmp_path / "gateway.sqlite"
    with write(path) as writer:
        writer.put(article(7, "Old words"))
        writer.put(Link("pubmed", "7", "gene", "3043"))
        writer.put(article(7, "New words"))
    store = GatewayStore(path)
    tree = {word: parse_query(f"{word}[ti]").tree for word in ("old", "new", "words")}
    counts = {word: search(store, "pubmed", node, Page()).count for word, node in tree.items() if node}
    assert counts == {"old": 0, "new": 1, "words": 1}
    assert store.links("gene", "3043", "pubmed") == ["7"]
    store.close()
    with write(path) as writer:
        writer.put(Removal("pubmed", "7"))
    store = GatewayStore(path)
    assert all(search(store, "pubmed", node, Page()).count == 0 for node in tree.values() if node)
    assert store.links("gene", "3043", "pubmed") == []
    store.close()


def test_what_several_files_say_of_a_concept_or_entry_comes_together(tmp_path: Path) -> None:
    """A later file fills what an earlier one left empty, and adds to lists."""
    path = tmp_path / "gateway.sqlite"
    with write(path) as writer:
        writer.put(Concept(uid=5, cui="C5", name="Anemia", synonyms=("low blood",)))
        writer.put(Concept(uid=5, cui="C5", name="", definition="Too few red cells.", synonyms=("anaemia",)))
        writer.put(OmimEntry(9, "#", "A TITLE", "", ""))
        writer.put(OmimEntry(9, "", "", "", "1p36"))
    store = GatewayStore(path)
    concept = Concept(
        uid=5, cui="C5", name="Anemia", definition="Too few red cells.", synonyms=("low blood", "anaemia")
    )
    assert store.record("medgen", "5") == concept
    assert store.omim("9") == OmimEntry(9, "#", "A TITLE", "", "1p36")
    store.close()


def test_links_and_variations_are_read_both_ways(tmp_path: Path) -> None:
    """A gene's own MIM numbers are links too."""
    path = tmp_path / "gateway.sqlite"
    with write(path) as writer:
        writer.put(gene(3043, "HBB", mim=("141900",)))
        writer.put(
            Variation(
                **dict.fromkeys(
                    (
                        *("name", "kind", "significance", "last_evaluated", "review_status", "rs", "assembly"),
                        *("chromosome", "position", "cytogenetic", "origin"),
                    ),
                    "x",
                ),
                variation_id=15333,
                allele_id=1,
                genes=(("HBB", "3043"),),
                phenotypes=("Sickle cell disease",),
                phenotype_ids=(),
                accessions=(),
            )
        )
        writer.put(Link("clinvar", "15333", "gene", "3043"))
    store = GatewayStore(path)
    assert store.links("omim", "141900", "gene") == ["3043"]
    assert store.links("gene", "3043", "clinvar") == ["15333"]
    tree = parse_query("sickle cell disease[dis] AND HBB[gene]").tree
    assert tree is not None
    assert search(store, "clinvar", tree, Page()).uids == ["15333"]
    store.close()


def test_a_kept_search_is_found_under_its_key_and_forgotten_in_time() -> None:
    """WebEnv and query key name it; keys count from one; eight hours unused end it."""
    now = [0.0]
    history = History(clock=lambda: now[0])
    environment, key = history.keep("", StoredSearch("gene", {"term": "HBB"}))
    again, second = history.keep(environment, StoredSearch("pubmed", {"term": "anemia"}))
    assert (again, key, second) == (environment, 1, 2)
    assert history.find(environment, "2") == StoredSearch("pubmed", {"term": "anemia"})
    assert [history.find(environment, wrong) for wrong in ("0", "3", "x", "")] == [None] * 4
    now[0] += 9 * 3600
    assert history.find(environment, "1") is None


def test_the_history_is_bounded() -> None:
    """The longest unused environment goes first."""
    history = History()
    first, _ = history.keep("", StoredSearch("gene", {}))
    for _ in range(600):
        history.keep("", StoredSearch("gene", {}))
    assert history.find(first, "1") is None


def test_the_history_is_bounded_by_what_it_holds() -> None:
    """Ten thousand ids a call would fill the memory long before the environments are too many."""
    history = History(max_bytes=1_000_000)
    kept = [history.keep("", StoredSearch("gene", {}, tuple(map(str, range(10_000)))))[0] for _ in range(3)]
    assert [history.find(environment, "1") is not None for environment in kept] == [False, False, True]
    long, _ = history.keep("", StoredSearch("gene", {"term": "a" * 900_000}))
    newest, _ = history.keep("", StoredSearch("gene", {"term": "a" * 900_000}))
    assert history.find(long, "1") is None and history.find(newest, "1") is not None
    assert history.keep(newest, StoredSearch("gene", {})) == (newest, 2)


def test_a_summary_call_can_name_a_kept_search(store: GatewayStore) -> None:
    """usehistory, then esummary by WebEnv and query key with a page of its own."""
    history = History()
    found = answer(store, "esearch", {"db": "gene", "term": "HB*[sym]", "usehistory": "y", "retmode": "json"}, history)
    environment = found.body.split('"webenv":"')[1].split('"')[0]
    call = {"db": "gene", "query_key": "1", "webenv": environment, "retmode": "json", "retstart": "1", "retmax": "1"}
    assert '"uids":["3040"]' in answer(store, "esummary", call, history).body
    assert "Unable to obtain query" in answer(store, "esummary", call | {"webenv": "MCID_0"}, history).body


def test_a_name_in_the_store_is_a_term_and_a_sentence_around_it_is_not(store: GatewayStore) -> None:
    """Titles, headings and full names count whole; a person's name, a part, or more than the name does not."""
    vocabulary = StorePhraseLookup(store)
    known = ["sickle cell anemia", "Anemia, Sickle Cell/drug therapy", "HBB thing"]
    other = ["sickle cell", "sickle cell anemia of Jane Doe", "Jane Doe", "Sickle cell anemia in children", ""]
    for _ in range(2):  # the second time from memory
        assert [vocabulary.contains(phrase) for phrase in known] == [True] * 3
    assert [vocabulary.contains(phrase) for phrase in other] == [False] * 5


def test_a_name_that_an_import_adds_is_known_from_then_on(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    vocabulary = StorePhraseLookup(store)
    assert not vocabulary.contains("Marfan syndrome")
    with closing(sqlite3.connect(store.path)) as connection, connection:
        StoreWriter(connection).put(Concept(uid=9001, cui="C0024796", name="Marfan syndrome"))
        connection.execute("INSERT INTO imported VALUES ('mgconso', '', '', '', 0, 1, 0, '')")
    assert vocabulary.contains("Marfan syndrome")
    store.close()
