"""Compare FAISS's flat search on the GPU with the speed at which the GPU copies memory, its upper bound for one query.

    python -m scripts.gpu.flat_scan --rows 1000000 --dim 768

A flat search reads every vector once, in 16 bits. Fails if the hits are not those of an exact search.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.index.base import Rows
from retrieval.index.open import create_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec
from scripts.gpu.serving import figure

_K = 10
_LEAST_RECALL = 0.99
_QUERIES = 64
_BYTES = 2
# Rows of one call; an index takes no more at once than 262,144.
_BATCH = 200_000


def median_s(work: Callable[[], object], repeats: int = 20) -> float:
    """The median of the seconds of ``work``, after one run that warms up."""
    work()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def copy_speed(torch: Any, num_bytes: int) -> float:
    """Bytes a second that the GPU reads while it copies within its memory; it writes as many."""
    source = torch.empty(num_bytes, dtype=torch.uint8, device="cuda:0")
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        torch.cuda.synchronize()

    return num_bytes / median_s(copy)


def recall(found: Any, exact: Any) -> float:
    """The share of the exact hits that were found, over all queries."""
    return float(np.mean([len(set(one) & set(other)) / len(other) for one, other in zip(found, exact, strict=True)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=768)
    args = parser.parse_args()
    import torch

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((args.rows, args.dim), dtype=np.float32)
    queries = rng.standard_normal((_QUERIES, args.dim), dtype=np.float32)
    with tempfile.TemporaryDirectory(prefix="flat-scan-") as folder:
        spec = IndexSpec(dim=args.dim, metric="inner_product", kind="flat", backend="faiss-gpu")
        index = create_index(Path(folder) / "index", spec, OpenOptions(device="cuda:0"))
        for start in range(0, args.rows, _BATCH):
            some = vectors[start : start + _BATCH]
            index.add(Rows(ids=np.arange(start + 1, start + len(some) + 1, dtype=np.int64), vectors=some))
        index.commit()
        one = median_s(lambda: index.search(queries[:1], _K))
        many = median_s(lambda: index.search(queries, _K))
        found = index.search(queries, _K).ids
        index.close()
    scores = torch.from_numpy(queries).cuda() @ torch.from_numpy(vectors).cuda().T
    exact = scores.topk(_K).indices.cpu().numpy() + 1
    size = args.rows * args.dim * _BYTES
    speed, share = copy_speed(torch, size), recall(found, exact)
    figure("vectors", f"{args.rows:,} x {args.dim}, {size / 1e9:.2f} GB")
    figure("one query", f"{one * 1e3:.2f} ms, {size / one / 1e9:.0f} GB/s")
    figure("64 queries", f"{many * 1e3:.2f} ms")
    figure("the GPU reads while copying", f"{speed / 1e9:.0f} GB/s")
    figure("one query over the copy", f"{size / one / speed:.2f}")
    figure("recall@10", f"{share:.4f}")
    return 0 if share >= _LEAST_RECALL else 1


if __name__ == "__main__":
    raise SystemExit(main())
