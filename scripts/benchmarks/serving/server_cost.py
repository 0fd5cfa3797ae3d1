"""Measure what an answer costs a running server: processor time and memory of its process.

    python scripts/benchmarks/serving/server_cost.py --url http://127.0.0.1:8000 --pid PID [--answers 200]

For a server with the remote engine this is all that an answer costs beside its replicas. The first answers are not
counted. Processor time is that of all threads of the process, so other work on the machine changes it little.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.benchmarks.serving.streams import Target

_QUESTION = "What is the official gene symbol of LMP10?"
_SAMPLED = 'origin="sampled"'


@dataclass(frozen=True, slots=True)
class Level:
    """A process's processor time and resident memory, and its server's count of sampled tokens."""

    processor_s: float
    resident_mib: float
    tokens: float


def level(url: str, pid: int) -> Level:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    tokens = sum(
        float(line.split()[-1]) for line in lines if line.startswith("arrowhead_tokens_total") and _SAMPLED in line
    )
    processor_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Level(processor_s, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, tokens)


async def ask(url: str, model: str, answers: int, at_once: int) -> int:
    """Ask in streams, so many at once, and return how many answers ended well."""
    target, places = Target(url), asyncio.Semaphore(at_once)
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": _QUESTION}]}

    async def one() -> bool:
        async with places:
            outcome = await target.ask(body)
        return outcome.done and not outcome.error

    return sum(await asyncio.gather(*(one() for _ in range(answers))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--model", default="arrowhead-tiny:genegpt")
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=16)
    given = parser.parse_args()
    asyncio.run(ask(given.url, given.model, given.at_once, given.at_once))
    before = level(given.url, given.pid)
    done = asyncio.run(ask(given.url, given.model, given.answers, given.at_once))
    after = level(given.url, given.pid)
    spent, tokens = after.processor_s - before.processor_s, after.tokens - before.tokens
    print(f"{done} of {given.answers} answers, {tokens / max(done, 1):.0f} sampled tokens each")
    print(f"ms of processor: {1000 * spent / max(done, 1):.1f} an answer, {1000 * spent / max(tokens, 1):.2f} a token")
    print(f"memory: {before.resident_mib:.0f} -> {after.resident_mib:.0f} MiB")


if __name__ == "__main__":
    main()
