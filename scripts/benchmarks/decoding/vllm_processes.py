"""Measure vLLM's CPU build with the model in the scheduler's process, and in a bound process of its own.

    python scripts/benchmarks/decoding/vllm_processes.py FOLDER

On a machine of few cores the former is what the engine does; with ``VLLM_CPU_OMP_THREADS_BIND`` set, the latter. The
ways run in turn, ``--rounds`` times, each in a new process; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelRequest, card_from_request
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams

WAYS = {"in the scheduler's process": {}, "bound, of its own": {"VLLM_CPU_OMP_THREADS_BIND": "auto"}}
_TOKENS = 60


async def seconds(engine: Engine, *, together: int, prompt: int, tokens: int) -> float:
    """Return how long ``together`` different prompts of ``prompt`` ids take to get ``tokens`` more."""
    draw = random.Random(f"{together} {prompt} {tokens}")
    begun = time.perf_counter()

    async def one(number: int) -> None:
        ids = [draw.randrange(100, 40_000) for _ in range(prompt)]
        params = GenerateParams(max_tokens=tokens, ignore_eos=True)
        async for _ in engine.generate(ids, params, f"{together}-{prompt}-{tokens}-{number}"):
            pass

    await asyncio.gather(*(one(number) for number in range(together)))
    return time.perf_counter() - begun


async def measure(model: str) -> dict[str, float]:
    options = EngineOptions(dtype="float32", device="cpu", max_num_seqs=8, max_model_len=2048, kv_cache_bytes=2**29)
    engine = create_engine("vllm", card_from_request(ModelRequest(source=model)), options)
    begun = time.perf_counter()
    await engine.start()
    started = time.perf_counter() - begun
    try:
        await seconds(engine, together=1, prompt=20, tokens=5)
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return {
            "start, s": started,
            "tokens/s, one": _TOKENS / await seconds(engine, together=1, prompt=30, tokens=_TOKENS),
            "tokens/s, four": 4 * _TOKENS / await seconds(engine, together=4, prompt=30, tokens=_TOKENS),
            "prompt of 1,000, s": await seconds(engine, together=1, prompt=1000, tokens=1),
            "memory, MiB": sum(one.memory_info().rss for one in family) / 2**20,
        }
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="FOLDER", help="folder of a Llama with its tokenizer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", action="store_true", help="measure this process's way alone and print JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(asyncio.run(measure(args.model))))
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way, variables in WAYS.items():
            command = [sys.executable, __file__, args.model, "--one"]
            done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    for way, rounds in found.items():
        medians = {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}
        print(f"{way}: {medians}")


if __name__ == "__main__":
    main()
