"""Namespaces with the vectors of several encoders: added later, searched by name, fused, verified, removed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpus_doubles import DIM, WordEncoder, backends, keyword_search
from corpus_files import reading

from models.encoders.base import Floats
from retrieval.corpus.ingest.add import add_items, catch_up, remove
from retrieval.corpus.namespaces.dense import folder_name
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings, settings_of
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.searcher import FusedLists, Rankers, Searcher, SearchOptions
from retrieval.errors import NamespaceInvalid
from retrieval.lexical.fusion import MEDRAG_RRF_K


class ProjectedEncoder(WordEncoder):
    """The vectors of ``WordEncoder`` under a random projection with noise of its own: other neighbours."""

    def _vector(self, text: str) -> Floats:
        drawn = np.random.RandomState(7).standard_normal((DIM, DIM))
        vector = np.abs(super()._vector(text)) @ drawn
        unit: Floats = (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype(np.float32)
        return unit


ENCODERS = {"words": WordEncoder(), "other/one": ProjectedEncoder("other/one"), "medcpt": ProjectedEncoder("medcpt")}
DOCUMENTS = [
    reading("PMID:1", "Asthma and the mother in the womb."),
    reading("PMID:2", "Aspirin for pain."),
    reading("PMID:3", "Asthma of children: inhaled steroids."),
]


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    found = Namespaces(tmp_path, replace(backends(), encoders=ENCODERS.__getitem__))
    found.create("ns", NamespaceSettings(encoder="words"))
    add_items(found, "ns", DOCUMENTS)
    return found


def _with_another(namespaces: Namespaces, encoder: str = "other/one") -> None:
    namespaces.add_encoder("ns", encoder)
    catch_up(namespaces, "ns")


def _searcher(namespaces: Namespaces) -> Searcher:
    return Searcher(namespaces, Rankers(keywords=keyword_search))


def test_an_encoder_is_added_later_with_the_vectors_of_all_passages(namespaces: Namespaces) -> None:
    """What is already indexed is not indexed again; documents added and removed afterwards reach both indices."""
    ENCODERS["words"].encoded = 0
    _with_another(namespaces)
    assert ENCODERS["words"].encoded == 0
    report = verify(namespaces, "ns")
    assert (report.faults, report.rows["vectors"], report.rows["vectors:other/one"]) == ((), 3, 3)
    assert set(report.recalls) == {"words", "other/one"}
    found = namespaces.describe("ns")
    assert found.settings is not None
    assert found.settings.encoder_ids == ("words", "other/one")
    assert settings_of(found.settings.as_text()) == found.settings
    add_items(namespaces, "ns", [reading("PMID:9", "Metformin.")])
    remove(namespaces, "ns", ["PMID:2"])
    report = verify(namespaces, "ns")
    assert (report.faults, report.rows["vectors:other/one"], sum(report.pending.values())) == ((), 3, 0)


def test_each_encoder_is_searched_by_its_name(namespaces: Namespaces) -> None:
    """The first one also by its own, and with the scores of its own vectors."""
    _with_another(namespaces)
    searcher = _searcher(namespaces)
    query = "asthma children"
    first, named, other = (
        searcher.search(query, ["ns"], SearchOptions(retriever=retriever))
        for retriever in ("dense", "dense:words", "dense:other/one")
    )
    assert [one.hit for one in first] == [one.hit for one in named]
    assert [one.hit.score for one in other] != [one.hit.score for one in first]
    assert other[0].ranks == {"dense:other/one": 1}
    with pytest.raises(NamespaceInvalid, match="arrowhead index add"):
        searcher.search(query, ["ns"], SearchOptions(retriever="bm25+dense:absent"))
    with pytest.raises(NamespaceInvalid, match="one of them is enough"):
        searcher.search(query, ["ns"], SearchOptions(retriever="dense+dense:words"))


def test_rrf_4_fuses_words_with_every_encoder_and_names_what_is_missing(namespaces: Namespaces) -> None:
    """By reciprocal ranks with the paper's constant; the missing ones are those of the paper's four."""
    searcher = _searcher(namespaces)
    assert searcher.lists(["ns"], "rrf-4") == FusedLists(("bm25", "dense:words"), ("contriever", "specter", "medcpt"))
    _with_another(namespaces)
    _with_another(namespaces, "medcpt")
    lists = searcher.lists(["ns"], "rrf-4")
    assert lists == FusedLists(("bm25", "dense:words", "dense:other/one", "dense:medcpt"), ("contriever", "specter"))
    best = searcher.search("asthma children", ["ns"], SearchOptions(retriever="rrf-4"))[0]
    assert set(best.ranks) == set(lists.rankers)
    assert best.hit.score == pytest.approx(sum(1 / (MEDRAG_RRF_K + rank) for rank in best.ranks.values()))
    listed = searcher.search("asthma children", ["ns"], SearchOptions(retriever="+".join(lists.rankers)))
    assert listed[0].hit == best.hit
    assert searcher.lists(["ns"], "rrf-2") == FusedLists(("bm25", "dense"))


def test_rrf_4_of_several_namespaces_fuses_what_they_share(namespaces: Namespaces) -> None:
    """Without an encoder in common there is nothing to fuse with words."""
    _with_another(namespaces)
    namespaces.create("two", NamespaceSettings(encoder="other/one"))
    add_items(namespaces, "two", DOCUMENTS[:1])
    searcher = _searcher(namespaces)
    assert searcher.lists(["ns", "two"], "rrf-4").rankers == ("bm25", "dense:other/one")
    dense = searcher.search("asthma", ["ns", "two"], SearchOptions(retriever="dense:other/one"))
    assert {one.namespace for one in dense} == {"ns", "two"}
    assert [one.hit.score for one in dense] == sorted((one.hit.score for one in dense), reverse=True)
    namespaces.create("three", NamespaceSettings(encoder="medcpt"))
    with pytest.raises(NamespaceInvalid, match="share no encoder"):
        searcher.search("asthma", ["ns", "three"], SearchOptions(retriever="rrf-4"))


def test_an_encoder_is_removed_with_its_files_and_its_journal(namespaces: Namespaces) -> None:
    """And can be added again; the others stay as they are."""
    _with_another(namespaces)
    folder = namespaces.root / "ns" / folder_name("vectors:other/one")
    assert folder.is_dir()
    add_items(namespaces, "ns", [])
    namespaces.remove_encoder("ns", "other/one")
    assert not folder.exists()
    report = verify(namespaces, "ns")
    assert (report.faults, set(report.rows)) == ((), {"vectors", "words"})
    with pytest.raises(NamespaceInvalid):
        _searcher(namespaces).search("asthma", ["ns"], SearchOptions(retriever="dense:other/one"))
    _with_another(namespaces)
    assert verify(namespaces, "ns").rows["vectors:other/one"] == 3


def test_files_that_a_killed_removal_left_are_removed_by_the_next_change(namespaces: Namespaces) -> None:
    """Otherwise they would be taken for those of a later encoder."""
    orphan = namespaces.root / "ns" / "vectors-0123456789abcdef"
    shutil.copytree(namespaces.root / "ns" / "vectors", orphan)
    add_items(namespaces, "ns", [reading("PMID:9", "Metformin.")])
    assert not orphan.exists()


def test_a_namespace_keeps_something_to_find_by(namespaces: Namespaces) -> None:
    """The first encoder goes last, and not where there is no other index."""
    _with_another(namespaces)
    for encoder, reason in (("words", "first encoder"), ("absent", "has no vectors")):
        with pytest.raises(NamespaceInvalid, match=reason):
            namespaces.remove_encoder("ns", encoder)
    namespaces.remove_encoder("ns", "other/one")
    namespaces.remove_encoder("ns", "words")
    assert verify(namespaces, "ns").faults == ()
    assert _searcher(namespaces).search("asthma", ["ns"], SearchOptions(retriever="bm25"))
    namespaces.add_encoder("ns", "medcpt")
    catch_up(namespaces, "ns")
    assert _searcher(namespaces).search("asthma", ["ns"], SearchOptions(retriever="dense"))
    namespaces.create("bare", NamespaceSettings(encoder="words", words="none"))
    with pytest.raises(NamespaceInvalid, match="only index"):
        namespaces.remove_encoder("bare", "words")


def test_an_index_that_lost_its_files_is_made_again(namespaces: Namespaces) -> None:
    """The journal knows how many rows each index must have."""
    _with_another(namespaces)
    shutil.rmtree(namespaces.root / "ns" / folder_name("vectors:other/one"))
    add_items(namespaces, "ns", [])
    assert verify(namespaces, "ns").rows["vectors:other/one"] == 3


@pytest.mark.parametrize("encoders", [("words",), ("a", "a"), (" a",), tuple(f"e{n}" for n in range(9))])
def test_odd_encoders_are_refused(encoders: tuple[str, ...]) -> None:
    """Twice the same, no id, or too many."""
    with pytest.raises(NamespaceInvalid):
        NamespaceSettings(encoder="words", encoders=encoders)
