"""Late interaction as a re-ranker."""

from __future__ import annotations

import numpy as np
import pytest
from corpus_doubles import TokenWordEncoder

from models.encoders.base import PassageText
from models.encoders.late_interaction import LateInteraction


def test_the_passage_with_the_words_of_the_query_is_first() -> None:
    """Its logit is the log-odds of a similarity from 0 to 1, finite also where nothing matches."""
    ranker = LateInteraction(TokenWordEncoder(), "words:rerank")
    passages = [PassageText("", text) for text in ("asthma of mice", "a broken leg", "", "mice")]
    logits = ranker.score("asthma mice", passages)
    assert np.isfinite(logits).all()
    assert int(np.argmax(logits)) == 0
    similarities = 1 / (1 + np.exp(-logits.astype(float)))
    assert 1 > similarities[0] > 0.5
    assert similarities[2] == pytest.approx(1e-6, rel=0.01)
