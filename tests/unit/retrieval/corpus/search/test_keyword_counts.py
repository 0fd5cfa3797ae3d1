"""Counts of keywords in the passages that a search found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import reading

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.keyword_counts import keyword_counts
from retrieval.corpus.search.searcher import Searcher, SearchOptions
from retrieval.lexical.keyword_frequency.index import open_keyword_index


@pytest.fixture
def namespaces(tmp_path: Path) -> Namespaces:
    own = replace(backends(WordEncoder()), keywords=lambda folder, _: open_keyword_index(folder))
    found = Namespaces(tmp_path, own)
    found.create("one", NamespaceSettings(encoder="words"))
    found.create("plain", NamespaceSettings(encoder="words", keywords=False))
    rows = [
        reading("PMID:1", "IL-6 and il6 of asthma."),
        reading("PMID:2", "Asthma alone."),
        reading("PMID:3", "None."),
    ]
    add_items(found, "one", rows)
    add_items(found, "plain", [reading("PMID:4", "Asthma and IL-6.")])
    return found


def test_each_passage_has_a_count_for_each_keyword(namespaces: Namespaces) -> None:
    """In all spellings, none included; a namespace without an index of keywords is left out."""
    found = Searcher(namespaces).search("asthma", ["one", "plain"], SearchOptions(k=10))
    counts = keyword_counts(namespaces, found, ["IL 6", "asthma"])
    named = {one.passage.document_id: counts.get((one.namespace, one.passage.passage_id)) for one in found}

    assert named == {"PMID:1": (2, 1), "PMID:2": (0, 1), "PMID:3": (0, 0), "PMID:4": None}


def test_nothing_found_has_no_counts(namespaces: Namespaces) -> None:
    assert keyword_counts(namespaces, [], ["asthma"]) == {}
