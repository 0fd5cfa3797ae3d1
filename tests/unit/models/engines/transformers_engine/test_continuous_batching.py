"""What a request asks of its tokens, as the engine decodes them in one batch with others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.errors import UnsupportedParam
from models.types import GenerateParams, Grammar

PROMPT = "Question: What is the official gene symbol of LMP10?\nAnswer:"


@pytest.fixture
async def engine(tiny_llama: Path) -> AsyncIterator[TransformersEngine]:
    options = EngineOptions(dtype="float32", device="cpu")
    engine = TransformersEngine(ModelCard(name="tiny", source=str(tiny_llama), context_length=512), options)
    await engine.start()
    yield engine
    await engine.close()


async def ids(engine: TransformersEngine, request_id: str = "r", **params: object) -> list[int]:
    asked = GenerateParams(**{"max_tokens": 100, "ignore_eos": True, **params})  # type: ignore[arg-type]
    prompt = engine.tokenizer.encode(PROMPT)
    return [token async for delta in engine.generate(prompt, asked, request_id) for token in delta.token_ids]


async def test_a_penalty_ends_a_loop_and_leaves_the_neighbours_alone(engine: TransformersEngine) -> None:
    """Greedy, the tiny model repeats itself; the largest penalties make every token new, in one batch with others."""
    plain, penalised, again = await asyncio.gather(
        ids(engine, "a"),
        ids(engine, "b", presence_penalty=2.0, frequency_penalty=2.0, repetition_penalty=1e6),
        ids(engine, "c"),
    )

    assert max(Counter(plain).values()) > 1
    assert max(Counter(penalised).values()) == 1
    assert plain == again


async def test_a_bias_chooses_the_token(engine: TransformersEngine) -> None:
    """+100 makes a token certain, -100 impossible; the grammar still decides what is allowed."""
    (token,) = engine.tokenizer.encode("7")
    first = (await ids(engine, max_tokens=1))[0]

    assert await ids(engine, logit_bias=((token, 100.0),), max_tokens=3) == [token] * 3
    assert (await ids(engine, logit_bias=((first, -100.0),), max_tokens=1))[0] != first
    regex = Grammar("regex", "[ab]{3}")
    assert token not in await ids(engine, logit_bias=((token, 100.0),), grammar=regex, max_tokens=3)


async def test_logprobs_are_those_before_bias_and_penalties(engine: TransformersEngine) -> None:
    """As in vLLM, what is reported does not depend on them."""

    async def best(**params: object) -> list[int]:
        asked = GenerateParams(max_tokens=1, logprobs=3, **params)  # type: ignore[arg-type]
        deltas = engine.generate(engine.tokenizer.encode(PROMPT), asked, "r")
        return [token async for delta in deltas for one in delta.logprobs or () for token, _ in one.top]

    (seven,) = engine.tokenizer.encode("7")
    assert await best(logit_bias=((seven, 100.0),)) == await best()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_p", 1.5),
        ("frequency_penalty", 2.5),
        ("presence_penalty", float("nan")),
        ("repetition_penalty", 0.0),
        ("logit_bias", ((10**6, 1.0),)),
        ("logit_bias", ((1, 101.0),)),
    ],
)
async def test_values_out_of_range_are_refused_by_name(engine: TransformersEngine, name: str, value: object) -> None:
    with pytest.raises(UnsupportedParam) as refused:
        await ids(engine, "r", **{name: value})

    assert refused.value.param == name
