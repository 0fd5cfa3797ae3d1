"""Passages are slices of their texts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from corpus_files import reading
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.items import ParsedDocument, TextBuilder
from retrieval.errors import NamespaceInvalid
from retrieval.passages import Document

PARAGRAPH = st.text(
    st.characters(codec=None) | st.sampled_from("aé 漢\U0001f9ec\u0301\n .\r\u2028\ud800\0"), max_size=400
)


def _texts(found: ParsedDocument, chunking: Chunking) -> list[str]:
    return [found.text[span.start : span.end] for span in Chunker(chunking).cut(found)]


@given(st.lists(PARAGRAPH, max_size=5), st.sampled_from([0, 20]), st.booleans())
def test_every_passage_is_where_it_says_it_is(paragraphs: list[str], overlap: int, by_section: bool) -> None:
    """Whatever the letters: no passage is longer than allowed, leaves its part, or goes back behind the last one."""
    found = reading("x", *paragraphs, title="A title")
    for span in found.spans:
        assert found.text[span.start : span.end].strip()
    cuts = Chunker(Chunking(size=50, overlap=overlap, by_section=by_section)).cut(found)
    last = -1
    for cut in cuts:
        text = found.text[cut.start : cut.end]
        assert 0 < len(text) <= 50
        text.encode()  # half a surrogate pair could be neither hashed nor kept
        assert cut.start > last
        last = cut.start
        home = next(span for span in found.spans if span.end > cut.start)
        assert cut.section == home.section
        if by_section:
            assert home.start <= cut.start < cut.end <= home.end


@settings(max_examples=50, deadline=None)
@given(st.lists(st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True), min_size=1, max_size=300))
def test_no_word_is_lost(words: list[str]) -> None:
    """Without overlap, passages are the text without blanks at their ends."""
    text = " ".join(words)
    assert " ".join(_texts(reading("x", text), Chunking(size=50))).split() == words


def test_a_short_abstract_stays_whole() -> None:
    """Labelled paragraphs on lines of their own are one passage."""
    text = "BACKGROUND: It is known.\nRESULTS: In 12 (37%) of 32.\nCONCLUSIONS: So it is."
    assert _texts(reading("x", text), Chunking()) == [text]


def test_sections_are_not_mixed_unless_asked_for() -> None:
    """Two short sections are two passages, or one of both with the first one's name."""
    found = reading("x", "First words.", "Second words.")
    assert _texts(found, Chunking()) == ["First words.", "Second words."]
    (only,) = Chunker(Chunking(by_section=False)).cut(found)
    assert (only.section, found.text[only.start : only.end]) == ("Part 1", "First words.\n\nSecond words.")


@pytest.mark.parametrize("by_section", [True, False])
def test_no_passage_goes_over_the_end_of_a_page(by_section: bool) -> None:
    """So that its page is right for all of it, however small the pages are."""
    text = TextBuilder()
    for page in (1, 2, 3):
        text.add(f"Words of page {page}, " * 20, page=page)
    found = text.reading(Document(document_id="x", title="t"))
    cuts = Chunker(Chunking(size=800, by_section=by_section)).cut(found)
    assert [cut.page for cut in cuts] == [1, 2, 3]


def test_overlap_repeats_whole_words() -> None:
    """The end of one passage begins the next."""
    parts = _texts(
        reading("x", "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda"), Chunking(size=50, overlap=12)
    )
    assert all(later.split()[0] in earlier.split() for earlier, later in pairwise(parts))


def test_a_text_without_any_place_to_break_is_cut_all_the_same() -> None:
    """Half a million letters on end, and marks without a word, which are no passage."""
    parts = _texts(reading("x", "ACGT" * 125_000), Chunking(size=2000))
    assert "".join(parts) == "ACGT" * 125_000
    assert _texts(reading("x", "... --- ...", title=""), Chunking()) == []


@pytest.mark.parametrize(("size", "overlap"), [(10, 0), (10**6, 0), (100, -1), (100, 51)])
def test_sizes_that_cannot_be_are_refused(size: int, overlap: int) -> None:
    """Also an overlap that would hardly move on."""
    with pytest.raises(NamespaceInvalid):
        Chunking(size=size, overlap=overlap)
