"""Ranking of a namespace's passages by keywords, and counts of keywords in what a search found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from corpus_files import reading

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.keyword_counts import keyword_counts, keyword_search
from retrieval.corpus.search.searcher import Rankers, Searcher, SearchOptions
from retrieval.lexical.tantivy_index import open_tantivy


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[Namespaces]:
    made = Namespaces(tmp_path, replace(backends(WordEncoder()), words=lambda folder, *_: open_tantivy(folder)))
    made.create("one", NamespaceSettings(encoder="words"))
    made.create("plain", NamespaceSettings(encoder="words", words="none"))
    rows = [
        reading("PMID:1", "IL-6 and il6 of asthma."),
        reading("PMID:2", "Asthma alone."),
        reading("PMID:3", "None."),
    ]
    add_items(made, "one", rows)
    add_items(made, "plain", [reading("PMID:4", "Asthma and IL-6.")])
    yield made
    made.close()


def test_each_passage_has_a_count_for_each_keyword(namespaces: Namespaces) -> None:
    """In all spellings, none included, with or without an index of words."""
    found = Searcher(namespaces).search("asthma", ["one", "plain"], SearchOptions(k=10))
    counts = keyword_counts(found, ["IL 6", "asthma", "?"])
    named = {one.passage.document_id: counts[one.namespace, one.passage.passage_id] for one in found}
    assert named == {"PMID:1": (2, 1, 0), "PMID:2": (0, 1, 0), "PMID:3": (0, 0, 0), "PMID:4": (1, 1, 0)}
    assert keyword_counts([], ["asthma"]) == {}


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ("How do IL-6 and IL 6 act on asthma?", ["PMID:1", "PMID:2"]),
        ("#*asthma* and **il6**", ["PMID:1", "PMID:2"]),
        ("##*asthma* and **il6**", ["PMID:1"]),
        ("zebrafish", []),
    ],
)
def test_passages_are_ranked_by_keywords(namespaces: Namespaces, query: str, documents: list[str]) -> None:
    """A keyword given twice counts once, and passages without any are left out."""
    searcher = Searcher(namespaces, Rankers(keywords=keyword_search))
    found = searcher.search(query, ["one"], SearchOptions(retriever="pes2"))
    assert [one.passage.document_id for one in found] == documents
