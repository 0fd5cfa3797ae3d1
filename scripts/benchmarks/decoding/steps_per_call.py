"""Count the decoding steps of a call: tokens that a grammar forces or a draft had cost no step of their own.

One call for each of a list of questions, under the call grammar, with GeneGPT's demonstrations in front of them or
without. A step of vLLM is one delta of its stream; the transformers engine counts forced and drafted tokens itself.

    python scripts/benchmarks/decoding/steps_per_call.py --engine vllm [--model DIR] [--draft-tokens 0 12]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.grammar import forced_call_grammar
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from retrieval.ncbi.calls.urls import call_regex
from server.methods.genegpt.prompt import Prompt

NAMES: Final = ("LMP10", "SEP3", "FLJ10140", "C20orf195", "p53", "HER2", "ACTIVE BCR-RELATED", "NOXA", "Sci1", "CD20")
QUESTIONS: Final = tuple(f"What is the official gene symbol of {name}?" for name in NAMES)
MASKS: Final = {"without demonstrations": "000000", "with demonstrations": "001001"}


async def count(engine: Engine, mask: str) -> tuple[int, int]:
    """Return the tokens of all calls, and the steps that they took."""
    grammar, all_tokens, steps = forced_call_grammar(call_regex(), engine.tokenizer), 0, 0
    for number, question in enumerate(QUESTIONS):
        prompt = engine.tokenizer.encode_start(Prompt.load().base_form(mask, question))
        params = GenerateParams(max_tokens=96, grammar=grammar, stop=("]->",))
        before = engine.stats()
        deltas = [delta async for delta in engine.generate(prompt, params, f"steps-{mask}-{number}")]
        after = engine.stats()
        tokens = sum(len(delta.token_ids) for delta in deltas)
        free = after.tokens_forced - before.tokens_forced + after.tokens_drafted - before.tokens_drafted
        all_tokens += tokens
        steps += tokens - free if free else sum(1 for delta in deltas if delta.token_ids)
    return all_tokens, steps


async def measure(arguments: argparse.Namespace) -> None:
    card = card_from_request(ModelRequest(source=str(arguments.model)))
    print("| engine | draft tokens | prompt | tokens per call | steps per call | steps per token |")
    print("|---|---|---|---|---|---|")
    for most in arguments.draft_tokens:
        options = EngineOptions(dtype="float32", device="cpu", max_num_seqs=4, kv_cache_bytes=2**28, draft_tokens=most)
        engine = create_engine(arguments.engine, card, options)
        await engine.start()
        try:
            for name, mask in MASKS.items():
                tokens, steps = await count(engine, mask)
                each = f"{tokens / len(QUESTIONS):.1f} | {steps / len(QUESTIONS):.1f} | {steps / tokens:.2f}"
                print(f"| {arguments.engine} | {most} | {name} | {each} |", flush=True)
        finally:
            await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="transformers", choices=("transformers", "vllm"))
    parser.add_argument("--model", type=Path, default=EMBEDDED_DIR)
    parser.add_argument("--draft-tokens", type=int, nargs="+", default=[0, 12])
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
