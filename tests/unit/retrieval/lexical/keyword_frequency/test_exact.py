"""Counting as written: what the original's regular expressions find, in the passages that have the words."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical.keyword_frequency.pes2 import count_by_pattern, rank_by_keywords, words_of
from retrieval.lexical.tantivy_index import open_tantivy
from retrieval.lexical.tokens import atoms_of
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


def original(text: str, keyword: str) -> int:
    """The counting of the published program."""
    digit = keyword[-1:].isdigit()
    pattern = rf"\b{re.escape(keyword[:-1])}\W*{keyword[-1]}\b" if digit else rf"\b{re.escape(keyword)}\b"
    return len(re.findall(pattern, text, re.IGNORECASE))


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_counts_as_its_pattern_does(keyword: str) -> None:
    """With signs, digits and blanks at any place."""
    table = count_by_pattern(passages(TEXTS), [keyword])
    expected = {n: original(text, keyword) for n, text in enumerate(TEXTS, 1) if original(text, keyword)}
    assert dict(zip(table.ids.tolist(), table.counts[:, 0].tolist(), strict=True)) == expected


@given(st.text(alphabet="aBc1 6-+(._α\n^'s", max_size=24), st.text("aBc16-+ (.α_'s", min_size=1, max_size=7))
def test_a_passage_with_a_keyword_has_its_words(text: str, keyword: str) -> None:
    """Few characters, so that matches touch and overlap."""
    if original(text, keyword):
        assert set(words_of(keyword)) <= {atom.term for atom in atoms_of(text)}


@pytest.mark.shared_data
@pytest.mark.skipif(not NAMESPACE.exists(), reason="the evaluation data is not beside this checkout")
def test_the_order_is_the_originals_on_a_published_namespace(tmp_path: Path) -> None:
    """All passages with a keyword, for keywords drawn from its own texts, fixed or not."""
    with gzip.open(NAMESPACE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [text for row in rows for text in (row["abstract"], *re.findall(r"(?s).{1,2000}", row["body"]))]
    found = passages(texts)
    draw, index = random.Random(5), open_tantivy(tmp_path / "index")
    index.add(found)
    index.commit()
    drawn = re.findall(r"\S+", " ".join(texts[::50]))
    for _ in range(6):
        at = draw.randrange(len(drawn) - 2)
        keywords = [drawn[at], " ".join(drawn[at : at + 2]), draw.choice(("h2a.z", "swr1", "vit", "il-6", "(a"))]
        fixed = [draw.random() < 0.5 for _ in keywords]
        expected = rank_by_keywords(count_by_pattern(found, keywords), fixed, len(found))
        words = [words_of(keyword) for keyword in keywords]
        kept = [found[n - 1] for n in sorted(index.with_words(words).tolist())] if all(words) else found
        ranked = rank_by_keywords(count_by_pattern(kept, keywords), fixed, len(found))
        assert ranked.ids.tolist() == expected.ids.tolist()
    index.close()
