"""Exact counting by an index gives what the original's regular expressions give."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.index.base import RowFilter
from retrieval.lexical.keyword_frequency.pes2 import ExactIndex, count_by_pattern, rank_by_keywords
from retrieval.passages import Passage

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
NAMESPACE = DATA / "qa" / "weise_namespace_vit_dev.jsonl.gz"
TEXTS = (
    "IL-6, IL6 and IL 6; il- 6 but not IL-16, IL-60 or IL_6.",
    "AROM+ mice (AROM+mice) carry p53. P53/p53, p-53; (p53)x.",
    "a a a a; TNF-α and TNF alpha, µm and μm, ſ and S. 0.05 or 5 % (n = 5)",
    "",
    "!?",
)
KEYWORDS = (
    "IL-6", "IL6", "il 6", "6", "AROM+", "AROM+ mice", "(AROM", "p53", "P53", "a a", "a", "TNF-α", "µm", "s", "0.05",
    "5 %", "%", "x", "p53)", "_6", "n = 5", " ", "mice (", "60", "2020",
)  # fmt: skip


def passages(texts: Sequence[str]) -> list[Passage]:
    return [Passage(passage_id=n, document_id="d", title="", text=text) for n, text in enumerate(texts, 1)]


def same(index: ExactIndex, found: Sequence[Passage], keywords: Sequence[str]) -> bool:
    expected, counted = count_by_pattern(found, keywords), index.count(keywords)
    return bool(np.array_equal(expected.ids, counted.ids) and np.array_equal(expected.counts, counted.counts))


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_counts_as_its_pattern_does(keyword: str) -> None:
    """With signs, digits and blanks at any place."""
    found = passages(TEXTS)
    assert same(ExactIndex(found), found, [keyword])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text(alphabet="aA1 6-+(._α\n", max_size=24), max_size=4), st.text("aA16-+ (.α", min_size=1, max_size=5)
)
def test_any_keyword_in_any_text_counts_as_its_pattern_does(texts: list[str], keyword: str) -> None:
    """Few characters, so that matches touch and overlap."""
    found = passages(texts)
    assert same(ExactIndex(found), found, [keyword])


def test_rows_can_be_filtered() -> None:
    """By date, as in every index."""
    found = [Passage(passage_id=n, document_id="d", title="", text="p53", date=n * 10_000_000) for n in (1, 2)]
    assert ExactIndex(found).count(["p53"], RowFilter(date_from=15_000_000)).ids.tolist() == [2]
    assert len(ExactIndex([])) == 0 and ExactIndex([]).count(["p53"]).ids.tolist() == []


@pytest.mark.shared_data
@pytest.mark.skipif(not NAMESPACE.exists(), reason="the evaluation data is not beside this checkout")
def test_the_order_is_the_originals_on_a_published_namespace() -> None:
    """All passages with a keyword, for keywords drawn from its own texts, fixed or not."""
    with gzip.open(NAMESPACE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [text for row in rows for text in (row["abstract"], *re.findall(r"(?s).{1,2000}", row["body"]))]
    found = passages(texts)
    index, draw = ExactIndex(found), random.Random(5)
    words = re.findall(r"\S+", " ".join(texts[::50]))
    for _ in range(6):
        at = draw.randrange(len(words) - 2)
        keywords = [words[at], " ".join(words[at : at + 2]), draw.choice(("h2a.z", "swr1", "vit", "il-6", "(a"))]
        fixed = [draw.random() < 0.5 for _ in keywords]
        expected = rank_by_keywords(count_by_pattern(found, keywords), fixed, len(found))
        assert rank_by_keywords(index.count(keywords), fixed, len(found)).ids.tolist() == expected.ids.tolist()
