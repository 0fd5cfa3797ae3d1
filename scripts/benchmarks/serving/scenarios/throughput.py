"""Measure the step times of two replicas that work at once, and answers in a closed loop over both."""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from models.engines.base import Engine
from models.types import GenerateParams
from scripts.benchmarks.serving.scenarios.replicas import remote_engine
from scripts.benchmarks.serving.scenarios.verdict import Verdict
from scripts.benchmarks.serving.simulate_replicas import Result, StepTimes, Workload

_BATCHES: Final = (1, 4, 8)
_STEP_TOKENS: Final = 32
_PROMPTS: Final = 4
_PROMPT_TOKENS: Final = 600
_SHORT_PROMPT: Final = 40
_ROUNDS: Final = 2


def throughput(urls: Sequence[str], clients: int, answers: int) -> Verdict:
    """Measure; there is no figure to reach, as the simulation is what is checked against it."""
    return asyncio.run(_throughput(urls, clients, answers))


async def _throughput(urls: Sequence[str], clients: int, answers: int) -> Verdict:
    work = Workload(
        users=clients, pause_s=0.0, prompt_tokens=_PROMPT_TOKENS, generations=4, sampled_tokens=24, call_s=0.2
    )
    async with AsyncExitStack() as stack:
        alone = [await remote_engine([url], stack) for url in urls]
        both = await remote_engine(urls, stack)
        found = {"sticky": Result(0.0), "random": Result(0.0)}
        times = [await _step_times(alone)]
        for number in range(_ROUNDS):
            for routing in sorted(found, reverse=bool(number % 2)):  # in turns, so that both meet the same load
                await _closed_loop(both, work, routing == "sticky", answers, found[routing])
            times.append(await _step_times(alone))
    mean = StepTimes(*(float(np.mean([getattr(one, name) for one in times])) for name in StepTimes.__slots__))
    figures: dict[str, Any] = {routing: one.figures() for routing, one in found.items()}
    figures |= {"step_times": asdict(mean), "workload": asdict(work)}
    return Verdict("throughput", True, figures)


async def _step_times(alone: Sequence[Engine]) -> StepTimes:
    """Fit the time of a step, with all replicas at work."""
    sizes, seconds = [], []
    for size in _BATCHES:
        found = await asyncio.gather(*(_step_s(engine) for engine in alone for _ in range(size)))
        sizes.append(size)
        seconds.append(statistics.median(found))
    per_sequence, base = np.polyfit(sizes, seconds, 1)
    first_s = [await _first_token_s(alone, length) for length in (_SHORT_PROMPT, _PROMPT_TOKENS)]
    per_token = max(first_s[1] - first_s[0], 0.0) / (_PROMPT_TOKENS - _SHORT_PROMPT)
    of_step = max(base, 0.0) + max(per_sequence, 0.0)
    per_generation = max(first_s[0] - per_token * _SHORT_PROMPT - of_step, 0.0)
    return StepTimes(max(float(base), 0.0), max(float(per_sequence), 0.0), per_token, float(per_generation))


async def _first_token_s(alone: Sequence[Engine], length: int) -> float:
    """Return the median time to a first token behind a prompt that is not cached, with all replicas at work."""
    found = [await asyncio.gather(*(_prompt_s(engine, length) for engine in alone)) for _ in range(_PROMPTS)]
    return statistics.median(one for both in found for one in both)


async def _step_s(engine: Engine) -> float:
    """Return the mean time between two tokens of one stream."""
    prompt = engine.tokenizer.encode(f"Report {uuid.uuid4()}:")
    params = GenerateParams(max_tokens=_STEP_TOKENS, ignore_eos=True)
    times = [time.monotonic() async for _ in engine.generate(prompt, params, uuid.uuid4().hex)]
    return (times[-1] - times[0]) / (_STEP_TOKENS - 1)


async def _prompt_s(engine: Engine, length: int) -> float:
    prompt, began = _prompt(engine, length), time.monotonic()
    async for _ in engine.generate(prompt, GenerateParams(max_tokens=1), uuid.uuid4().hex):
        pass
    return time.monotonic() - began


def _prompt(engine: Engine, tokens: int) -> list[int]:
    text = f"{uuid.uuid4()} " + "Which gene is meant by the old name in this report? " * 200
    return engine.tokenizer.encode(text)[:tokens]


async def _closed_loop(engine: Engine, work: Workload, is_sticky: bool, answers: int, result: Result) -> None:
    """Let the clients ask one question after the other; what runs when there is none left to ask is not counted.

    The time that counts is that of the answers over the clients (Little's law): cut at a moment, it would have the time
    of those that are not counted too.
    """
    left, is_over = answers, False

    async def client() -> None:
        nonlocal left, is_over
        while left > 0:
            left -= 1
            asked = time.monotonic()
            computed = await _answer(engine, work, is_sticky)
            if not is_over:
                result.answer_s.append(time.monotonic() - asked)
                result.computed_tokens += computed
        is_over = True

    await asyncio.gather(*(client() for _ in range(work.users)))
    result.seconds = sum(result.answer_s) / work.users


async def _answer(engine: Engine, work: Workload, is_sticky: bool) -> int:
    """Run one answer and return the tokens of prompts that were computed; random: each generation is a session."""
    name, ids, computed = uuid.uuid4().hex, _prompt(engine, work.prompt_tokens), 0
    injected = _prompt(engine, work.reply_tokens)
    params = GenerateParams(max_tokens=work.sampled_tokens, ignore_eos=True)
    for number in range(work.generations):
        request_id = f"{name}-s{number}" if is_sticky else uuid.uuid4().hex
        sampled: list[int] = []
        async for delta in engine.generate(ids, params, request_id):
            sampled += delta.token_ids
        computed += delta.num_prompt_tokens - delta.num_cached_tokens
        ids = [*ids, *sampled, *injected]
        if number + 1 < work.generations:
            await asyncio.sleep(work.call_s)
    return computed
