"""Engines and encoders that are watched behave as before and tell how long they took."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from models.card import ModelCard
from models.encoders.base import PassageText
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from retrieval.observer import Encoded
from server.evidence.encoders import EncoderPool
from server.observability.instrumented import InstrumentedEngine
from server.observability.observer import Generation, NullServerObserver
from server.settings.retrieval import RetrievalSettings


class _Kept(NullServerObserver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.batches: list[tuple[Encoded, int]] = []

    def generated(self, generation: Generation) -> None:
        self.generations.append(generation)

    def encoded(self, kind: Encoded, num_texts: int, seconds: float) -> None:
        assert seconds >= 0
        self.batches.append((kind, num_texts))


@pytest.fixture
def kept() -> _Kept:
    return _Kept()


async def _engine(kept: _Kept) -> InstrumentedEngine:
    card = ModelCard(name="m", source="s", description="", context_length=512, prompt_form="base")
    engine = InstrumentedEngine(create_engine("scripted", card, EngineOptions()), kept)
    await engine.start()
    return engine


async def test_a_watched_engine_gives_what_the_engine_gives(kept: _Kept) -> None:
    """Delta for delta; its continuation is told once, with its tokens."""
    engine = await _engine(kept)
    ids = engine.tokenizer.encode("Question")
    params = GenerateParams(max_tokens=20)
    watched = [delta async for delta in engine.generate(ids, params, "a")]
    plain: list[Any] = [delta async for delta in engine.inner.generate(ids, params, "b")]
    await engine.close()

    assert [delta.text for delta in watched] == [delta.text for delta in plain]
    (told,) = kept.generations
    assert (told.prompt_tokens, told.finish_reason) == (len(ids), plain[-1].finish_reason)
    assert told.sampled_tokens == sum(len(delta.token_ids) for delta in plain)


async def test_a_continuation_that_is_given_up_is_told_as_aborted(kept: _Kept) -> None:
    """And its slot is free again."""
    engine = await _engine(kept)
    deltas = engine.generate(engine.tokenizer.encode("Question"), GenerateParams(max_tokens=20), "a")
    async with aclosing(deltas):  # type: ignore[type-var]
        await anext(deltas)
    assert engine.stats().running == 0
    await engine.close()

    assert [told.finish_reason for told in kept.generations] == ["abort"]


def test_encoders_of_the_pool_are_watched(kept: _Kept) -> None:
    """Queries and passages apart; the vectors are the encoder's."""
    pool = EncoderPool(RetrievalSettings(encoders=("hashing",)), kept)
    encoder = pool.encoder()
    vectors = encoder.encode_queries(["a", "b"])
    encoder.encode_passages([PassageText("t", "x")])

    assert vectors.shape == (2, encoder.dim) and encoder.count_query_tokens("a b") > 0
    assert kept.batches == [("query", 2), ("passage", 1)]
    assert encoder.fingerprint.dim == encoder.dim and encoder.metric in {"inner_product", "l2"} and encoder.name
