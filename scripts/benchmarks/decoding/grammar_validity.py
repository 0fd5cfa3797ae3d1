"""Count the calls of a randomly initialised Llama under the call grammar that the call table accepts.

    python scripts/benchmarks/decoding/grammar_validity.py --engine transformers --calls 1000

Tokenizer and shape are the embedded model's, the weights are random, sampling is at temperature 1. Every text must be a
call that the table parses; the goal is all of them. BLAST sequences are limited to one of a question (as the
``grounded`` grammar does), because a random model would otherwise write mostly letters.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelCard
from models.decoding.grammar import forced_call_grammar
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from retrieval.errors import CallRejected
from retrieval.ncbi.calls.urls import call_regex, parse_call_url

EMBEDDED = Path(__file__).resolve().parents[3] / "models" / "embedded" / "arrowhead-tiny"
SEQUENCE = "ATTCTGCCTTTAGTAATTTGATGACAGAGACTTCTTGGGAACCACAGCC"


def random_model(folder: Path) -> Path:
    """The embedded model's files with freshly drawn weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED / name, folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig.from_pretrained(folder)).save_pretrained(folder)
    return folder


async def one_call(engine: Engine, prompt: list[int], seed: int) -> str:
    grammar = forced_call_grammar(call_regex(sequences=[SEQUENCE]), engine.tokenizer)
    params = GenerateParams(max_tokens=700, temperature=1.0, seed=seed, stop=("]->",), grammar=grammar)
    text = ""
    async for delta in engine.generate(prompt, params, f"call-{seed}"):
        text += delta.text
        if delta.finish_reason == "length":
            return f"{text} (cut by max_tokens)"
    return text


async def measure(kind: str, number: int) -> Counter[str]:
    """Accepted calls by endpoint; refused texts under "refused"."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        card = ModelCard(name="random", source=str(random_model(Path(folder))), context_length=4096)
        engine = create_engine(kind, card, EngineOptions(dtype="float32", max_model_len=1024, max_num_seqs=32))  # type: ignore[arg-type]
        await engine.start()
        prompt = engine.tokenizer.encode("Question: anything\n")
        try:
            for start in range(0, number, 32):
                seeds = range(start, min(number, start + 32))
                for text in await asyncio.gather(*(one_call(engine, prompt, seed) for seed in seeds)):
                    try:
                        found[parse_call_url(text.removeprefix("[")).endpoint] += 1
                    except CallRejected as refusal:
                        found["refused"] += 1
                        print(f"refused: {text!r}: {refusal}")
        finally:
            await engine.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="transformers", choices=["transformers", "vllm"])
    parser.add_argument("--calls", type=int, default=1000)
    args = parser.parse_args()
    found = asyncio.run(measure(args.engine, args.calls))
    refused = found.pop("refused", 0)
    print(json.dumps({"engine": args.engine, "accepted": sum(found.values()), "refused": refused, "by": dict(found)}))
    raise SystemExit(bool(refused))


if __name__ == "__main__":
    main()
