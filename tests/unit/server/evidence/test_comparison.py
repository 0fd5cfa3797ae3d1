"""Texts are compared with a question by all that the encoders give, and without the parts that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from models.encoders.base import PassageText
from server.evidence.comparison import TextComparison
from server.evidence.encoders import EncoderPool
from server.settings.retrieval import RetrievalSettings

Pools = Callable[..., EncoderPool]
QUESTION = "Does insulin lower glucose?"
TEXTS = ("Insulin lowers glucose.", "Statins lower cholesterol, as many trials have shown over the years.", "Insulin.")


@pytest.fixture
async def pools() -> AsyncIterator[Pools]:
    made: list[EncoderPool] = []

    def pool(encoder: str = "minilm", cross_encoder: str | None = None) -> EncoderPool:
        made.append(EncoderPool(RetrievalSettings(encoders=(encoder,), cross_encoder=cross_encoder)))
        return made[-1]

    yield pool
    for one in made:
        await one.close()


@pytest.mark.weights
async def test_the_built_in_encoder_compares_tokens_too(pools: Pools) -> None:
    """Texts of different lengths keep their own tokens; from the cache the scores are the same, in any order."""
    comparison = TextComparison(pools())
    scores = await comparison.compare(QUESTION, TEXTS)
    assert scores.encoder == "minilm" and len(scores.late) == len(scores.cosines) == 3 and scores.cross == ()
    assert scores.late[0] > scores.late[1] and scores.cosines[0] > scores.cosines[1]
    again = await comparison.compare(QUESTION, TEXTS[::-1])
    assert again.late == scores.late[::-1] and again.cosines == pytest.approx(scores.cosines[::-1])


async def test_an_encoder_without_tokens_gives_cosines_alone(pools: Pools) -> None:
    pool = pools(encoder="hashing")
    scores = await TextComparison(pool).compare(QUESTION, TEXTS)
    passages = pool.encoder().encode_passages([PassageText("", text) for text in TEXTS])
    expected = passages @ pool.encoder().encode_queries([QUESTION])[0]
    assert scores.late == () and np.allclose(scores.cosines, expected, atol=1e-3)


async def test_a_cross_encoder_scores_beside_it(pools: Pools) -> None:
    scores = await TextComparison(pools(encoder="hashing", cross_encoder="overlap")).compare(QUESTION, TEXTS)
    assert len(scores.cross) == 3 and scores.cross[0] > scores.cross[1]


async def test_what_fails_is_left_out(pools: Pools, caplog: pytest.LogCaptureFixture) -> None:
    """Weights that are not on this machine: nothing is compared, and the log says why."""
    scores = await TextComparison(pools(encoder="ncbi/MedCPT-Article-Encoder")).compare(QUESTION, TEXTS)
    assert (scores.encoder, scores.cosines, scores.late) == ("", (), ()) and "without all encoders" in caplog.text
