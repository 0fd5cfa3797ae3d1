"""The encoders without weights."""

from __future__ import annotations

import numpy as np
import pytest

from models.encoders.base import PassageText
from models.encoders.hashing import HashingEncoder, OverlapCrossEncoder


def test_shared_words_bring_texts_near() -> None:
    """In any case of the letters."""
    near, far, query = HashingEncoder().encode_queries(
        ["Metformin lowers hepatic glucose output", "A fracture of the radius", "METFORMIN and glucose"]
    )

    assert query @ near > query @ far + 0.2


def test_words_that_cancel_out_still_give_a_unit_vector() -> None:
    """With 8 places some texts sum to nothing; none may have length 0."""
    texts = [f"w{i} w{j}" for i in range(40) for j in range(40)]
    lengths = np.linalg.norm(HashingEncoder(8).encode_queries(texts), axis=1)

    np.testing.assert_allclose(lengths, 1.0, atol=1e-5)


def test_the_passage_with_the_querys_words_scores_higher() -> None:
    """And the one with the words in the query's order highest."""
    passages = [
        PassageText("Sarcoma", "TP53 germline variants"),
        PassageText("Variants", "of germline origin in TP53"),
        PassageText("", "asthma in children"),
    ]
    scores = OverlapCrossEncoder().score("TP53 germline variants", passages)

    assert list(np.argsort(-scores)) == [0, 1, 2]
    assert scores[2] == -6.0


def test_a_width_too_small_to_mean_anything_is_refused() -> None:
    """Fewer than 8 places."""
    with pytest.raises(ValueError, match="at least 8"):
        HashingEncoder(4)
