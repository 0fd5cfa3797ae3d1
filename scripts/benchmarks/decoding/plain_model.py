"""Compare this server's endpoint for the plain model with ``vllm serve``: same engine, model and requests, in one run.

    python scripts/benchmarks/decoding/plain_model.py --model DIR --clients 1,8,32 --rounds 5 [--pause 0.05]

Both servers run all the time; only one is asked at a time, alternating within each round. A client streams completions
of a fixed number of tokens, one after the other, with ``--pause`` after a random time between them (the same times for
both servers). Without it clients fall into step with each other and the engine, and the time to the first token depends
on where in a step a request arrives, not on the server's cost. Reported for each number of clients: tokens/s, time to
the first token and the processor time of both, and the median over the rounds of ours ÷ vLLM's, with its 95 % interval
(bootstrap over the rounds) and the range. Processor time is that of the server's process for each request, without the
engine's: other work on the machine affects it least. This server logs and counts every request; vLLM does with
``--vllm-logs`` alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.served import running, wait_until_ready

_START_S = 300.0
FIGURES = ("tokens_per_s", "ttft_p50", "ttft_p99", "cpu_ms")


@dataclass(frozen=True)
class Measured:
    """Of one server in one round; seconds. ``cpu_ms``: of its process, without the engine's, for each request."""

    tokens_per_s: float
    ttft_p50: float
    ttft_p99: float
    cpu_ms: float


@dataclass(frozen=True)
class Asked:
    url: str
    pid: int


async def measure(server: Asked, model: str, clients: int, args: argparse.Namespace) -> Measured:
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=server.url, timeout=600, limits=limits, trust_env=False) as http:
        started, worked = time.perf_counter(), cpu_s(server.pid)
        each = max(args.requests // clients, 2)
        pauses = [_pauses(n, each, args.pause) for n in range(clients)]
        found = await asyncio.gather(*(_client(http, model, n, waits, args) for n, waits in enumerate(pauses)))
        seconds, worked = time.perf_counter() - started, cpu_s(server.pid) - worked
    first = sorted(ttft for own in found for ttft, _ in own)
    tokens = sum(count for own in found for _, count in own)
    late = first[min(len(first) - 1, int(len(first) * 0.99))]
    return Measured(tokens / seconds, statistics.median(first), late, 1000 * worked / len(first))


def _pauses(client: int, requests: int, mean: float) -> list[float]:
    """The same in each round and for both servers."""
    drawn = random.Random(client)
    return [drawn.expovariate(1) * mean for _ in range(requests)]


async def _client(
    http: httpx.AsyncClient, model: str, number: int, pauses: Sequence[float], args: argparse.Namespace
) -> list[tuple[float, int]]:
    """(Time to the first token, tokens) of each request."""
    found = []
    for i, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        found.append(await _request(http, _body(model, f"client {number}, request {i}", args)))
    return found


def _body(model: str, name: str, args: argparse.Namespace) -> dict[str, Any]:
    prompt = (f"{name}. " + "Genes and their symbols are listed here. " * 200)[: args.prompt_chars]
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": args.tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _request(http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[float, int]:
    started, first, tokens = time.perf_counter(), 0.0, 0
    async with http.stream("POST", "/v1/completions", json=body) as reply:
        if reply.status_code != 200:
            raise SystemExit(f"{reply.status_code}: {(await reply.aread()).decode()[:300]}")
        async for line in reply.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("choices") and not first:
                first = time.perf_counter() - started
            if chunk.get("usage"):
                tokens = chunk["usage"]["completion_tokens"]
    if tokens != body["max_tokens"]:
        raise SystemExit(f"an answer has {tokens} tokens instead of {body['max_tokens']}")
    return first, tokens


def cpu_s(pid: int) -> float:
    """What a process has used so far, its children not counted."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) * 1e-9


def resident_mb(pid: int) -> float:
    """Of a process and its children, in 10⁶ bytes."""
    total, waiting = 0.0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            # A child belongs to the thread that began it.
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0) * 1.024e-3
    return total


def interval(ratios: Sequence[float], samples: int = 10_000) -> list[float]:
    """Of their median, 95 %: a bootstrap over the rounds."""
    drawn = np.random.default_rng(0).choice(ratios, (samples, len(ratios)))
    return [round(float(edge), 3) for edge in np.quantile(np.median(drawn, axis=1), (0.025, 0.975))]


def compare(ours: list[Measured], theirs: list[Measured]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for name in FIGURES:
        ratios = [getattr(a, name) / getattr(b, name) for a, b in zip(ours, theirs, strict=True)]
        report[name] = {
            "ours": round(statistics.median(getattr(one, name) for one in ours), 4),
            "vllm": round(statistics.median(getattr(one, name) for one in theirs), 4),
            "ratio": round(statistics.median(ratios), 3),
            "interval": interval(ratios),
            "range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    return report


def ratios_of(report: dict[str, Any]) -> list[float]:
    """Of tokens/s, for each number of clients; printed as figures too."""
    found = {clients: row["tokens_per_s"] for clients, row in report.items() if clients.isdigit()}
    for clients, row in found.items():
        print(f"FIGURE tokens/s, ours over vLLM's, {clients} clients={json.dumps(row)}", flush=True)
    return [float(row["ratio"]) for row in found.values()]


async def run(args: argparse.Namespace, servers: dict[str, Asked]) -> dict[str, Any]:
    name = Path(args.model).name
    report: dict[str, Any] = {}
    for clients in map(int, args.clients.split(",")):
        rounds: dict[str, list[Measured]] = {"ours": [], "vllm": []}
        for number in range(args.rounds + 1):
            order = ("ours", "vllm") if number % 2 else ("vllm", "ours")
            for which in order:
                measured = await measure(servers[which], name, clients, args)
                if number:  # the first round warms both up
                    rounds[which].append(measured)
        report[str(clients)] = compare(rounds["ours"], rounds["vllm"]) | {
            "rounds": {which: [asdict(one) for one in found] for which, found in rounds.items()}
        }
        for measure_name in FIGURES:
            print(f"{clients:>3} clients  {measure_name:>12}  {report[str(clients)][measure_name]}", flush=True)
    return report


def commands(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the arguments of Python for this server and for vLLM's own, with the same sizes."""
    name, cache = Path(args.model).name, str(int(args.kv_gib * 2**30))
    ours = ["-m", "server", "serve", "--model", args.model, "--served-name", name]
    ours += ["--engine", "vllm", "--port", str(args.port)]
    # vLLM's own command does not start with its CPU wheel, which goes by another name; its module does.
    theirs = ["-m", "vllm.entrypoints.openai.api_server", "--model", args.model, "--served-model-name", name]
    theirs += ["--port", str(args.port + 1), "--host", "127.0.0.1", "--kv-cache-memory-bytes", cache]
    theirs += ["--scheduling-policy", "priority"]
    theirs += [] if args.vllm_logs else ["--disable-uvicorn-access-log", "--disable-log-stats"]
    if args.gpu_share is None:
        return ours, [*theirs, "--enforce-eager", "--dtype", "float32", "--block-size", "32", "--max-num-seqs", "32"]
    share = ["--gpu-memory-utilization", str(args.gpu_share)]
    return ours + share, theirs + share


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model directory")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--vllm-logs", action="store_true", help="leave vLLM its access log and metrics, as it comes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=32, help="of one round, over all clients")
    parser.add_argument("--tokens", type=int, default=64, help="of one answer")
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds before a request, drawn at random")
    parser.add_argument("--prompt-chars", type=int, default=600)
    parser.add_argument("--kv-gib", type=float, default=0.5)
    parser.add_argument("--gpu-share", type=float, help="of the GPU for each server; without it both run on the CPU")
    parser.add_argument("--port", type=int, default=8300)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--least", type=float, default=0.0, help="exit code 1 where tokens/s are less, ours to vLLM's")
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    port = args.port
    urls = {"ours": f"http://127.0.0.1:{port}", "vllm": f"http://127.0.0.1:{port + 1}"}
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    if args.gpu_share is None:
        quiet["TORCHDYNAMO_DISABLE"] = "1"
    ours, theirs = commands(args)
    with ExitStack() as stack:
        environment = {"ARROWHEAD_MODEL__KV_CACHE_GIB": str(args.kv_gib), "ARROWHEAD_LOG__LEVEL": "INFO"}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children: list[Popen[bytes]] = []
        for command, more, address in (
            (ours, environment, f"{urls['ours']}/ready"),
            (theirs, {}, f"{urls['vllm']}/health"),
        ):
            log = folder / f"{len(children)}.log"
            children.append(stack.enter_context(running(command, os.environ | quiet | more, log)))
            wait_until_ready(children[-1], address, _START_S, log)
        mine, other = children
        report = {"idle_mb": {"ours": resident_mb(mine.pid), "vllm": resident_mb(other.pid)}}
        print(f"memory before the first request, MB: {report['idle_mb']}", flush=True)
        asked = {"ours": Asked(urls["ours"], mine.pid), "vllm": Asked(urls["vllm"], other.pid)}
        report |= asyncio.run(run(args, asked))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))
    if min(ratios_of(report)) < args.least:
        sys.exit(1)


if __name__ == "__main__":
    main()
