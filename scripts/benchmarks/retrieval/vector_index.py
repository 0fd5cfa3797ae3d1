"""Measure each type of vector index: recall at 10 against exact search, time per query, build time, bytes.

Vectors are unit vectors with a few dominant directions, like those of encoders, around one centre for each two hundred;
``--spread`` is their distance from it, which decides whether clusters overlap. Times are of one process with
``--threads`` threads, the minimum of ``--repeats`` passes over the queries.

    python scripts/benchmarks/retrieval/vector_index.py [--rows 200000] [--dim 768] [--kinds flat sq8 ...]
        [--backend faiss] [--metric inner_product] [--threads 1] [--queries 200]
        [--probe-share 0.0625 0.25]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Floats, Metric
from retrieval.index.backends.base import EXTRA_CANDIDATES, exact_top_k, merge_hits
from retrieval.index.base import Ids, Mask, RowFilter, Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.index import SegmentedIndex
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import KINDS, IndexSpec, Kind, estimate

K: Final = 10
Search = Callable[[Floats], object]
Clock = Callable[[], float]
_BLOCK: Final = 20_000
_PER_CLUSTER: Final = 200
_LATENT: Final = 128
_NOISE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Result:
    """Times in milliseconds per query and seconds; bytes per vector."""

    name: str
    build_s: float
    recall: float = 0.0
    ms_one: float = 0.0
    ms_batch: float = 0.0
    filtered_recall: float = 0.0
    filtered_ms: float = 0.0
    estimated: float = 0.0
    disk: float = 0.0

    def line(self) -> str:
        return (
            f"| {self.name} | {self.build_s:.1f} | {self.recall:.3f} | {self.ms_one:.3f} | {self.ms_batch:.3f} "
            f"| {self.filtered_recall:.3f} | {self.filtered_ms:.2f} | {self.estimated:.0f} | {self.disk:.0f} |"
        )


HEADER: Final = (
    "| type | build s | recall@10 | ms/query, batch 1 | ms/query, batch 32 | recall@10, 1 of 5 | ms/query, 1 of 5 "
    "| bytes/vector in memory (estimate) | bytes/vector on disk |\n|---|---|---|---|---|---|---|---|---|"
)


class Data:
    """Blocks of vectors, each the same whenever it is asked for, so that none need be kept."""

    def __init__(self, rows: int, dim: int, spread: float) -> None:
        self.rows, self.dim, self._spread = rows, dim, np.float32(spread)
        rng, latent = np.random.default_rng(1), min(_LATENT, dim)
        self._scales = (np.arange(1, latent + 1) ** -0.5).astype(np.float32)
        self._centres = rng.standard_normal((max(1, rows // _PER_CLUSTER), latent), np.float32)
        self._axes = (rng.standard_normal((latent, dim), np.float32) / np.sqrt(dim)).astype(np.float32)

    def blocks(self) -> Iterator[Rows]:
        for start in range(0, self.rows, _BLOCK):
            count = min(_BLOCK, self.rows - start)
            ids = np.arange(start + 1, start + count + 1, dtype=np.int64)
            yield Rows(ids=ids, vectors=self._drawn(count, start + 2), namespaces=(ids % 5).astype(np.int32))

    def queries(self, count: int) -> Floats:
        return self._drawn(count, 0)

    def _drawn(self, count: int, seed: int) -> Floats:
        rng = np.random.default_rng(seed)
        centres = self._centres[rng.integers(len(self._centres), size=count)]
        points = (centres + self._spread * rng.standard_normal(centres.shape, np.float32)) * self._scales
        drawn = points @ self._axes + rng.standard_normal((count, self.dim), np.float32) * np.float32(
            _NOISE / np.sqrt(self.dim)
        )
        unit: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return unit


def truth(
    blocks: Iterable[Rows], queries: Floats, metric: Metric, passes: Callable[[Rows], Mask] = lambda rows: rows.ids > 0
) -> tuple[Ids, int]:
    """Return the nearest rows that pass, by a scan of every block, and how many pass."""
    parts, count = [], 0
    for block in blocks:
        rows = np.flatnonzero(passes(block))
        count += len(rows)
        found, scores = exact_top_k(metric, queries, block.vectors, rows, K)
        parts.append((np.where(found < 0, -1, block.ids[found]), scores))
    return merge_hits(parts, len(queries), K).ids, count


def recall(found: Ids, true: Ids) -> float:
    """Return the mean share of the true rows that were found; a place without a row counts as one."""
    pairs = [(set(f.tolist()), set(t.tolist())) for f, t in zip(found, true, strict=True)]
    return float(np.mean([len(some & wanted) / len(wanted) for some, wanted in pairs]))


def measure(
    data: Data, kind: Kind, arguments: argparse.Namespace, folder: Path, truths: Sequence[Ids]
) -> Iterator[Result]:
    """One build; one result for each share of the lists where the type has lists."""
    spec = IndexSpec(dim=data.dim, metric=arguments.metric, kind=kind, backend=arguments.backend)
    options = OpenOptions(threads=arguments.threads, device=arguments.device, tail_rows=data.rows)
    started = time.perf_counter()
    index = create_index(folder, spec, options)
    for block in data.blocks():
        index.add(block)
    index.commit()
    build_s = time.perf_counter() - started
    index.close()
    shares = arguments.probe_share if kind.startswith("ivf") else [1.0]
    for share in shares:
        index = open_index(folder, spec, replace(options, probe_share=share))
        name = f"{kind}, {share:g} of the lists" if kind.startswith("ivf") else kind
        yield searched(index, data, arguments, truths, Result(name=name, build_s=build_s))
        index.close()


def searched(
    index: SegmentedIndex, data: Data, arguments: argparse.Namespace, truths: Sequence[Ids], result: Result
) -> Result:
    queries, where = data.queries(arguments.queries), RowFilter(namespaces=frozenset({0}))
    kind = next(iter(index.stats().detail["kinds"].values()))
    return replace(
        result,
        recall=recall(index.search(queries, K).ids, truths[0]),
        ms_one=least_ms(lambda some: index.search(some, K), queries, 1, arguments),
        ms_batch=least_ms(lambda some: index.search(some, K), queries, 32, arguments),
        filtered_recall=recall(index.search(queries, K, where).ids, truths[1]),
        filtered_ms=least_ms(lambda some: index.search(some, K, where), queries, 1, arguments),
        estimated=estimate(kind, data.rows, data.dim).memory / data.rows,
        disk=index.stats().bytes_disk / data.rows,
    )


def bare(data: Data, arguments: argparse.Namespace, result: Result) -> Result:
    """FAISS's flat index of 16 bits alone, asked for as many candidates as an index rescores."""
    import faiss

    faiss.omp_set_num_threads(arguments.threads)
    metric = faiss.METRIC_INNER_PRODUCT if arguments.metric == "inner_product" else faiss.METRIC_L2
    index = faiss.IndexScalarQuantizer(data.dim, faiss.ScalarQuantizer.QT_fp16, metric)
    for block in data.blocks():
        index.add_sa_codes(block.vectors.astype(np.float16).view(np.uint8))
    queries, k = data.queries(arguments.queries), K + EXTRA_CANDIDATES
    return replace(
        result,
        ms_one=least_ms(lambda some: index.search(some, k), queries, 1, arguments),
        ms_batch=least_ms(lambda some: index.search(some, k), queries, 32, arguments),
    )


def least_ms(
    search: Search, queries: Floats, size: int, arguments: argparse.Namespace, clock: Clock = time.perf_counter
) -> float:
    """Return the milliseconds of a query in the fastest pass over all, ``size`` at a time."""
    times: list[float] = []
    for _ in range(arguments.repeats):
        started = clock()
        for at in range(0, len(queries), size):
            search(queries[at : at + size])
        times.append(clock() - started)
    return min(times) * 1_000 / len(queries)


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
    parser.add_argument("--probe-share", type=float, nargs="+", default=[0.0625, 0.25])
    parser.add_argument("--spread", type=float, default=2.0, help="distance from a centre over that between centres")
    parser.add_argument("--folder", type=Path, help="where the indices are built; a temporary folder otherwise")
    arguments = parser.parse_args()
    data = Data(arguments.rows, arguments.dim, arguments.spread)
    queries = data.queries(arguments.queries)
    one_of_five, _ = truth(data.blocks(), queries, arguments.metric, lambda rows: rows.ids % 5 == 0)
    truths = [truth(data.blocks(), queries, arguments.metric)[0], one_of_five]
    title = (
        f"{arguments.rows:,} x {arguments.dim}, {arguments.metric}, {arguments.backend}, {arguments.threads} threads"
    )
    print(f"{title}\n\n{HEADER}")
    if arguments.backend == "faiss" and "flat" in arguments.kinds:
        print(bare(data, arguments, Result(name="FAISS, flat, alone", build_s=0)).line(), flush=True)
    for kind in arguments.kinds:
        with tempfile.TemporaryDirectory(prefix="vector-index-", dir=arguments.folder) as home:
            for result in measure(data, kind, arguments, Path(home) / kind, truths):
                print(result.line(), flush=True)


if __name__ == "__main__":
    main()
