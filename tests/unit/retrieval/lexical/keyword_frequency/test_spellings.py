"""Other spellings of keywords, and where a text has them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from retrieval.lexical.keyword_frequency.phrases import KeywordCounts
from retrieval.lexical.keyword_frequency.spellings import mentions_in, spellings_of
from retrieval.lexical.tantivy_index import TantivyIndex, open_tantivy
from retrieval.passages import Passage

WORDS = {
    "heterochromatin": 400, "heterochomatin": 1, "abduction": 90, "adduction": 1, "typical": 80, "atypical": 1,
    "protein": 50, "htz": 3, "1": 9, "il": 2, "6": 2,
}  # fmt: skip


class Words:
    def num_with(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: WORDS[term] for term in terms if term in WORDS}


def ways(keyword: str, *synonyms: str) -> list[tuple[str, str]]:
    return [(one.text, one.kind) for one in spellings_of(keyword, Words(), synonyms)[1:]]


@pytest.mark.parametrize(
    ("keyword", "expected"),
    [
        ("heterocromatin", [("heterochromatin", "slip"), ("heterochomatin", "slip")]),
        ("heterochromatin", [("heterochomatin", "slip")]),
        ("abduction", []),
        ("typical", []),
        ("proteins", []),
        ("zebrafish", []),
    ],
)
def test_spellings_that_the_namespace_has_are_added(keyword: str, expected: list[tuple[str, str]]) -> None:
    """Slips only of unknown words, or rare beside the right one; never another word or a plural."""
    assert ways(keyword) == expected


def test_synonyms_are_added() -> None:
    """But not the keyword's own name, and none without letters."""
    assert ways("H2A.Z", "Htz1", "H2AFZ", "?") == [("Htz1", "synonym"), ("H2AFZ", "synonym")]
    assert ways("IL-6", "il6") == []


@pytest.fixture
def index(tmp_path: Path) -> TantivyIndex:
    return open_tantivy(tmp_path / "words")


@pytest.mark.parametrize(
    ("text", "keyword", "found"),
    [
        ("IL-6, il 6 and IL6; IL-16. IL-60", "IL-6", ["IL-6", "il 6", "IL6"]),
        ("TNFα or TNF-alpha, not TNFalphaX", "TNF-α", ["TNFα", "TNF-alpha"]),
        ("anti-inflammatory and antiinflammatory", "anti-inflammatory", ["anti-inflammatory", "antiinflammatory"]),
        ("CD4+CD25+ cells", "CD25", ["CD25"]),
        ("knowledge graph. Graph of knowledge; knowledge. graph", "knowledge graph", ["knowledge graph"]),
        ("Haemoglobin or hemoglobin", "hemoglobin", ["Haemoglobin", "hemoglobin"]),
        ("genes and a gene's", "gene", []),
        ("121 of 12-1", "121", ["121"]),
        ("proteins of a protein", "protein", ["proteins", "protein"]),
    ],
)
def test_mentions_are_where_the_index_counts(index: TantivyIndex, text: str, keyword: str, found: list[str]) -> None:
    """As many, and each with the characters that stand there."""
    index.add([Passage(passage_id=1, document_id="d", title="", text=text)])
    index.commit()
    counts = KeywordCounts(index)
    spellings = spellings_of(keyword, counts)
    counted = counts.table([keyword], [[form for one in spellings for form in one.forms]]).counts.sum()
    mentions = [text[one.start : one.end] for one in mentions_in(text, [spellings])]
    assert len(mentions) == counted
    if found:
        assert mentions == found
