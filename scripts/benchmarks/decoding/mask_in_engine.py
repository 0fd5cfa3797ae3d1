"""Measure the call grammar's cost in a whole engine: the same tokens with and without it, in one run.

    python scripts/benchmarks/decoding/mask_in_engine.py --engine vllm --together 8

Tokenizer and shape are the embedded model's, the weights are random; the text is free text followed by the calls that
a random model begins. Both variants alternate for several rounds; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelCard
from models.decoding.grammar import call_grammar
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from retrieval.ncbi.calls.urls import call_regex
from scripts.benchmarks.decoding.grammar_validity import random_model

_TOKENS = 200


def ways(engine: Engine) -> dict[str, GenerateParams]:
    """Parameters by name; each writes exactly ``_TOKENS`` tokens unless a grammar closes before."""
    common = {"max_tokens": _TOKENS, "temperature": 1.0, "seed": 1, "ignore_eos": True}
    grammar = call_grammar(call_regex(()), engine.tokenizer)
    return {
        "no grammar": GenerateParams(**common),  # type: ignore[arg-type]
        "call grammar": GenerateParams(**common, grammar=grammar),  # type: ignore[arg-type]
    }


async def per_token_ms(engine: Engine, params: GenerateParams, together: int, round_: int) -> float:
    """Milliseconds per decoding step; ``together`` sequences share each."""
    prompt = engine.tokenizer.encode(f"Question: anything {round_}\n")

    async def one(number: int) -> int:
        tokens = 0
        async for delta in engine.generate(prompt, params, f"{round_}-{number}-{params.grammar is None}"):
            tokens += len(delta.token_ids)
        return tokens

    begun = time.perf_counter()
    most = max(await asyncio.gather(*(one(number) for number in range(together))))
    return (time.perf_counter() - begun) / most * 1e3


async def measure(kind: str, together: int, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        card = ModelCard(name="random", source=str(random_model(Path(folder))), context_length=4096)
        engine = create_engine(kind, card, EngineOptions(max_model_len=1024, max_num_seqs=32))  # type: ignore[arg-type]
        await engine.start()
        try:
            taken: dict[str, list[float]] = {name: [] for name in ways(engine)}
            for number in range(rounds + 1):  # the first round warms up
                for name, params in ways(engine).items():
                    taken[name].append(await per_token_ms(engine, params, together, number))
            return {name: statistics.median(times[1:]) for name, times in taken.items()}
        finally:
            await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="transformers", choices=["transformers", "vllm"])
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    found = asyncio.run(measure(args.engine, args.together, args.rounds))
    ratio = round(found["call grammar"] / found["no grammar"], 3)
    shown = {name: round(value, 3) for name, value in found.items()}
    print(
        json.dumps({"engine": args.engine, "together": args.together, "ms_per_step": shown, "ratio": round(ratio, 3)})
    )


if __name__ == "__main__":
    main()
