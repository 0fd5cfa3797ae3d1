"""Measure the vectors of SPOKE's statements: encoded anew at every question, against cached ones.

    python scripts/benchmarks/retrieval/spoke_vectors.py [--edges 113,500] [--repeat 5]

One encoder, one thread, made-up neighbourhoods with names about as long as real ones. "anew" encodes every sentence,
"first" is a question that finds none cached, "again" one that finds all, "four at once" four concurrent questions that
find none; medians in wall milliseconds, without the question's own vector. Cached vectors must give the same order as
those of the encoder (except for float16 ties), or the run fails.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Encoder, EncoderOptions, Floats, PassageText
from models.encoders.registry import create_encoder
from scripts.benchmarks.retrieval.kg_context import QUESTIONS, neighbourhood
from server.evidence.graph import StatementVectors

# What float16 rounds away of a product of unit vectors.
_ROUNDING = 2e-3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", default="113,500")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    encoder = create_encoder("minilm", EncoderOptions(device="cpu", dtype="float32", threads=args.threads))
    print("| statements | anew ms | first ms | again ms | four at once ms | kept bytes |\n|---|---|---|---|---|---|")
    for number in map(int, args.edges.split(",")):
        texts = [statement.text for statement in neighbourhood(number).statements]
        print(asyncio.run(row_of(encoder, texts, args.repeat)), flush=True)
    return 0


async def row_of(encoder: Encoder, texts: Sequence[str], repeat: int) -> str:
    async def encode(part: Sequence[str]) -> Floats:
        return await asyncio.to_thread(encoder.encode_passages, [PassageText("", text) for text in part])

    def fresh() -> StatementVectors:
        return StatementVectors(encoder.fingerprint.as_dict(), encode)

    async def four() -> None:
        new = fresh()
        await asyncio.gather(*(new.of(texts) for _ in range(4)))

    kept = fresh()
    check(encoder.encode_queries(list(QUESTIONS)), await encode(texts), await kept.of(texts))
    cells = [
        f"{await median(lambda: encode(texts), repeat):.0f}",
        f"{await median(lambda: fresh().of(texts), repeat):.0f}",
        f"{await median(lambda: kept.of(texts), 20 * repeat):.2f}",
        f"{await median(four, repeat):.0f}",
    ]
    return f"| {len(texts)} | {' | '.join(cells)} | {kept.num_bytes} |"


def check(questions: Floats, exact: Floats, kept: Floats) -> None:
    if not np.allclose(questions @ exact.T, questions @ kept.T, atol=_ROUNDING):
        raise SystemExit("kept vectors are not the encoder's")


async def median(call: Callable[[], Awaitable[object]], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        await call()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
