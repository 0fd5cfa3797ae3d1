"""Measure the BM25 index: passages indexed per second, milliseconds per query, bytes on disk.

    python scripts/benchmarks/retrieval/lexical.py [--passages 100000] [--words 200] [--queries 20]

Passages are made-up abstracts, committed ten thousand at a time. Short queries have 5 words, long ones 60, drawn with
the text's word frequencies; filtered ones are short and select ten of thirty years.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from retrieval.index.base import RowFilter
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.tantivy_index import open_tantivy
from retrieval.lexical.tokens import index_terms
from scripts.benchmarks.decoding.synthetic_text import TextMaker

COMMIT_EVERY = 10_000
SHORT, LONG, K = 5, 60, 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--vocabulary", type=int, default=250_000)
    options = parser.parse_args()
    print(f"{options.passages} passages of {options.words} words, {_tokenizer_speed(options)}\n")
    print("| indexed/s | of that CPU s | disk MB | short ms | long ms | filtered ms | replace 1000 | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        print(_row(Path(folder) / "index", options))
    return 0


def _row(folder: Path, options: argparse.Namespace) -> str:
    maker = TextMaker(options.vocabulary)
    index = open_tantivy(folder)
    wall_s = cpu_s = 0.0
    for first in range(1, options.passages + 1, COMMIT_EVERY):
        batch = list(maker.passages(min(COMMIT_EVERY, options.passages + 1 - first), options.words, first))
        start, start_cpu = time.perf_counter(), time.process_time()
        index.add(batch)
        index.commit()
        wall_s += time.perf_counter() - start
        cpu_s += time.process_time() - start_cpu
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    years = RowFilter(date_from=20000000, date_to=20091231)
    queries = [(maker.text(SHORT), maker.text(LONG)) for _ in range(options.queries)]
    times = [
        [_ms(index, query, where) for query in group]
        for group, where in (
            ([short for short, _ in queries], None),
            ([long for _, long in queries], None),
            ([short for short, _ in queries], years),
        )
    ]
    again = list(maker.passages(min(1000, options.passages), options.words))
    start = time.perf_counter()
    index.add(again)
    index.commit()
    replace_s = time.perf_counter() - start
    index.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    middle = " | ".join(f"{statistics.median(group):.1f}" for group in times)
    speed = f"{options.passages / wall_s:.0f} | {cpu_s:.0f}"
    return f"| {speed} | {disk / 1e6:.0f} | {middle} | {replace_s:.2f} s | {peak:.0f} |"


def _ms(index: LexicalIndex, query: str, where: RowFilter | None) -> float:
    start = time.perf_counter()
    index.search(query, K, where)
    return (time.perf_counter() - start) * 1e3


def _tokenizer_speed(options: argparse.Namespace) -> str:
    maker = TextMaker(options.vocabulary)
    texts = [maker.text(options.words) for _ in range(2000)]
    start = time.perf_counter()
    for text in texts:
        index_terms(text)
    spent = time.perf_counter() - start
    return f"tokenizer {sum(map(len, texts)) / spent / 1e6:.1f} million characters/s"


if __name__ == "__main__":
    sys.exit(main())
