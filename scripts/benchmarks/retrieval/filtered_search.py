"""Measure the ways to search under a filter: scoring the rows that pass, scanning all, and searching the structure.

For each type of index and each share of the rows that pass: recall at 10 against a scan, and milliseconds a query, of
"gather" (score the rows that pass), of "scan" (of a copy of all rows that the structure has, skipping the others; the
structure where it has none), of "structure" (search it, skipping the others) and of "rule", the choice that the product
makes. The rows that pass are scattered. Times are processor time, which other work on the machine changes little, the
minimum of ``--repeats`` passes over the queries, one at a time.

    python scripts/benchmarks/retrieval/filtered_search.py [--rows 100000] [--dim 384] [--kinds ivf-rabitq hnsw]
        [--shares 0.001 0.01 0.1 0.5] [--threads 1] [--queries 50]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from retrieval.index.base import Mask, RowFilter, Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import KINDS, FilteredSearch, IndexSpec, Kind
from scripts.benchmarks.retrieval.vector_index import Data, K, least_ms, recall, truth

_DAYS: Final = 10_000
_WAYS: Final[tuple[FilteredSearch | None, ...]] = ("gather", "scan", "structure", None)


def dated(data: Data) -> Iterator[Rows]:
    """Yield the blocks with a day for each row, scattered evenly over ``_DAYS`` days."""
    for block in data.blocks():
        days = np.random.default_rng(int(block.ids[0])).integers(1, _DAYS + 1, len(block.ids)).astype(np.int32)
        yield replace(block, dates=days)


def filter_for(share: float) -> RowFilter:
    return RowFilter(date_from=1, date_to=max(1, round(share * _DAYS)))


def passes(where: RowFilter, rows: Rows) -> Mask:
    assert rows.dates is not None
    return (rows.dates >= where.date_from) & (rows.dates <= where.date_to)


def measure(data: Data, kind: Kind, arguments: argparse.Namespace, folder: Path) -> None:
    spec = IndexSpec(dim=data.dim, metric="inner_product", kind=kind)
    options = OpenOptions(threads=arguments.threads, tail_rows=data.rows)
    index = create_index(folder, spec, options)
    for block in dated(data):
        index.add(block)
    index.commit()
    index.close()
    queries = data.queries(arguments.queries)
    truths = {
        share: truth(dated(data), queries, "inner_product", partial(passes, filter_for(share)))
        for share in arguments.shares
    }
    results: dict[float, list[str]] = {share: [] for share in arguments.shares}
    for way in _WAYS:
        index = open_index(folder, spec, replace(options, filtered=way))
        for share in arguments.shares:
            where, true = filter_for(share), truths[share][0]
            # One at a time as in the timing: for many at once the rule prefers to gather.
            found = np.concatenate([index.search(queries[at : at + 1], K, where).ids for at in range(len(queries))])
            ms = least_ms(partial(index.search, k=K, where=where), queries, 1, arguments, time.process_time)
            results[share].append(f"{recall(found, true):.3f} | {ms:.2f}")
        index.close()
    for share in arguments.shares:
        print(
            f"| {data.rows:,} | {kind} | {share:.1%} | {truths[share][1]:,} | {' | '.join(results[share])} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--kinds", nargs="+", default=["ivf-rabitq"], choices=KINDS)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--spread", type=float, default=2.0, help="distance from a centre over that between centres")
    arguments = parser.parse_args()
    ways = " | ".join(f"recall, {way or 'rule'} | ms, {way or 'rule'}" for way in _WAYS)
    print(f"| rows | type | share | pass | {ways} |\n|{'---|' * (4 + 2 * len(_WAYS))}")
    for rows in arguments.rows:
        for kind in arguments.kinds:
            with tempfile.TemporaryDirectory(prefix="filtered-search-") as folder:
                measure(Data(rows, arguments.dim, arguments.spread), kind, arguments, Path(folder) / "index")


if __name__ == "__main__":
    main()
