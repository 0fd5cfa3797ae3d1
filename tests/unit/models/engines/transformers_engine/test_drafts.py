"""Tokens that stood behind the last ones before are drafted; the model still chooses each token itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import pytest_asyncio

from models.card import ModelCard
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.engines.transformers_engine.sequences import PromptLookup
from models.types import GenerateParams

CALLS = (
    r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/"
    r"(esearch\.fcgi\?db=(gene|snp)&retmax=[1-9][0-9]?&term=[A-Z]{3}[0-9]{1,3}|einfo\.fcgi\?retmode=(json|xml))"
)
PROMPT = (
    "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&retmax=5&term=LMP10]->[1 id: 5699]\n"
    "Question: What is the official gene symbol of LMP7?\n"
)


def all_of(token_ids: list[int]) -> int:
    return len(token_ids)


def test_the_longest_match_is_drafted_first() -> None:
    lookup = PromptLookup()
    tokens = [1, 2, 3, 4, 9, 3, 5, 9, 2, 3]

    assert lookup.draft(tokens, 3, shortest=1, count_allowed=all_of) == [4, 9, 3]
    assert lookup.draft([*tokens, 9], 2, shortest=1, count_allowed=all_of) == [2, 3]


def test_of_equal_matches_the_latest_that_may_follow_is_drafted() -> None:
    tokens = [7, 1, 7, 2, 7, 3, 7]

    assert PromptLookup().draft(tokens, 1, shortest=1, count_allowed=all_of) == [3]
    assert PromptLookup().draft(tokens, 2, shortest=1, count_allowed=lambda ids: int(ids[0] == 2)) == [2]
    assert PromptLookup().draft(tokens, 2, shortest=1, count_allowed=lambda ids: 0) == []


@pytest.mark.parametrize(("most", "shortest"), [(0, 1), (-1, 1), (4, 2)])
def test_nothing_is_drafted_without_room_or_a_match(most: int, shortest: int) -> None:
    assert PromptLookup().draft([1, 2, 9, 2], most, shortest=shortest, count_allowed=all_of) == []
    assert PromptLookup().draft([1], 4, shortest=1, count_allowed=all_of) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tiny_llama: Path) -> AsyncIterator[TransformersEngine]:
    card = ModelCard(name="tiny", source=str(tiny_llama), context_length=512)
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=8))
    await engine.start()
    yield engine
    await engine.close()


async def written(engine: TransformersEngine, **params: Any) -> list[int]:
    grammar = forced_call_grammar(CALLS, engine.tokenizer)
    asked = GenerateParams(**{"max_tokens": 80, "grammar": grammar, "stop": ("]->",), **params})
    deltas = engine.generate(engine.tokenizer.encode(PROMPT), asked, f"{params}")
    return [token async for delta in deltas for token in delta.token_ids]


SAMPLINGS: list[dict[str, Any]] = [{}, *({"temperature": 1.0, "seed": seed} for seed in range(6))]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_tokens_are_those_without_drafts(engine: TransformersEngine) -> None:
    """Greedy and with seeds: each token of a draft takes the random number with which it would have been drawn."""
    drafted = [await written(engine, **sampling) for sampling in SAMPLINGS]
    with patch.object(PromptLookup, "draft", return_value=[]):
        plain = [await written(engine, **sampling) for sampling in SAMPLINGS]

    assert drafted == plain


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("shift", [0, 1])
async def test_every_draft_is_verified(engine: TransformersEngine, shift: int) -> None:
    """The right tokens, and as many wrong ones, as drafts: the text and its cached states are the same."""
    whole = await written(engine)
    prompt = engine.tokenizer.encode(PROMPT)

    def guess(_: PromptLookup, tokens: list[int], most: int, **__: Any) -> list[int]:
        right = whole[len(tokens) - len(prompt) :][: max(most, 0)]
        return [(token + shift) % engine.tokenizer.vocab_size for token in right]

    before = engine.stats()
    with patch.object(PromptLookup, "draft", guess):
        guessed = await written(engine)
        free = {"grammar": call_grammar(CALLS, engine.tokenizer), "max_tokens": 60, "ignore_eos": True, "stop": ()}
        in_free_text = await written(engine, **free)
    after = engine.stats()

    assert guessed == whole
    assert in_free_text == await written(engine, **free, cache_salt="nothing cached under this")
    if not shift:
        forced = after.tokens_forced - before.tokens_forced
        assert after.tokens_drafted - before.tokens_drafted + forced >= len(whole) - 4
