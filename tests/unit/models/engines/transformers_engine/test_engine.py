"""The transformers engine beyond the common contract: numerics, batching, memory, failures."""

from __future__ import annotations

import asyncio
import json
import runpy
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from waiting import until

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.errors import CONTEXT_TOO_LONG, ENGINE_FULL, EngineUnavailable, ModelError, ModelNotFound, UnsupportedParam
from models.types import Delta, GenerateParams, Grammar

PROMPT = "Question: What is the official gene symbol of LMP10?\nAnswer:"
FACTS = " ".join(f"gene {i} lies on chr{i % 23 + 1}" for i in range(60))


@asynccontextmanager
async def running(directory: Path, **options: Any) -> AsyncIterator[TransformersEngine]:
    card = ModelCard(name="tiny", source=str(directory), context_length=512)
    engine = TransformersEngine(card, EngineOptions(**{"dtype": "float32", "device": "cpu", **options}))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def deltas(
    engine: TransformersEngine, prompt: list[int] | str, request_id: str = "r", **params: Any
) -> list[Delta]:
    ids = engine.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    wanted = GenerateParams(**{"max_tokens": 30, "ignore_eos": True, **params})
    return [delta async for delta in engine.generate(ids, wanted, request_id)]


async def until_waiting(engine: TransformersEngine, count: int) -> None:
    await until(lambda: engine.stats().waiting == count)


def ids_of(got: list[Delta]) -> list[int]:
    return [token for delta in got for token in delta.token_ids]


def reference(directory: Path, prompt: list[int], num_tokens: int, vocab_size: int) -> list[int]:
    """Greedy continuation without any cache: the whole sequence through the model at every step."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1, :vocab_size]
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


async def test_greedy_equals_the_uncached_model(tiny_llama: Path) -> None:
    """Alone, in a batch with others, and again from the prefix cache: the model's own greedy tokens."""
    async with running(tiny_llama, max_num_seqs=5) as engine:
        prompts = [engine.tokenizer.encode(FACTS)[: 40 + 37 * i] for i in range(8)]
        expected = [reference(tiny_llama, prompt, 30, engine.tokenizer.vocab_size) for prompt in prompts]
        alone = [ids_of(await deltas(engine, prompt)) for prompt in prompts[:2]]
        batched = await asyncio.gather(*(deltas(engine, p, f"b{i}", cache_salt="b") for i, p in enumerate(prompts)))
        cached = await asyncio.gather(*(deltas(engine, p, f"c{i}", cache_salt="b") for i, p in enumerate(prompts)))

    assert alone == expected[:2]
    assert [ids_of(got) for got in batched] == expected
    assert [ids_of(got) for got in cached] == expected
    assert all(got[-1].num_cached_tokens > 0 for got in cached)


async def test_a_prompt_longer_than_one_prefill_step_is_computed_right(tmp_path: Path) -> None:
    """Prompts beyond the step's budget are computed in parts, beside running sequences, with the same result."""
    build = runpy.run_path(str(Path(__file__).parents[4] / "tiny_models.py"))["build_llama"]
    directory = build(tmp_path / "long", context=2048)
    card = ModelCard(name="long", source=str(directory), context_length=2048)
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu"))
    await engine.start()
    prompt = (engine.tokenizer.encode(FACTS) * 3)[:1400]
    expected = reference(directory, prompt, 12, engine.tokenizer.vocab_size)
    short, long = await asyncio.gather(
        deltas(engine, PROMPT, "s", max_tokens=60), deltas(engine, prompt, "l", max_tokens=12)
    )
    short_again = await deltas(engine, PROMPT, "s2", max_tokens=60, cache_salt="fresh")
    await engine.close()

    assert ids_of(long) == expected
    assert ids_of(short) == ids_of(short_again)


async def test_sequences_that_leave_early_do_not_disturb_the_rest(tiny_llama: Path) -> None:
    """Rows are moved when others end, are closed or are aborted; the survivors' tokens stay the same."""
    async with running(tiny_llama, max_num_seqs=6) as engine:
        alone = [ids_of(await deltas(engine, f"{PROMPT}{i}", max_tokens=80, cache_salt=f"{i}")) for i in (2, 5)]
        leavers = [
            engine.generate(
                engine.tokenizer.encode(f"{PROMPT}{i}"), GenerateParams(max_tokens=200, ignore_eos=True), f"x{i}"
            )
            for i in range(3)
        ]
        for stream in leavers:
            await anext(stream)
        survivors = [asyncio.create_task(deltas(engine, f"{PROMPT}{i}", f"s{i}", max_tokens=80)) for i in (2, 5)]
        await leavers[0].aclose()  # type: ignore[attr-defined]
        await deltas(engine, PROMPT, "brief", max_tokens=3)
        await engine.abort("x1")
        await leavers[2].aclose()  # type: ignore[attr-defined]
        got = [ids_of(await task) for task in survivors]

    assert got == alone


async def test_request_right_behind_finds_the_prefix_of_the_one_before(tiny_llama: Path) -> None:
    """Sent together, equal headers are computed once."""
    async with running(tiny_llama) as engine:
        header = engine.tokenizer.encode(FACTS)[:320]
        tails = [engine.tokenizer.encode(f" {i}?") for i in range(6)]
        got = await asyncio.gather(
            *(deltas(engine, header + tail, f"r{i}", max_tokens=4) for i, tail in enumerate(tails))
        )
        computed = engine.stats().prompt_tokens_computed

    assert [one[-1].num_cached_tokens for one in got] == [0] + [320] * 5
    assert computed == 320 + sum(map(len, tails))


async def test_prefix_cache_keeps_to_its_bytes(tiny_llama: Path) -> None:
    """With room for three blocks, the oldest prefix is forgotten and nothing breaks."""
    block_bytes = 32 * 2 * 2 * 32 * 4  # tokens, layers, keys and values, head dimension, float32
    async with running(tiny_llama, kv_cache_bytes=3 * block_bytes) as engine:
        prompts = [engine.tokenizer.encode(f"{i} {FACTS}")[:70] for i in range(3)]
        first = [ids_of(await deltas(engine, prompt, max_tokens=2)) for prompt in prompts]
        again_last = await deltas(engine, prompts[2], max_tokens=2)
        again_first = await deltas(engine, prompts[0], max_tokens=2)

    assert again_last[-1].num_cached_tokens == 64
    assert again_first[-1].num_cached_tokens == 0
    assert [ids_of(again_first), ids_of(again_last)] == [first[0], first[2]]


async def test_full_queue_refuses_and_recovers(tiny_llama: Path) -> None:
    """One slot and one place in the queue: the third request raises ModelError, later ones are served."""
    async with running(tiny_llama, max_num_seqs=1, max_queue=1) as engine:
        tasks = [asyncio.create_task(deltas(engine, PROMPT, f"r{i}", max_tokens=100)) for i in range(3)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        later = await deltas(engine, PROMPT, max_tokens=2)

    assert [type(result) for result in results] == [list, list, ModelError]
    assert isinstance(results[2], ModelError) and ENGINE_FULL.is_of(results[2])
    assert len(ids_of(later)) == 2


async def test_higher_priority_is_served_first(tiny_llama: Path) -> None:
    """With one slot taken, the waiting request of higher priority overtakes the earlier one."""
    async with running(tiny_llama, max_num_seqs=1) as engine:
        order: list[str] = []

        async def serve(name: str, priority: int) -> None:
            await deltas(engine, PROMPT, name, max_tokens=5, priority=priority)
            order.append(name)

        blocker = engine.generate(engine.tokenizer.encode(PROMPT), GenerateParams(max_tokens=300, ignore_eos=True), "b")
        await anext(blocker)
        tasks = [asyncio.create_task(serve("low", 0)), asyncio.create_task(serve("high", 5))]
        await until_waiting(engine, 2)
        await blocker.aclose()  # type: ignore[attr-defined]
        await asyncio.gather(*tasks)

    assert order == ["high", "low"]


async def test_abort_reaches_a_waiting_request(tiny_llama: Path) -> None:
    """A request that never got a slot ends with abort and no tokens."""
    async with running(tiny_llama, max_num_seqs=1) as engine:
        blocker = engine.generate(engine.tokenizer.encode(PROMPT), GenerateParams(max_tokens=400, ignore_eos=True), "b")
        await anext(blocker)
        waiting = asyncio.create_task(deltas(engine, PROMPT, "w"))
        await until_waiting(engine, 1)
        await engine.abort("w")
        got = await waiting
        await blocker.aclose()  # type: ignore[attr-defined]

    assert (got[-1].finish_reason, ids_of(got)) == ("abort", [])


async def test_json_schema_grammar_gives_json(tiny_llama: Path) -> None:
    """A random model under a schema writes an object of that schema."""
    schema = {
        "type": "object",
        "properties": {"gene": {"enum": ["PSMB10", "TP53"]}, "on_x": {"type": "boolean"}},
        "required": ["gene", "on_x"],
        "additionalProperties": False,
    }
    grammar = Grammar("json_schema", json.dumps(schema))
    async with running(tiny_llama) as engine:
        got = await deltas(engine, PROMPT, grammar=grammar, temperature=1.0, seed=3, max_tokens=300, logprobs=5)
    parsed = json.loads("".join(delta.text for delta in got))

    assert parsed["gene"] in ("PSMB10", "TP53")
    assert isinstance(parsed["on_x"], bool)
    assert all(value > float("-inf") for delta in got for entry in delta.logprobs or () for _, value in entry.top)


async def test_grammar_ends_the_stream_even_with_ignore_eos(tiny_llama: Path) -> None:
    """Nothing can follow a finished grammar, so the request stops there."""
    async with running(tiny_llama) as engine:
        got = await deltas(engine, PROMPT, grammar=Grammar("regex", "[a-z]{3}"), ignore_eos=True)

    assert got[-1].finish_reason == "stop"
    assert len("".join(delta.text for delta in got)) == 3


async def test_bfloat16_generates_and_caches(tiny_llama: Path) -> None:
    """Half precision runs the same path, prefix cache included."""
    async with running(tiny_llama, dtype="bfloat16") as engine:
        prompt = engine.tokenizer.encode(FACTS)[:100]
        first, second = await deltas(engine, prompt), await deltas(engine, prompt)

    assert ids_of(first) == ids_of(second)
    assert second[-1].num_cached_tokens == 96


async def test_unseeded_requests_differ_but_follow_the_engines_seed(tiny_llama: Path) -> None:
    """Two unseeded samples differ; a second engine with the same base seed repeats them."""
    runs = []
    for _ in range(2):
        async with running(tiny_llama, seed=11) as engine:
            runs.append([ids_of(await deltas(engine, PROMPT, temperature=1.0)) for _ in range(2)])

    assert runs[0][0] != runs[0][1]
    assert runs[0] == runs[1]


async def test_closing_ends_running_requests_with_an_error(tiny_llama: Path) -> None:
    """close() leaves nobody waiting; afterwards the engine says that it is not running."""
    async with running(tiny_llama) as engine:
        ids = engine.tokenizer.encode(PROMPT)
        stream = engine.generate(ids, GenerateParams(max_tokens=400, ignore_eos=True), "r")
        await anext(stream)
        await engine.close()
        with pytest.raises(EngineUnavailable):
            [delta async for delta in stream]
        with pytest.raises(EngineUnavailable):
            await deltas(engine, ids)

    assert not engine.is_ready()


class BreakingModel(torch.nn.Module):
    """Wraps a model; the forward passes numbered in ``broken`` (from 0) raise."""

    def __init__(self, inner: Any, broken: set[int]) -> None:
        super().__init__()
        self.inner = inner
        self.broken = broken
        self.calls = 0

    def forward(self, **inputs: Any) -> Any:
        self.calls += 1
        if self.calls - 1 in self.broken:
            raise RuntimeError("out of something")
        return self.inner(**inputs)


async def test_broken_step_ends_its_requests_and_the_engine_lives_on(tiny_llama: Path) -> None:
    """An exception inside torch becomes EngineUnavailable for those running; the next request is served."""
    async with running(tiny_llama) as engine:
        decoder = engine._worker._decoder  # type: ignore[union-attr]
        decoder._model = BreakingModel(decoder._model, {3})
        with pytest.raises(EngineUnavailable, match="decode step failed"):
            await deltas(engine, PROMPT)
        got = await deltas(engine, PROMPT)

        assert len(ids_of(got)) == 30
        assert engine.is_ready()


async def test_engine_that_keeps_failing_says_so(tiny_llama: Path) -> None:
    """After several broken steps in a row the engine is not ready and refuses at once."""
    async with running(tiny_llama) as engine:
        decoder = engine._worker._decoder  # type: ignore[union-attr]
        decoder._model = BreakingModel(decoder._model, set(range(100)))
        for _ in range(4):
            with pytest.raises(EngineUnavailable):
                await deltas(engine, PROMPT)

        assert not engine.is_ready()


async def test_a_prompt_beyond_the_memory_is_refused_and_shorter_ones_end_at_it(tiny_llama: Path) -> None:
    """The message names the memory, not only the context; an answer without a limit goes up to it."""
    async with running(tiny_llama) as engine:
        engine._loaded = replace(engine._ready_model(), max_model_len=100)
        with pytest.raises(
            ModelError, match="memory holds 100 of the model's context of 512", check=CONTEXT_TOO_LONG.is_of
        ) as caught:
            await deltas(engine, [5] * 100)
        got = await deltas(engine, [5] * 90, max_tokens=512)

    assert caught.value.param == "prompt"
    assert (len(ids_of(got)), got[-1].finish_reason) == (10, "length")


async def test_missing_directory_is_model_not_found(tmp_path: Path) -> None:
    """The path stands in the message."""
    with pytest.raises(ModelNotFound, match="absent"):
        async with running(tmp_path / "absent"):
            pass


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
async def test_damaged_file_is_model_not_found(tiny_llama: Path, tmp_path: Path, name: str) -> None:
    """Cut files are reported as such, not as a crash of the loader."""
    directory = tmp_path / "cut"
    shutil.copytree(tiny_llama, directory)
    (directory / name).write_bytes((directory / name).read_bytes()[:50])

    with pytest.raises(ModelError, match="cut"):
        async with running(directory):
            pass


async def test_context_beyond_the_models_own_is_refused(tiny_llama: Path) -> None:
    """max_model_len cannot exceed what the model was made for."""
    with pytest.raises(UnsupportedParam) as caught:
        async with running(tiny_llama, max_model_len=100_000):
            pass

    assert caught.value.param == "max_model_len"


async def test_engine_that_is_not_started_says_so(tiny_llama: Path) -> None:
    """Before start() there is no tokenizer, no context length and no generation."""
    engine = TransformersEngine(ModelCard(name="tiny", source=str(tiny_llama)), EngineOptions())

    assert not engine.is_ready()
    with pytest.raises(EngineUnavailable):
        await anext(engine.generate([1], GenerateParams(max_tokens=1), "r"))


async def test_a_text_that_repeats_itself_frees_its_slot(tiny_llama: Path) -> None:
    """After 128 tokens of a loop, where the request wants it."""
    async with running(tiny_llama) as engine:
        one: dict[str, Any] = {"logit_bias": ((50, 100.0),), "max_tokens": 200}
        guarded = await deltas(engine, PROMPT, stop_on_repetition=True, **one)
        free = await deltas(engine, PROMPT, **one)
        assert engine.stats().running == 0

    assert (guarded[-1].finish_reason, guarded[-1].stop_reason) == ("length", "repetition")
    assert ids_of(guarded) == [50] * 128
    assert (len(ids_of(free)), free[-1].stop_reason) == (200, None)
