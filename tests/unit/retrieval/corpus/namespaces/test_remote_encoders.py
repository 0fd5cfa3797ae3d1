"""Namespaces whose encoder runs at a server: no token vectors, and an outage in the middle of a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_doubles import TokenWordEncoder, WordEncoder, backends
from corpus_files import reading

from models.errors import EncoderUnavailable
from retrieval.corpus.errors import NamespaceInvalid
from retrieval.corpus.ingest.add import add_items, catch_up, remove
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.searcher import Searcher, SearchOptions

ITEMS = [reading(f"PMID:{number}", f"Asthma of {number} children.") for number in range(1, 4)]


class RemoteWordEncoder(WordEncoder):
    """Computed at a server, so without token vectors."""

    url = "http://127.0.0.1:9"


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
    remove(there, "one", ["PMID:9", "PMID:3"])
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


def test_a_change_that_lost_the_server_goes_on_where_it_was(tmp_path: Path) -> None:
    """The passages are stored; the next change embeds those that wait."""
    encoder = RemoteWordEncoder()
    namespaces = Namespaces(tmp_path, backends(encoder))
    namespaces.create("one", NamespaceSettings(encoder="words", tokens=False))

    def fail() -> None:
        raise EncoderUnavailable("the encoder server http://127.0.0.1:9 does not answer (ConnectError)")

    encoder.before = fail
    with pytest.raises(EncoderUnavailable):
        add_items(namespaces, "one", ITEMS)
    encoder.before = lambda: None

    catch_up(namespaces, "one")

    assert encoder.encoded == 3
    assert verify(namespaces, "one").whole
