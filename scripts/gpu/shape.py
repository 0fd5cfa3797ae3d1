"""Measure our loop against ``AsyncLLM`` over a model of Llama-3.1-8B's shape, whose weights vLLM makes up.

Goals on a card: 0.97 of its tokens a second, a resume in 1.3 times the prefill of its reply, a grammar for 3 %.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import call_grammar
from models.decoding.types import Call, CallReply, CallSyntax, LoopDone
from models.types import GenerateParams, Grammar
from retrieval.ncbi.calls.urls import call_regex
from scripts.gpu.engines import LLAMA_8B, SMALL, DummyWeights, engine_over, started, tokens_per_s, write_shape
from scripts.gpu.figures import figure, is_dry

_REPEATS = 5
_ROUNDS = 2


async def no_call(_: Call) -> CallReply:
    return CallReply("", "error")


class Measure:
    """One engine; every prompt of a measurement is another, so that none is found in the cache."""

    def __init__(self, engine: DummyWeights, tokens: int) -> None:
        self._engine, self._tokens, self._asked = engine, tokens, 0

    def prompt(self, length: int) -> list[int]:
        self._asked += 1
        return [3 + (self._asked * 7919 + place * 31) % 250 for place in range(length)]

    async def through_loop(self, grammar: Grammar | None = None) -> int:
        prompt = self.prompt(64)
        request = LoopRequest(
            prompt_ids=tuple(prompt),
            params=GenerateParams(max_tokens=self._tokens, ignore_eos=True, grammar=grammar),
            syntax=CallSyntax("[https://", "]->", lambda _: False),
            request_id=f"loop-{self._asked}",
        )
        async for event in run(self._engine, request, no_call):
            if isinstance(event, LoopDone):
                return event.usage.sampled_tokens
        return 0

    async def bare(self) -> int:
        prompt = self.prompt(64)
        return await self._engine.written_bare(prompt, self._tokens, f"bare-{self._asked}")

    async def first_token_s(self, ids: Sequence[int]) -> float:
        self._asked += 1
        began = time.perf_counter()
        async for _ in self._engine.generate(ids, GenerateParams(max_tokens=1, ignore_eos=True), f"one-{self._asked}"):
            pass
        return time.perf_counter() - began


async def against_bare(measure: Measure, streams: Sequence[int]) -> None:
    for number in streams:
        ours, theirs = 0.0, 0.0
        for _ in range(_ROUNDS):
            theirs = max(theirs, await tokens_per_s(lambda _: measure.bare(), number))
            ours = max(ours, await tokens_per_s(lambda _: measure.through_loop(), number))
        figure(f"tokens/s at {number}", f"{ours:.0f}, AsyncLLM {theirs:.0f}, ratio {ours / theirs:.3f}")


async def resume(measure: Measure, prompt: int, reply: int) -> None:
    resumed, plain = [], []
    for _ in range(_REPEATS):
        ids = measure.prompt(prompt)
        await measure.first_token_s(ids)
        resumed.append(await measure.first_token_s([*ids, *measure.prompt(reply)]))
        plain.append(await measure.first_token_s(measure.prompt(reply)))
    after, alone = statistics.median(resumed), statistics.median(plain)
    text = f"{after * 1e3:.1f} ms, prefill of the reply {alone * 1e3:.1f} ms, ratio {after / alone:.2f}"
    figure(f"resume after {reply} tokens behind {prompt}", text)


async def with_grammar(measure: Measure, engine: DummyWeights, streams: int) -> None:
    grammar = call_grammar(call_regex(), engine.tokenizer)
    plain, masked = 0.0, 0.0
    for _ in range(_ROUNDS):
        plain = max(plain, await tokens_per_s(lambda _: measure.through_loop(), streams))
        masked = max(masked, await tokens_per_s(lambda _: measure.through_loop(grammar), streams))
    text = f"{masked:.0f} tokens/s, without {plain:.0f}, ratio {masked / plain:.3f}"
    figure(f"grammar at {engine.tokenizer.vocab_size:,} ids, {streams} streams", text)


async def main(dry: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="first-light-") as folder:
        model = write_shape(Path(folder), SMALL if dry else LLAMA_8B)
        async with started(engine_over(model, dry=dry)) as engine:
            measure = Measure(engine, 8 if dry else 128)
            await against_bare(measure, (1, 2) if dry else (1, 8, 32, 128))
            await resume(measure, 128 if dry else 3000, 32 if dry else 300)
            await with_grammar(measure, engine, 2 if dry else 32)
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(is_dry(__doc__))))
