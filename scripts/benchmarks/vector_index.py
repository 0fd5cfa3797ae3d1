"""What each type of vector index costs and finds: recall at 10 against exact search, time per query, build, bytes.

Vectors are unit vectors in clusters of fifty, as encoders' are and random ones are not. Times are of one process with
``--threads`` threads, the least of ``--repeats`` passes over the queries.

    python scripts/benchmarks/vector_index.py [--rows 200000] [--dim 768] [--kinds flat sq8 ...] [--backend faiss]
        [--metric inner_product] [--threads 1] [--queries 200] [--probe-share 0.25] [--plot recall.png]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.encoders.base import Floats
from retrieval.index import scoring
from retrieval.index.base import Ids, RowFilter, Rows
from retrieval.index.ledger import estimate
from retrieval.index.open import create_index, open_index
from retrieval.index.options import OpenOptions
from retrieval.index.spec import KINDS, IndexSpec, Kind

K: Final = 10
_BLOCK: Final = 20_000
_PER_CLUSTER: Final = 50
_SPREAD: Final = 0.9


@dataclass(frozen=True, slots=True)
class Result:
    """Times in milliseconds per query and seconds; bytes per vector."""

    kind: Kind
    build_s: float
    recall: float
    ms_one: float
    ms_batch: float
    filtered_recall: float
    filtered_ms: float
    estimated: float
    disk: float

    def line(self) -> str:
        return (
            f"| {self.kind} | {self.build_s:.1f} | {self.recall:.3f} | {self.ms_one:.2f} | {self.ms_batch:.2f} "
            f"| {self.filtered_recall:.3f} | {self.filtered_ms:.2f} | {self.estimated:.0f} | {self.disk:.0f} |"
        )


HEADER: Final = (
    "| type | build s | recall@10 | ms/query, batch 1 | ms/query, batch 32 | recall@10, 1 of 5 | ms/query, 1 of 5 "
    "| bytes/vector in memory (estimate) | bytes/vector on disk |\n|---|---|---|---|---|---|---|---|---|"
)


class Data:
    """Blocks of vectors, each the same whenever it is asked for, so that none need be kept."""

    def __init__(self, rows: int, dim: int) -> None:
        self.rows, self.dim = rows, dim
        self._centres = np.random.default_rng(1).standard_normal((max(1, rows // _PER_CLUSTER), dim), np.float32)
        self._centres /= np.linalg.norm(self._centres, axis=1, keepdims=True)

    def blocks(self) -> Iterator[Rows]:
        for start in range(0, self.rows, _BLOCK):
            count = min(_BLOCK, self.rows - start)
            ids = np.arange(start + 1, start + count + 1, dtype=np.int64)
            yield Rows(ids=ids, vectors=self._drawn(count, start + 2), namespaces=(ids % 5).astype(np.int32))

    def queries(self, count: int) -> Floats:
        return self._drawn(count, 0)

    def _drawn(self, count: int, seed: int) -> Floats:
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((count, self.dim), np.float32) * np.float32(_SPREAD / np.sqrt(self.dim))
        drawn = self._centres[rng.integers(len(self._centres), size=count)] + noise
        unit: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return unit


def truth(data: Data, queries: Floats, metric: str, one_of_five: bool) -> Ids:
    """By scanning every block."""
    parts = []
    for block in data.blocks():
        rows = np.flatnonzero(block.ids % 5 == 0) if one_of_five else np.arange(len(block.ids))
        found, scores = scoring.scanned(metric, queries, block.vectors, rows, K)  # type: ignore[arg-type]
        parts.append((block.ids[found], scores))
    return scoring.merged(parts, len(queries), K).ids


def recall(found: Ids, true: Ids) -> float:
    return float(np.mean([len(set(f.tolist()) & set(t.tolist())) / K for f, t in zip(found, true, strict=True)]))


def measure(data: Data, kind: Kind, arguments: argparse.Namespace, folder: Path, truths: Sequence[Ids]) -> Result:
    spec = IndexSpec(dim=data.dim, metric=arguments.metric, kind=kind, backend=arguments.backend)
    options = OpenOptions(
        threads=arguments.threads, device=arguments.device, probe_share=arguments.probe_share, tail_rows=data.rows
    )
    started = time.perf_counter()
    index = create_index(folder, spec, options)
    for block in data.blocks():
        index.add(block)
    index.commit()
    build_s = time.perf_counter() - started
    index.close()
    index = open_index(folder, spec, options)
    queries, where = data.queries(arguments.queries), RowFilter(namespaces=frozenset({0}))
    found = index.search(queries, K).ids
    filtered = index.search(queries, K, where).ids
    one = _least_ms(lambda: [index.search(queries[i : i + 1], K) for i in range(len(queries))], arguments)
    batch = _least_ms(lambda: [index.search(queries[i : i + 32], K) for i in range(0, len(queries), 32)], arguments)
    narrow = _least_ms(lambda: [index.search(queries[i : i + 1], K, where) for i in range(len(queries))], arguments)
    disk = index.stats().bytes_disk
    index.close()
    needed = estimate(kind, data.rows, data.dim).memory
    return Result(
        kind, build_s, recall(found, truths[0]), one, batch, recall(filtered, truths[1]), narrow,
        needed / data.rows, disk / data.rows,
    )  # fmt: skip


def _least_ms(work: Callable[[], object], arguments: argparse.Namespace) -> float:
    times: list[float] = []
    for _ in range(arguments.repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times) * 1_000 / int(arguments.queries)


def plot(results: Sequence[Result], path: Path, title: str) -> None:
    """Recall over time per query, one point for each type."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for result in results:
        axes.scatter(result.ms_one, result.recall)
        axes.annotate(result.kind, (result.ms_one, result.recall), textcoords="offset points", xytext=(6, 3))
    axes.set(xscale="log", xlabel="ms per query, one at a time", ylabel="recall at 10", title=title)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--backend", default="faiss", choices=("faiss", "faiss-gpu", "torch"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--metric", default="inner_product", choices=("inner_product", "l2"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--probe-share", type=float, default=0.25)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--folder", type=Path, help="where the indices are built; a temporary folder otherwise")
    arguments = parser.parse_args()
    data = Data(arguments.rows, arguments.dim)
    queries = data.queries(arguments.queries)
    truths = [truth(data, queries, arguments.metric, part) for part in (False, True)]
    title = (
        f"{arguments.rows:,} x {arguments.dim}, {arguments.metric}, {arguments.backend}, {arguments.threads} threads"
    )
    print(f"{title}, {arguments.probe_share:g} of the lists\n\n{HEADER}")
    home = Path(tempfile.mkdtemp(prefix="vector-index-", dir=arguments.folder))
    results = []
    try:
        for kind in arguments.kinds:
            results.append(measure(data, kind, arguments, home / kind, truths))
            shutil.rmtree(home / kind)
            print(results[-1].line(), flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if arguments.plot is not None:
        plot(results, arguments.plot, title)


if __name__ == "__main__":
    main()
