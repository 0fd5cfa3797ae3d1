"""Measure a graph of invented edges: build time, query time and memory.

python -m scripts.benchmarks.retrieval.graph_store --edges 1000000 --folder /tmp/graphs
"""

from __future__ import annotations

import argparse
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.encoders.registry import create_encoder
from retrieval.graph.store.catalog import ImportRequest, build_graph
from retrieval.graph.store.files import verify
from retrieval.graph.store.reader import LocalGraph

_ASKED = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--encoder", default="hashing")
    parser.add_argument("--folder", type=Path, required=True, help="is made, and removed afterwards")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    try:
        _measure(args)
    finally:
        shutil.rmtree(args.folder)


def _measure(args: argparse.Namespace) -> None:
    files = args.folder / "nodes.tsv", args.folder / "edges.tsv"
    for path, lines in zip(files, (_nodes(args.nodes), _edges(args.edges, args.nodes)), strict=True):
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    encoder = create_encoder(args.encoder)
    seen: dict[str, float] = {}
    _say("start")
    started = time.perf_counter()
    order = ImportRequest(kind="tsv", files=files, name="bench")
    built = build_graph(args.folder, order, encoder, lambda step, _: seen.update({step: time.perf_counter()}))
    print({step: round(at - started, 1) for step, at in seen.items()})
    _say(f"built {built.manifest.edges:,} edges in {time.perf_counter() - started:.1f} s")
    graph = LocalGraph(args.folder / "bench", encoder.fingerprint)
    took = [_ask(graph, n) for n in np.random.default_rng(0).integers(0, args.nodes // 2, _ASKED)]
    _say(
        f"a node's statements and vectors: median {np.median(took) * 1e3:.2f} ms, "
        f"p99 {np.quantile(took, 0.99) * 1e3:.2f} ms"
    )
    started = time.perf_counter()
    faults = verify(args.folder / "bench")[1]
    _say(f"verified in {time.perf_counter() - started:.1f} s, faults {faults}")


def _ask(graph: LocalGraph, n: int) -> float:
    started = time.perf_counter()
    found = graph.statements(f"Disease::D{n}")
    graph.vectors([statement.row for statement in found])
    return time.perf_counter() - started


def _nodes(count: int) -> Iterator[str]:
    yield "kind\tidentifier\tname\tsynonyms"
    for n in range(count // 2):
        yield f"Disease\tD{n}\tinvented disease {n}\tillness {n}"
        yield f"Gene\tG{n}\tGENE{n}\t"


def _edges(count: int, nodes: int) -> Iterator[str]:
    """Far apart from one row to the next, as in a real file that is sorted by something else."""
    yield "source\tkind\ttarget\tprovenance\tpmids\tevidence\tlicence"
    half = nodes // 2
    for n in range(count):
        ends = f"Disease::D{n * 7919 % half}\tASSOCIATES_DaG\tGene::G{(n // half * 104_729 + n) % half}"
        yield f'{ends}\tGWAS Catalog\t{n}\t{{"gwas_pvalue":1e-9,"snp":"rs{n}"}}\tCC BY 4.0'


def _say(what: str) -> None:
    print(f"{what}; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
