"""Measure the cost of waiting: many questions at once against an NCBI that takes half a second per reply.

    python scripts/benchmarks/decoding/concurrency.py QUESTIONS.jsonl --upstream http://127.0.0.1:8081 \\
        --questions 32 --delay 0.5

The upstream is a loopback NCBI (the replay server, or `arrowhead gateway serve`). Two server processes answer the same
questions at once, one with the delay on every call and one without (pure decode). Pure call time is that of the same
calls without any model: all chains of calls at once, the calls of one chain in sequence. Reported: the total against
the slower of the two, and whether every answer is the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def process(arguments: list[str], environment: dict[str, str], url: str) -> Iterator[None]:
    """Run a server until the block ends; the block starts when the server answers."""
    child = subprocess.Popen([sys.executable, *arguments], env=os.environ | environment, cwd=ROOT)
    try:
        for _ in range(600):
            try:
                if httpx.get(url, timeout=2, trust_env=False).status_code < 500:
                    break
            except httpx.HTTPError:
                pass
            if child.poll() is not None:
                raise SystemExit(f"{arguments[0]} ended with {child.returncode}")
            time.sleep(0.2)
        yield
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def serving(args: argparse.Namespace, delay: float, port: int) -> Iterator[str]:
    """A proxy with the delay and an Arrowhead server that calls it; yields the server's address."""
    proxy = f"http://127.0.0.1:{port + 1}"
    forward = [
        "scripts/benchmarks/serving/slow_proxy.py",
        "--to",
        args.upstream,
        "--port",
        str(port + 1),
        "--delay",
        str(delay),
    ]
    settings = {
        "ARROWHEAD_NCBI__EUTILS_URL": proxy,
        "ARROWHEAD_NCBI__BLAST_URL": proxy,
        "ARROWHEAD_SERVER__PORT": str(port),
        "XDG_CACHE_HOME": tempfile.mkdtemp(),
    }
    ready = f"http://127.0.0.1:{port}/ready"
    with process(forward, {}, proxy), process(["-m", "server", "serve", "--engine", args.engine], settings, ready):
        yield f"http://127.0.0.1:{port}"


async def ask_all(base: str, questions: list[str]) -> tuple[float, list[tuple[str, list[str]]]]:
    """Seconds for all, and each answer with the URLs of its calls."""
    client = AsyncOpenAI(base_url=f"{base}/v1", api_key="none", timeout=900, max_retries=0)

    async def one(question: str) -> str:
        message = [{"role": "user", "content": question}]
        done = await client.chat.completions.create(model=MODEL, messages=message, temperature=0)  # type: ignore[arg-type]
        return done.id

    await one(questions[0])  # loads what is loaded lazily
    began = time.monotonic()
    idents = await asyncio.gather(*map(one, questions))
    seconds = time.monotonic() - began
    async with httpx.AsyncClient(trust_env=False) as http:
        traces = [(await http.get(f"{base}/v1/traces/{ident}")).json()["choices"][0] for ident in idents]
    return seconds, [(trace["answer"], [call["url"] for call in trace["calls"]]) for trace in traces]


async def call_time(upstream: str, chains: list[list[str]]) -> float:
    """Seconds for all chains at once, the calls of a chain one after the other, through the same delay."""
    async with httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=256)) as http:

        async def one(chain: list[str]) -> None:
            for url in chain:
                reply = await http.get(re.sub(r"^https://[^/]+(/entrez/eutils)?", upstream, url))
                if "CMD=Put" in url and (rid := re.search(r"RID = (\S+)", reply.text)):
                    for form in ("FORMAT_OBJECT=SearchInfo", "FORMAT_TYPE=Text"):
                        await http.get(f"{upstream}/Blast.cgi?CMD=Get&{form}&RID={rid[1]}")

        began = time.monotonic()
        await asyncio.gather(*map(one, chains))
        return time.monotonic() - began


MODEL = "arrowhead-tiny:genegpt"


def run(args: argparse.Namespace) -> dict[str, Any]:
    rows = [json.loads(line) for line in args.questions_file.read_text().splitlines() if line.strip()]
    step = max(1, len(rows) // args.questions)
    questions = [row["question"] for row in rows[::step]][: args.questions]
    with serving(args, 0.0, args.port) as base:
        decode, fast = asyncio.run(ask_all(base, questions))
    with serving(args, args.delay, args.port + 10) as base:
        total, slow = asyncio.run(ask_all(base, questions))
        calls = asyncio.run(call_time(base.replace(str(args.port + 10), str(args.port + 11)), [c for _, c in slow]))
    return {
        "questions": len(questions),
        "answers_lost": sum(not answer for answer, _ in slow),
        "answers_that_differ": sum(a[0] != b[0] for a, b in zip(fast, slow, strict=True)),
        "calls": sum(len(chain) for _, chain in slow),
        "pure_decode_s": round(decode, 2),
        "pure_call_s": round(calls, 2),
        "total_s": round(total, 2),
        "ratio": round(total / max(decode, calls), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions_file", type=Path)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--delay", type=float, default=0.5, help="seconds")
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--port", type=int, default=8600, help="this port and the next twelve are used")
    print(json.dumps(run(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
