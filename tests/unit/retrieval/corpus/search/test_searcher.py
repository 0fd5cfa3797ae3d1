"""Searches over one namespace and several, by every retriever."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from corpus_doubles import TokenWordEncoder, WordEncoder, backends, keyword_search, words_of
from corpus_files import reading

from models.encoders.base import Floats, PassageText
from retrieval.corpus.ingest.add import add_items, catch_up, remove
from retrieval.corpus.items import Withdrawn
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.ranking import Retriever, interleaved
from retrieval.corpus.search.searcher import Rankers, Searcher, SearchOptions
from retrieval.corpus.store.base import PassageFilter
from retrieval.errors import BACKEND_UNAVAILABLE, IndexFault, NamespaceDamaged, NamespaceInvalid, NamespaceUnknown
from retrieval.passages import Hit
from retrieval.types import NameInText

SETTINGS = NamespaceSettings(encoder="words")
RETRIEVERS: tuple[Retriever, ...] = ("dense", "bm25", "pes2")


class _SharedWords:
    """A cross-encoder that counts words in common."""

    name = "shared words"

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        wanted = set(words_of(query))
        return np.array([len(wanted & set(words_of(f"{p.title} {p.text}"))) for p in passages], dtype=np.float32)


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder()


@pytest.fixture
def namespaces(tmp_path: Path, encoder: WordEncoder) -> Namespaces:
    found = Namespaces(tmp_path, backends(encoder))
    for name in ("one", "two"):
        found.create(name, SETTINGS)
    add_items(
        found, "one",
        [
            reading("PMID:1", "Asthma and the mother in the womb.", date=20200101, types=("review",)),
            reading("PMID:2", "Aspirin for pain.", date=20100101),
            reading("PMID:3", "Asthma of children: inhaled steroids.", date=20211231, types=("letter",)),
        ],
    )  # fmt: skip
    add_items(found, "two", [reading("PMID:4", "Asthma asthma asthma."), reading("PMID:2", "Aspirin for pain.")])
    return found


@pytest.fixture
def searcher(namespaces: Namespaces) -> Searcher:
    return Searcher(namespaces, Rankers(keywords=keyword_search, cross_encoder=_SharedWords()))


@pytest.mark.parametrize("retriever", ["dense", "bm25", "pes2", "hybrid"])
def test_every_retriever_finds_with_its_ranks(searcher: Searcher, retriever: Retriever) -> None:
    """What it is, where it stands, and which ranker put it where."""
    found = searcher.search("asthma children", ["one"], SearchOptions(retriever=retriever))
    assert found[0].document.document_id == "PMID:3"
    assert found[0].passage.passage_id == found[0].hit.passage_id
    assert found[0].namespace == "one"
    ranks = {"hybrid": {"dense": 1, "bm25": 1}}.get(retriever, {retriever: 1})
    assert found[0].ranks == ranks
    assert [one.hit.score for one in found] == sorted((one.hit.score for one in found), reverse=True)


@pytest.mark.parametrize("retriever", ["dense", "bm25", "pes2", "hybrid"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (PassageFilter(date_from=20200000), {"PMID:1", "PMID:3"}),
        (PassageFilter(types=("review",)), {"PMID:1"}),
        (PassageFilter(without_types=("letter",), documents=frozenset({"PMID:1", "PMID:3"})), {"PMID:1"}),
        (PassageFilter(types=("no such type",)), set()),
    ],
)
def test_no_filter_leaks(searcher: Searcher, retriever: Retriever, where: PassageFilter, expected: set[str]) -> None:
    """More are asked for than may be found."""
    found = searcher.search("asthma aspirin", ["one", "two"], SearchOptions(k=50, retriever=retriever, where=where))
    assert {one.document.document_id for one in found} == expected


def test_several_namespaces_are_one_ranking(searcher: Searcher) -> None:
    """By score where one encoder made the vectors, place by place where words were weighed by different indices."""
    dense = searcher.search("asthma", ["one", "two"], SearchOptions(k=3))
    assert dense[0].namespace == "two"
    assert dense[0].hit.score >= dense[1].hit.score >= dense[2].hit.score
    words = searcher.search("asthma aspirin", ["one", "two", "one"], SearchOptions(retriever="bm25"))
    assert [one.namespace for one in words][:4] == ["one", "two", "one", "two"]
    assert interleaved([[Hit(1, 9.0), Hit(2, 8.0)], [Hit(3, 0.1)]])[1].passage_id == 3


def test_many_queries_are_encoded_at_once(searcher: Searcher, encoder: WordEncoder) -> None:
    """And answered in their order, as each alone."""
    queries = ["asthma children", "aspirin", "womb"]
    many = searcher.search_many(queries, ["one", "two"], SearchOptions(k=2))
    assert encoder.queries == [3]
    alone = [searcher.search(query, ["one", "two"], SearchOptions(k=2)) for query in queries]
    assert [[one.hit.passage_id for one in found] for found in many] == [
        [one.hit.passage_id for one in found] for found in alone
    ]


def test_a_cross_encoder_orders_the_best(searcher: Searcher) -> None:
    """Only as many as it is given; the others stay behind them."""
    options = SearchOptions(k=3, rerank=2, retriever="dense")
    found = searcher.search("asthma and the mother", ["one"], options)
    assert found[0].document.document_id == "PMID:1"
    assert found[0].hit.score == 4.0
    assert len(found) == 3


def test_what_is_gone_is_not_found_though_an_index_holds_it(namespaces: Namespaces, searcher: Searcher) -> None:
    """A crash came between the store and its indices."""
    with namespaces.writing("one") as (_, writer), writer.transaction():
        assert writer.remove("PMID:3")
    for retriever in ("dense", "bm25", "pes2", "hybrid"):
        found = searcher.search("asthma children", ["one"], SearchOptions(k=2, retriever=retriever))
        assert "PMID:3" not in [one.document.document_id for one in found]
        assert found[0].document.document_id == "PMID:1"


def test_changes_are_seen_by_the_next_search(namespaces: Namespaces, searcher: Searcher) -> None:
    """Made here or by another process."""
    assert searcher.search("asthma children", ["one"])[0].document.document_id == "PMID:3"
    other = Namespaces(namespaces.root, namespaces.backends)
    add_items(other, "one", [reading("PMID:9", "Asthma children."), Withdrawn("PMID:1")])
    assert searcher.search("asthma children", ["one"])[0].document.document_id == "PMID:9"
    remove(namespaces, "one", ["PMID:9"])
    assert searcher.search("asthma children", ["one"])[0].document.document_id == "PMID:3"
    other.delete("one")
    other.create("one", SETTINGS)
    assert searcher.search("asthma children", ["one"]) == []


def test_searches_go_on_while_documents_are_added(namespaces: Namespaces, searcher: Searcher) -> None:
    """Each sees a whole state; indices that were replaced are closed by the last who used them."""
    stop, wrong = threading.Event(), list[BaseException]()

    def look() -> None:
        while not stop.is_set():
            try:
                assert searcher.search("asthma", ["one", "two"], SearchOptions(k=3, retriever="hybrid"))
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(8):
        add_items(namespaces, "one", [reading(f"PMID:{turn}", f"Asthma, for the {turn}th time.")])
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_cannot_be_searched_is_said(tmp_path: Path, namespaces: Namespaces) -> None:
    """No vectors, an index that was taken away, no keywords, no cross-encoder, no namespace."""
    namespaces.create("plain", NamespaceSettings(words="none"))
    for retriever in ("dense", "bm25", "pes2", "hybrid"):
        with pytest.raises(NamespaceInvalid):
            Searcher(namespaces, Rankers(keywords=keyword_search)).search(
                "x", ["plain"], SearchOptions(retriever=retriever)
            )
    searcher = Searcher(namespaces, Rankers())
    with pytest.raises(IndexFault, check=BACKEND_UNAVAILABLE.is_of):
        searcher.search("asthma", ["one"], SearchOptions(retriever="pes2"))
    with pytest.raises(NamespaceInvalid, match=r"retrieval\.cross_encoder"):
        searcher.search("asthma", ["one"], SearchOptions(rerank=5))
    with pytest.raises(NamespaceInvalid, match="empty"):
        searcher.search(" ", ["one"])
    with pytest.raises(NamespaceUnknown):
        searcher.search("x", ["none"])
    with pytest.raises(NamespaceInvalid):
        searcher.search("x", [])
    shutil.rmtree(namespaces.root / "two" / "vectors")
    with pytest.raises(NamespaceDamaged, match="not made yet"):
        Searcher(Namespaces(namespaces.root, namespaces.backends)).search("x", ["two"])


@pytest.mark.parametrize(
    "fields",
    [{"k": 0}, {"k": 10_000}, {"rerank": -1}, {"late": -1}, {"retriever": "magic"}, {"retriever": "bm25+bm25"}],
)
def test_options_that_cannot_be_are_refused(fields: dict[str, object]) -> None:
    """Before anything is searched."""
    with pytest.raises(NamespaceInvalid):
        SearchOptions(**fields)  # type: ignore[arg-type]


def test_documents_that_wait_for_a_first_index_are_no_damage(tmp_path: Path, encoder: WordEncoder) -> None:
    """While a namespace is filled for the first time its passages are there before its indices are."""
    namespaces = Namespaces(tmp_path, backends(encoder))
    namespaces.create("new", SETTINGS)
    with namespaces.writing("new") as (_, writer), writer.transaction():
        writer.put(reading("PMID:1", "Asthma and the mother in the womb."))
    for retriever in RETRIEVERS:
        options = SearchOptions(retriever=retriever)
        assert Searcher(namespaces, Rankers(keywords=keyword_search)).search("asthma", ["new"], options) == []
        (tmp_path / "new" / "vectors").mkdir(exist_ok=True)  # as one that is being made


@pytest.mark.parametrize("retriever", ["rrf-2", "bm25+dense", "bm25+dense+pes2", "pes2+dense"])
def test_any_list_of_rankers_is_fused_by_ranks(searcher: Searcher, retriever: Retriever) -> None:
    """With the constant of MedRAG, 100."""
    found = searcher.search("asthma children", ["one"], SearchOptions(retriever=retriever))
    names = ("bm25", "dense") if retriever == "rrf-2" else retriever.split("+")
    assert set(found[0].ranks) == set(names)
    assert found[0].hit.score == pytest.approx(sum(1 / (100 + rank) for rank in found[0].ranks.values()))


def test_words_are_also_searched_for_by_the_synonyms_of_names(searcher: Searcher) -> None:
    """Only for the query that has them, and only by the ranking of words."""
    names = {"wheezing": (NameInText("wheezing", ("asthma",)),)}
    queries = ["wheezing", "aspirin"]
    first, second = searcher.search_many(queries, ["one"], SearchOptions(retriever="bm25", names=names))
    assert {one.document.document_id for one in first} == {"PMID:1", "PMID:3"}
    assert {one.document.document_id for one in second} == {"PMID:2"}
    assert searcher.search("wheezing", ["one"], SearchOptions(retriever="bm25")) == []
    assert searcher.search("wheezing", ["one"], SearchOptions(retriever="pes2", names=names)) == []


@pytest.fixture
def with_tokens(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path / "tokens", backends(TokenWordEncoder()))
    found.create("one", SETTINGS)
    add_items(
        found,
        "one",
        [
            reading("PMID:1", "Asthma asthma asthma asthma of cats and dogs and of other animals in houses."),
            reading("PMID:2", "Inhaled steroids help children, and asthma is what they are for, as trials of it show."),
            reading("PMID:3", "Other words altogether, about the pain of bones and joints in the old and the young."),
        ],
    )
    return found


def test_late_interaction_prefers_the_passage_with_every_word(with_tokens: Namespaces) -> None:
    """Rank fusion alone has no such notion; without token vectors, or when they are not wanted, nothing changes."""
    searcher = Searcher(with_tokens, Rankers(keywords=keyword_search))
    query = "asthma steroids children trials"
    late = searcher.search(query, ["one"], SearchOptions(retriever="hybrid"))
    assert late[0].document.document_id == "PMID:2"
    assert [one.hit.score for one in late] == sorted((one.hit.score for one in late), reverse=True)
    plain = searcher.search(query, ["one"], SearchOptions(retriever="hybrid", late=0))
    assert {one.hit.passage_id for one in plain} == {one.hit.passage_id for one in late}
    words = searcher.search(query, ["one"], SearchOptions(retriever="bm25", late=10))
    assert {one.document.document_id for one in words} == {"PMID:1", "PMID:2"}


def test_token_vectors_follow_the_vectors(with_tokens: Namespaces) -> None:
    """Through changes, removals and a rebuild; ``verify`` misses the ones that are not there."""
    add_items(with_tokens, "one", [reading("PMID:1", "Asthma of mice."), reading("PMID:4", "Gout of men.")])
    remove(with_tokens, "one", ["PMID:3"])
    with with_tokens.using("one") as found:
        assert found.tokens is not None
        assert len(found.tokens) == found.store.counts().passages == 3
    assert verify(with_tokens, "one").whole
    with with_tokens.using("one") as found:
        numbers = [passage.passage_id for passage in found.store.passages()]
    with sqlite3.connect(with_tokens.root / "one" / "tokens" / "codes.sqlite") as connection:
        connection.execute("DELETE FROM code WHERE passage_id = ?", (numbers[0],))
    assert "1 passages have no token vectors" in verify(with_tokens, "one").faults[0]
    with_tokens.empty_index("one", "vectors")
    catch_up(with_tokens, "one")
    assert verify(with_tokens, "one").whole
