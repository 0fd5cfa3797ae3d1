"""What an index of words tells of phrases and of the passages that have some words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from retrieval.index.base import RowFilter
from retrieval.lexical.tantivy_index import TantivyIndex, open_tantivy
from retrieval.passages import Passage

TEXTS = ("Zinc finger; zinc finger.", "a finger of zinc", "copper", "zinc", "zinc finger")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[TantivyIndex]:
    made = open_tantivy(tmp_path / "index")
    made.add(
        Passage(passage_id=at, document_id="d", title="iron" if at == 4 else "", text=text, date=at)
        for at, text in enumerate(TEXTS, 1)
    )
    made.commit()
    made.delete([5])
    made.commit()
    yield made
    made.close()


def test_passages_with_the_words_of_one_keyword_are_found(index: TantivyIndex) -> None:
    """All words of one of the keywords, in the title too; a deleted passage is none."""
    assert sorted(index.with_words([("zinc", "finger"), ("copper",)]).tolist()) == [1, 2, 3]
    assert index.with_words([("iron",)]).tolist() == [4]
    assert index.with_words([("tin",)]).tolist() == [] and index.with_words([]).tolist() == []
    assert index.with_words([("zinc",)], RowFilter(date_from=2)).tolist() != []


def test_phrases_are_counted(index: TantivyIndex) -> None:
    """Those of deleted passages are not; a filter may admit none."""
    phrases = index.phrases()
    ids, counts = phrases.counts(("zinc", "finger"))
    assert (ids.tolist(), counts.tolist()) == ([1], [2])
    assert phrases.has(("zinc", "finger")) and not phrases.has(("finger", "zinc"))
    assert phrases.known(("copper", "tin")) == {"copper": 1}
    for where in (RowFilter(date_from=2), RowFilter(ids=np.zeros(0, dtype=np.int64))):
        assert phrases.counts(("zinc", "finger"), where)[0].tolist() == []
