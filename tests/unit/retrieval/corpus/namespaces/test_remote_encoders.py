"""Namespaces whose encoder runs at a server: no token vectors, and an outage in the middle of a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_doubles import TokenWordEncoder, WordEncoder, backends
from corpus_files import reading

from models.errors import ENCODER_UNAVAILABLE, ENCODER_UNUSABLE, ModelError, ModelNotFound
from retrieval.corpus.ingest.add import add_items, catch_up, remove
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.searcher import Searcher, SearchOptions
from retrieval.errors import INDEX_MISMATCH, IndexFault, NamespaceInvalid

ITEMS = [reading(f"PMID:{number}", f"Asthma of {number} children.") for number in range(1, 4)]


class RemoteWordEncoder(WordEncoder):
    """Computed at a server, so without token vectors."""

    url = "http://127.0.0.1:9"

    def __init__(self, *failures: ModelError) -> None:
        super().__init__()
        self.failures = list(failures)

    def check(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def close(self) -> None:
        """Has no connection."""


def test_a_namespace_with_token_vectors_is_searched_without_them_and_not_added_to(tmp_path: Path) -> None:
    """The search says what is missing; the refusal says what to do; what was there stays whole."""
    here = Namespaces(tmp_path, backends(TokenWordEncoder()))
    here.create("one", NamespaceSettings(encoder="words"))
    add_items(here, "one", ITEMS)
    there = Namespaces(tmp_path, backends(RemoteWordEncoder()))

    assert Searcher(there).search("asthma", ["one"], SearchOptions(retriever="hybrid"))
    assert Searcher(there).lists(["one"], "hybrid").missing_stages == ("late-interaction",)
    assert Searcher(there).lists(["one"], "bm25").missing_stages == ()
    assert Searcher(here).lists(["one"], "hybrid").missing_stages == ()
    with pytest.raises(NamespaceInvalid, match=r"stores token vectors.*--no-tokens"):
        add_items(there, "one", [reading("PMID:9", "Gout of men.")])
    remove(there, "one", ["PMID:3"])
    assert verify(there, "one").whole
    with here.using("one") as found:
        assert found.tokens is not None
        assert len(found.tokens) == found.store.counts().passages == 2


def test_a_namespace_without_token_vectors_misses_nothing(tmp_path: Path) -> None:
    there = Namespaces(tmp_path, backends(RemoteWordEncoder()))
    there.create("one", NamespaceSettings(encoder="words", tokens=False))

    add_items(there, "one", ITEMS)

    assert Searcher(there).lists(["one"], "hybrid").missing_stages == ()
    assert verify(there, "one").whole


def stored(namespaces: Namespaces, name: str = "one") -> int:
    with namespaces.using(name) as found:
        return found.store.counts().documents


def test_a_refused_change_stores_nothing(tmp_path: Path) -> None:
    """Neither with token vectors to be stored, nor with other weights at the server, nor with another encoder."""
    namespaces = Namespaces(tmp_path, backends(RemoteWordEncoder(ModelNotFound("other vectors", ENCODER_UNUSABLE))))
    namespaces.create("tokens", NamespaceSettings(encoder="words"))
    namespaces.create("one", NamespaceSettings(encoder="words", tokens=False))

    with pytest.raises(NamespaceInvalid, match="stores token vectors"):
        add_items(namespaces, "tokens", ITEMS)
    with pytest.raises(ModelNotFound, check=ENCODER_UNUSABLE.is_of):
        add_items(namespaces, "one", ITEMS)
    assert (stored(namespaces, "tokens"), stored(namespaces)) == (0, 0)
    assert add_items(namespaces, "one", ITEMS).added == 3

    changed = RemoteWordEncoder()
    changed.name = "others"
    with pytest.raises(IndexFault, check=INDEX_MISMATCH.is_of):
        add_items(Namespaces(tmp_path, backends(changed)), "one", [reading("PMID:9", "Gout of men.")])
    assert stored(namespaces) == 3


def test_vectors_with_tokens_are_not_removed_for_an_encoder_without(tmp_path: Path) -> None:
    """A rebuild would end with less than it began with; a first encoder is not added where it could not be filled."""
    here = Namespaces(tmp_path, backends(TokenWordEncoder()))
    here.create("one", NamespaceSettings(encoder="words"))
    here.create("two", NamespaceSettings())
    add_items(here, "one", ITEMS)
    there = Namespaces(tmp_path, backends(RemoteWordEncoder()))

    with pytest.raises(NamespaceInvalid, match="--no-tokens"):
        there.empty_index("one", "vectors")
    with pytest.raises(NamespaceInvalid, match="--no-tokens"):
        there.add_encoder("two", "words")

    assert verify(here, "one").whole
    assert there.describe("two").settings == NamespaceSettings()


def test_a_change_that_lost_the_server_goes_on_where_it_was(tmp_path: Path) -> None:
    """The passages are stored; the next change embeds those that wait."""
    encoder = RemoteWordEncoder()
    namespaces = Namespaces(tmp_path, backends(encoder))
    namespaces.create("one", NamespaceSettings(encoder="words", tokens=False))

    def fail() -> None:
        raise ModelError("the encoder server http://127.0.0.1:9 does not answer (ConnectError)", ENCODER_UNAVAILABLE)

    encoder.before = fail
    with pytest.raises(ModelError, check=ENCODER_UNAVAILABLE.is_of):
        add_items(namespaces, "one", ITEMS)
    encoder.before = lambda: None

    catch_up(namespaces, "one")

    assert encoder.encoded == 3
    assert verify(namespaces, "one").whole
