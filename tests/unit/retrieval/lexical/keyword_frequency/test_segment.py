"""Counting from the rarest term gives what reading every list from its beginning gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical.keyword_frequency.segment import Form, Segment, SegmentBuilder, keyword_forms
from retrieval.passages import Passage

# Few words that join to others, so that terms overlap, repeat and are glued.
TEXTS = st.lists(st.lists(st.sampled_from(("a", "aa", "ab", "b", "1", "12", "-", " ", ". ", "+", "α")), max_size=30))
KEYWORDS = st.lists(st.sampled_from(("a", "aa", "b", "1", "-", " ", "+")), min_size=1, max_size=7)


def segment_of(texts: Sequence[str]) -> Segment:
    builder = SegmentBuilder()
    for number, text in enumerate(texts, 1):
        builder.add(Passage(passage_id=number, document_id="d", title="", text=text), 0)
    return builder.build()


def read_from_the_beginning(segment: Segment, forms: Sequence[Form]) -> list[int]:
    """Each form by following its terms one after the other; places are those of ``segment``'s docstring."""
    starts: set[int] = set()
    for form in forms:
        lists = [_occurrences(segment, term) for term in form]
        for first in lists[0] if lists else ():
            place, last = first >> 3, first
            for after in lists[1:]:
                end = (last >> 3) + (2 if last & 4 else 1)
                last = next((one for one in after if one >> 3 == end), -1)
                if last < 0:
                    break
            if last >= 0 and not first & 1 and not last & 2:
                starts.add(place)
    counts = [0] * len(segment)
    for place in starts:
        counts[int(np.searchsorted(segment.bases, place, side="right")) - 1] += 1
    return counts


def _occurrences(segment: Segment, term: str) -> list[int]:
    number = segment.terms.get(term)
    if number is None:
        return []
    found: list[int] = segment.occurrences[segment.offsets[number] : segment.offsets[number + 1]].tolist()
    return found


@given(TEXTS, KEYWORDS)
def test_any_keyword_counts_as_its_terms_stand(texts: list[list[str]], keyword: list[str]) -> None:
    """In any text, whichever of its terms is the rarest."""
    segment = segment_of(["".join(text) for text in texts])
    forms = keyword_forms("".join(keyword))
    assert segment.counts(forms).tolist() == read_from_the_beginning(segment, forms)


@pytest.mark.parametrize(
    ("keyword", "rare_first"),
    [
        ("H2A.Z", "h 2 h 2 a a a 2 z"),
        ("H2A.Z", "z z z az az 2 2 a a a"),
        ("a a a", "a a a a a a"),
        ("aa a", "aa aaa"),
        ("aba ba", "ab-a-ba"),
    ],
)
def test_the_rarest_term_may_stand_anywhere(keyword: str, rare_first: str) -> None:
    """First, last, in the middle, and in the terms that all forms share."""
    texts = ["H2A.Z, H2AZ and H2A-Z; h2a, z", rare_first, "", "a a-a a", "H2A.Z" * 3]
    segment = segment_of(texts)
    forms = keyword_forms(keyword)
    assert segment.counts(forms).tolist() == read_from_the_beginning(segment, forms)


def test_more_places_than_passages_are_counted_alike() -> None:
    """The counting of long lists and that of short ones agree."""
    segment = segment_of(["a " * 50, "b", "", "a b a", "b a"])
    assert segment.counts([("a",)]).tolist() == [50, 0, 0, 2, 1]
    assert segment.counts([("b",), ("a", "b")]).tolist() == [0, 1, 0, 2, 1]
    assert segment.counts([]).tolist() == segment.counts([()]).tolist() == [0] * 5
