"""Measure the remote engine over running replicas: cached resumes, what HTTP adds to a resume, streams lost at a kill.

    python scripts/benchmarks/serving/scale_out.py --urls http://127.0.0.1:8001,http://127.0.0.1:8002 \
        [--in-process] [--kill PGID --streams 12] [--answers 8]

The replicas serve the embedded model as docs/scale-out.md says, with --dtype float32 --block-size 32. Each answer is
GeneGPT's loop with forced calls and a fixed reply, behind a prompt of some 1,300 tokens with a beginning of its own.
A resume is cached where it computes no more than its reply, what the model wrote since, and one block. --in-process
runs the same answers on the vLLM engine of this process, in turns with the remote one; the difference of the medians of
a resume's time to its first token is what HTTP adds. --kill ends the process group of one replica in the middle of
the streams, which are compared with an undisturbed run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.grammar import forced_call_grammar
from models.engines.base import Engine, EngineKind, EngineOptions, RemoteOptions
from models.engines.registry import create_engine
from models.types import GenerateParams

_CALLS = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&term=[A-Za-z0-9+]{1,40}"
_REPLY = "[5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1]\n"
_PROMPT_TOKENS = 1300
_RESUMES = 4


@dataclass(slots=True)
class Resumes:
    """What the resumes of one engine took."""

    first_token_s: list[float] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    num_cached: int = 0


async def answer(engine: Engine, name: str, resumes: Resumes) -> None:
    """Run one answer with its resumes."""
    grammar = forced_call_grammar(_CALLS, engine.tokenizer)
    text = f"{name} " + "Which gene is meant by the old name in this report? " * 200
    ids = engine.tokenizer.encode(text)[:_PROMPT_TOKENS]
    injected = engine.tokenizer.encode(_REPLY)
    params = GenerateParams(max_tokens=64, grammar=grammar, stop=("]->",))
    written: list[int] = []
    for number in range(_RESUMES + 1):
        began, first = time.monotonic(), 0.0
        sampled: list[int] = []
        last = None
        async for last in engine.generate(ids, params, f"{name}-s{number}"):
            first = first or time.monotonic() - began
            sampled += last.token_ids
        assert last is not None
        if number:
            computed = last.num_prompt_tokens - last.num_cached_tokens
            resumes.first_token_s.append(first)
            resumes.computed.append(computed)
            # The last token that the model wrote has not been computed by it.
            resumes.num_cached += computed <= len(injected) + 1 + engine.block_size
        written = sampled
        ids = [*ids, *written, *injected]


async def stream(engine: Engine, name: str, half: asyncio.Event) -> tuple[list[int], float]:
    """Return the ids of one long stream and its longest silence; set ``half`` in its middle."""
    prompt = engine.tokenizer.encode(f"Report {name.rpartition('-')[2]}:")
    ids: list[int] = []
    silence, last = 0.0, time.monotonic()
    async for delta in engine.generate(prompt, GenerateParams(max_tokens=120, ignore_eos=True), name):
        silence, last = max(silence, time.monotonic() - last), time.monotonic()
        ids += delta.token_ids
        if len(ids) > 60:
            half.set()
    return ids, silence


async def kill(engine: Engine, group: int, number: int) -> dict[str, object]:
    """Run the streams undisturbed, then with a replica killed in the middle."""
    calm = await asyncio.gather(*(stream(engine, f"calm-{i}", asyncio.Event()) for i in range(number)))
    half = asyncio.Event()
    running = [asyncio.create_task(stream(engine, f"hit-{i}", half)) for i in range(number)]
    await half.wait()
    os.killpg(group, signal.SIGKILL)
    results = await asyncio.gather(*running, return_exceptions=True)
    done = [one for one in results if not isinstance(one, BaseException)]
    return {
        "streams": number,
        "lost": number - len(done),
        "other_ids": sum(one[0] != before[0] for one, before in zip(results, calm, strict=True) if one in done),
        "longest_silence_s": round(max((silence for _, silence in done), default=0.0), 2),
    }


def report(resumes: Resumes) -> dict[str, object]:
    return {
        "resumes": len(resumes.computed),
        "cached": resumes.num_cached,
        "computed_median": statistics.median(resumes.computed),
        "first_token_ms_median": round(1000 * statistics.median(resumes.first_token_s), 1),
    }


async def measure(args: argparse.Namespace) -> dict[str, object]:
    card = card_from_request(ModelRequest(source=str(EMBEDDED_DIR), served_name=args.served_name))
    remote = RemoteOptions(urls=tuple(args.urls.split(",")), api_key=os.environ.get("REPLICA_KEY"))
    kinds: Sequence[EngineKind] = ("remote", "vllm") if args.in_process else ("remote",)
    counted = {kind: Resumes() for kind in kinds}
    engines: dict[str, Engine] = {}
    async with AsyncExitStack() as stack:
        for kind in kinds:
            options = EngineOptions(dtype="float32", device="cpu", max_num_seqs=8, kv_cache_bytes=256 * 2**20)
            given = EngineOptions(remote=remote) if kind == "remote" else options
            engines[kind] = create_engine(kind, card, given)
            await engines[kind].start()
            stack.push_async_callback(engines[kind].close)
            await answer(engines[kind], f"warm-up-{time.time_ns()}", Resumes())
        for number in range(args.answers):
            for kind in kinds:  # in turns, so that both meet the same load
                await answer(engines[kind], f"answer-{time.time_ns()}-{number}", counted[kind])
        found: dict[str, object] = {kind: report(one) for kind, one in counted.items()}
        if args.in_process:
            medians = [statistics.median(one.first_token_s) for one in counted.values()]
            found["added_ms"] = round(1000 * (medians[0] - medians[1]), 1)
        if args.kill:
            found["kill"] = await kill(engines["remote"], args.kill, args.streams)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--urls", required=True)
    parser.add_argument("--served-name", default="arrowhead-tiny")
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--streams", type=int, default=12)
    parser.add_argument("--kill", type=int, default=0, metavar="PGID")
    parser.add_argument("--in-process", action="store_true")
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
