"""Tokens that a grammar forces are appended and computed together: the text stays what it is without that.

A bias of 0 turns it off, since a bias may prefer another way to write the same text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from models.card import ModelCard
from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.grammar import forced_call_grammar
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import Delta, GenerateParams

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOST = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/"
CALLS = HOST + r"(esearch\.fcgi\?db=(gene|snp)&retmax=5&term=[A-Z]{3}[0-9]{1,3}|einfo\.fcgi\?retmode=(json|xml))"
PROMPT = "Question: What is the official gene symbol of LMP10?\n"
OFF: dict[str, Any] = {"logit_bias": ((0, 0.0),)}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["random", pytest.param("embedded", marks=pytest.mark.weights)]
)
async def engine(request: pytest.FixtureRequest, tiny_llama: Path) -> AsyncIterator[TransformersEngine]:
    if request.param == "random":
        card = ModelCard(name="tiny", source=str(tiny_llama), context_length=512)
    elif (EMBEDDED_DIR / "model.safetensors").is_file():
        card = card_from_request(ModelRequest(source=str(EMBEDDED_DIR)))
    else:
        pytest.skip("the embedded model's weights are not in this checkout")
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=16))
    await engine.start()
    yield engine
    await engine.close()


async def written(engine: TransformersEngine, prompt: str = PROMPT, **params: Any) -> list[Delta]:
    grammar = forced_call_grammar(CALLS, engine.tokenizer)
    asked = GenerateParams(**{"max_tokens": 200, "grammar": grammar, "stop": ("]->",), **params})
    ids = engine.tokenizer.encode(prompt)
    return [delta async for delta in engine.generate(ids, asked, f"{prompt}{params}")]


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def ids(deltas: list[Delta]) -> list[int]:
    return [token for delta in deltas for token in delta.token_ids]


def is_canonical(engine: TransformersEngine, deltas: list[Delta]) -> bool:
    """Return whether the tokens are those of tokenizing the text at once, the arrow left out."""
    whole = engine.tokenizer.encode(text(deltas))
    return ids(deltas)[: len(whole)] == whole


@pytest.mark.parametrize("sampling", [{}, *({"temperature": 1.0, "seed": seed} for seed in range(3))])
async def test_the_text_is_the_same_where_the_model_writes_its_own_tokens(
    engine: TransformersEngine, sampling: dict[str, Any]
) -> None:
    """Greedy and with a seed: each forced token takes the random number with which it would have been drawn."""
    before = engine.stats().tokens_forced
    plain = await written(engine, **sampling, **OFF)
    assert engine.stats().tokens_forced == before
    jumped = await written(engine, **sampling)

    if is_canonical(engine, plain):
        assert (text(jumped), ids(jumped)) == (text(plain), ids(plain))
    assert text(jumped).startswith("[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/e")
    assert (jumped[-1].finish_reason, jumped[-1].stop_reason) == ("stop", "]->")


async def test_forced_tokens_are_counted_and_not_decoded(engine: TransformersEngine) -> None:
    before = engine.stats()
    deltas = await written(engine, cache_salt="counted")
    after = engine.stats()

    assert after.tokens_generated - before.tokens_generated == len(ids(deltas))
    assert after.prompt_tokens_computed - before.prompt_tokens_computed == deltas[-1].num_prompt_tokens
    assert after.tokens_forced - before.tokens_forced >= 4


async def test_what_follows_is_what_the_whole_sequence_gives(engine: TransformersEngine) -> None:
    """The states of forced tokens are those of a prompt with the same tokens."""
    first = await written(engine)
    at = len(ids(first)) // 2
    prompt = [*engine.tokenizer.encode(PROMPT), *ids(first)]
    more = GenerateParams(max_tokens=12, ignore_eos=True)
    again = GenerateParams(max_tokens=12, ignore_eos=True, cache_salt="nothing cached under this")
    cached = [delta async for delta in engine.generate(prompt, more, "cached")]
    computed = [delta async for delta in engine.generate(prompt, again, "computed")]

    assert at > 0 and ids(cached) == ids(computed)


@pytest.mark.parametrize("most", range(1, 40, 5))
async def test_a_limit_inside_what_is_forced_is_kept(engine: TransformersEngine, most: int) -> None:
    deltas = await written(engine, max_tokens=most)
    whole = ids(await written(engine))

    assert ids(deltas) == whole[:most]
    assert deltas[-1].finish_reason == ("length" if most < len(whole) else "stop")


async def test_a_stop_string_inside_what_is_forced_ends_the_text(engine: TransformersEngine) -> None:
    deltas = await written(engine, stop=(".nlm.", "]->"))

    assert text(deltas) == "[https://eutils.ncbi"
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", ".nlm.")


async def test_logprobs_come_with_every_token(engine: TransformersEngine) -> None:
    """Nothing is forced then: each token has the numbers with which it was chosen."""
    deltas = await written(engine, logprobs=1)

    assert [one.token_id for delta in deltas for one in delta.logprobs or ()] == ids(deltas)


async def test_neighbours_write_what_they_write_alone(engine: TransformersEngine) -> None:
    """Sequences whose forced tokens are computed, and sequences that decode, in the same steps."""
    prompts = [PROMPT + "why " * (3 * number) for number in range(6)]
    free = {"grammar": None, "max_tokens": 30, "ignore_eos": True}
    wishes: list[dict[str, Any]] = [{} if number % 2 else free for number in range(6)]
    alone = [await written(engine, prompt, **wish) for prompt, wish in zip(prompts, wishes, strict=True)]
    together = await asyncio.gather(
        *(written(engine, prompt, **wish, cache_salt="x") for prompt, wish in zip(prompts, wishes, strict=True))
    )

    assert [ids(one) for one in together] == [ids(one) for one in alone]
