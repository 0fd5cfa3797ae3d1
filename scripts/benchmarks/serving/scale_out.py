"""Check what the remote engine promises over real replicas: one line with its verdict for each scenario.

    python scripts/benchmarks/serving/scale_out.py [cached|latency|replica-kill …] [--urls URL,URL]

Over two replicas, `vllm serve --enable-scale-out` of the embedded model, started here unless --urls names some:

    cached        each resume computes no more than its reply, the last token that the model wrote, and one block
    latency       a resume's first token: the remote engine against vLLM's in this process, in turns
    replica-kill  `kill -9` of a replica in the middle of the streams, in groups of --group (starts its own)

Each answer is GeneGPT's loop with forced calls and a fixed reply, behind a prompt of some 1,300 tokens with a beginning
of its own. Without a name, all of them. The status is 1 where one fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.grammar import forced_call_grammar
from models.engines.base import Engine, EngineKind, EngineOptions, RemoteOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from scripts.benchmarks.serving.vllm_replica import (
    THREADS,
    VllmReplica,
    launch,
    router,
    vllm_replicas,
    wait_until_healthy,
)

NAME: Final = "arrowhead-tiny"
SCENARIOS: Final = ("cached", "latency", "replica-kill")
MAX_SILENCE_S: Final = 5.0
MAX_ADDED_MS: Final = 10.0
# Of each replica: as many sequences as one of them gets when it is alone.
_OPTIONS: Final = ("--max-num-seqs", "64")
_CALLS: Final = (
    r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&term=[A-Za-z0-9+]{1,40}"
)
_REPLY: Final = "[5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1]\n"
_PROMPT_TOKENS: Final = 1300
_RESUMES: Final = 4
_STREAM_TOKENS: Final = 100


@dataclass(frozen=True)
class Verdict:
    """The result of one scenario; ``figures`` are what it measured."""

    scenario: str
    is_met: bool
    figures: dict[str, Any]

    def line(self) -> str:
        load = round(os.getloadavg()[0], 1)
        return json.dumps({"scenario": self.scenario, "pass": self.is_met, **self.figures, "load_average": load})


@dataclass(slots=True)
class Resumes:
    """What the resumes of one engine took."""

    first_token_s: list[float] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    allowed: list[int] = field(default_factory=list)

    @property
    def num_cached(self) -> int:
        return sum(one <= most for one, most in zip(self.computed, self.allowed, strict=True))

    def figures(self) -> dict[str, Any]:
        return {
            "resumes": len(self.computed),
            "cached": self.num_cached,
            "computed_median": statistics.median(self.computed),
            "first_token_ms_median": round(1000 * statistics.median(self.first_token_s), 1),
            "first_token_ms_least": round(1000 * min(self.first_token_s), 1),
        }


@dataclass(frozen=True, slots=True)
class Stream:
    """One long stream: its ids, and its longest silence after the first of them."""

    ids: list[int]
    silence_s: float


def cached(urls: Sequence[str], answers: int) -> Verdict:
    """Run answers on the replicas, and count which resumes found their prefix cached."""
    found = asyncio.run(_resumes(urls, ("remote",), answers))["remote"]
    return Verdict("cached", found.num_cached == len(found.computed), found.figures())


def latency(urls: Sequence[str], answers: int) -> Verdict:
    """Run the same answers on the replicas and on the vLLM engine of this process, in turns."""
    found = asyncio.run(_resumes(urls, ("remote", "vllm"), answers))
    remote, own = (statistics.median(found[kind].first_token_s) for kind in ("remote", "vllm"))
    figures: dict[str, Any] = {kind: one.figures() for kind, one in found.items()}
    figures["added_ms"] = round(1000 * (remote - own), 1)
    return Verdict("latency", 1000 * (remote - own) <= MAX_ADDED_MS, figures)


async def _resumes(urls: Sequence[str], kinds: Sequence[EngineKind], answers: int) -> dict[str, Resumes]:
    counted = {str(kind): Resumes() for kind in kinds}
    async with AsyncExitStack() as stack:
        engines = {str(kind): await _engine(kind, urls, stack) for kind in kinds}
        for kind, engine in engines.items():
            await _answer(engine, f"warm-up-{kind}-{time.time_ns()}", Resumes())
        for number in range(answers):
            # In turns, so that both meet the same load; the first one changes, so that neither follows the other alone.
            for kind in sorted(engines, reverse=bool(number % 2)):
                await _answer(engines[kind], f"answer-{time.time_ns()}-{number}", counted[kind])
    return counted


async def _engine(kind: EngineKind, urls: Sequence[str], stack: AsyncExitStack) -> Engine:
    """Start an engine; over several replicas behind HAProxy, as the shipped file sets it up."""
    url = urls[0]
    if len(urls) > 1:
        url = stack.enter_context(router(urls, Path(stack.enter_context(tempfile.TemporaryDirectory()))))
    card = card_from_request(ModelRequest(source=str(EMBEDDED_DIR), served_name=NAME))
    remote = RemoteOptions(url=url, api_key=os.environ.get("REPLICA_KEY"), wait_s=120.0)
    own = EngineOptions(dtype="float32", device="cpu", max_num_seqs=8, kv_cache_bytes=256 * 2**20)
    engine = create_engine(kind, card, EngineOptions(remote=remote) if kind == "remote" else own)
    await engine.start()
    stack.push_async_callback(engine.close)
    return engine


async def _answer(engine: Engine, name: str, resumes: Resumes) -> None:
    """Run one answer with its resumes."""
    text = f"{name} " + "Which gene is meant by the old name in this report? " * 200
    ids = engine.tokenizer.encode(text)[:_PROMPT_TOKENS]
    injected = engine.tokenizer.encode(_REPLY)
    params = GenerateParams(max_tokens=64, grammar=forced_call_grammar(_CALLS, engine.tokenizer), stop=("]->",))
    for number in range(_RESUMES + 1):
        began, first = time.monotonic(), 0.0
        sampled: list[int] = []
        last = None
        async for last in engine.generate(ids, params, f"{name}-s{number}"):
            first = first or time.monotonic() - began
            sampled += last.token_ids
        assert last is not None
        if number:
            resumes.first_token_s.append(first)
            resumes.computed.append(last.num_prompt_tokens - last.num_cached_tokens)
            resumes.allowed.append(len(injected) + 1 + engine.block_size)
        ids = [*ids, *sampled, *injected]


async def replica_kill(replicas: list[VllmReplica], streams: int, group: int) -> Verdict:
    """Run each group of streams over the first replica and another one, which is killed in the middle.

    Where all others have been killed, they are started again.
    """
    calm: list[Stream] = []
    hit: list[Stream | BaseException] = []
    for number, first in enumerate(range(0, streams, group)):
        victim = 1 + number % (len(replicas) - 1)
        if number >= len(replicas) - 1:
            replicas[victim] = launch(EMBEDDED_DIR, NAME, _OPTIONS)
            await asyncio.to_thread(wait_until_healthy, replicas[victim])
        names = [str(i) for i in range(first, min(first + group, streams))]
        async with AsyncExitStack() as stack:
            engine = await _engine("remote", [replicas[0].url, replicas[victim].url], stack)
            calm += await asyncio.gather(*(_stream(engine, "calm", one, asyncio.Event()) for one in names))
            half = asyncio.Event()
            running = [asyncio.create_task(_stream(engine, "hit", one, half)) for one in names]
            await half.wait()
            replicas[victim].kill()
            hit += await asyncio.gather(*running, return_exceptions=True)
    return kill_verdict(calm, hit)


def kill_verdict(calm: Sequence[Stream], hit: Sequence[Stream | BaseException]) -> Verdict:
    done = [(one, before) for one, before in zip(hit, calm, strict=True) if isinstance(one, Stream)]
    silence = max((one.silence_s for one, _ in done), default=0.0)
    figures = {
        "streams": len(hit),
        "lost": len(hit) - len(done),
        "other_ids": sum(one.ids != before.ids for one, before in done),
        "longest_silence_s": round(silence, 2),
        "longest_silence_undisturbed_s": round(max((one.silence_s for one in calm), default=0.0), 2),
    }
    return Verdict("replica-kill", len(done) == len(hit) and silence <= MAX_SILENCE_S, figures)


async def _stream(engine: Engine, kind: str, name: str, half: asyncio.Event) -> Stream:
    """Run one long stream; set ``half`` in its middle."""
    prompt = engine.tokenizer.encode(f"Report {name}:")
    ids: list[int] = []
    silence, last = 0.0, 0.0
    params = GenerateParams(max_tokens=_STREAM_TOKENS, ignore_eos=True)
    async for delta in engine.generate(prompt, params, f"{kind}-{time.time_ns()}-{name}"):
        now = time.monotonic()
        silence, last = max(silence, now - last) if ids else 0.0, now
        ids += delta.token_ids
        if len(ids) > _STREAM_TOKENS // 2:
            half.set()
    return Stream(ids, silence)


def run(names: Sequence[str], args: argparse.Namespace) -> Iterator[Verdict]:
    with ExitStack() as stack:
        own = [] if args.urls else stack.enter_context(vllm_replicas(args.replicas, EMBEDDED_DIR, NAME, _OPTIONS))
        urls = args.urls.split(",") if args.urls else [one.url for one in own[:2]]
        if "cached" in names:
            yield cached(urls, args.answers)
        if "latency" in names:
            yield latency(urls, args.answers)
        if "replica-kill" in names and own:
            yield asyncio.run(replica_kill(own, args.streams, args.group))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=[[], *SCENARIOS])
    parser.add_argument("--urls", default="", help="replicas that run already, for cached and latency")
    parser.add_argument("--replicas", type=int, default=2, help="to start; more of them save starts after a kill")
    parser.add_argument("--answers", type=int, default=8, help="of four resumes each")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--group", type=int, default=34, help="streams at once over the replicas")
    args = parser.parse_args()
    if args.urls and "replica-kill" in args.scenarios:
        parser.error("replica-kill starts its own replicas: leave --urls out")
    # As the replicas have: one core for each engine.
    os.environ.setdefault(THREADS, "0")
    failed = False
    for verdict in run(args.scenarios or SCENARIOS, args):
        print(verdict.line(), flush=True)
        failed |= not verdict.is_met
    sys.exit(failed)


if __name__ == "__main__":
    main()
