"""Count the tokens computed for GeneGPT answers, against those of the published loop for the same transcripts.

    python scripts/benchmarks/decoding/tokens_computed.py runs/geneturing.jsonl [--masks none,slim,full] [--limit 50]

Input: the output of scripts/evals/geneturing/run.py with traces. Each transcript is replayed on a real engine, step by
step. The published loop sends the whole prompt (its documentation and demonstrations, the question, all text so far) at
every step and computes all of it; this server resumes on the prefix cache. Counted by the engine: the tokens of each
step's prompt that were not in its cache. A step's generated tokens are counted when the next step begins (they are
computed once, whether sampled or replayed); the last answer is added.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import load_catalog
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from server.methods.genegpt.prompt import MASKS, Prompt


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens; ``published``: every step's whole prompt and what is written in it. ``steps``: completions."""

    ours: int
    published: int
    steps: int


def transcripts(path: Path, limit: int) -> list[tuple[str, list[dict[str, str]]]]:
    """Question and spans (kind, text) of each answer."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for row in rows:
        trace = row.get("trace")
        if trace and trace["choices"][0]["calls"]:
            found.append((row["question"], trace["choices"][0]["spans"]))
    return found[:limit]


async def replay(engine: Engine, prompt: Sequence[int], spans: list[dict[str, str]], name: str) -> Counts:
    ids = list(prompt)
    ours = published = steps = last = 0
    for place, span in enumerate(spans):
        new = engine.tokenizer.encode(span["text"])
        if span["kind"] == "sampled":
            ours += len(ids) - await _cached(engine, ids, f"{name}-{place}")
            published += len(ids) + len(new)
            steps, last = steps + 1, len(new)
        ids += new
    return Counts(ours + last, published, steps)


async def _cached(engine: Engine, ids: list[int], name: str) -> int:
    """How many of these tokens the engine takes from its prefix cache; it computes the others."""
    cached = 0
    async for delta in engine.generate(ids, GenerateParams(max_tokens=1), name):
        cached = max(cached, delta.num_cached_tokens)
    return cached


async def measure(args: argparse.Namespace) -> None:
    card = load_catalog()["arrowhead-tiny"]
    options = EngineOptions(max_num_seqs=4)
    parts = Prompt.load()
    rows = transcripts(args.transcripts, args.limit)
    print(f"{len(rows)} transcripts on the {args.engine} engine")
    print(f"{'prompt parts':14}{'steps':>7}{'ours':>12}{'published':>12}{'ratio':>8}")
    for mask in args.masks.split(","):
        engine = create_engine(args.engine, card, options)
        await engine.start()
        try:
            counts = []
            for number, (question, spans) in enumerate(rows):
                prompt = engine.tokenizer.encode(parts.base_form(MASKS[mask], question))
                counts.append(await replay(engine, prompt, spans, f"{mask}-{number}"))
        finally:
            await engine.close()
        ours, published = sum(c.ours for c in counts), sum(c.published for c in counts)
        steps = sum(c.steps for c in counts)
        print(f"{mask:14}{steps:>7}{ours:>12,}{published:>12,}{published / ours:>8.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--masks", default="none,slim,full")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--engine", default="transformers", choices=["transformers", "vllm"])
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
