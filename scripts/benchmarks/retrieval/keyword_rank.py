"""Compare PES2 over a positional index with counting by pattern: milliseconds per question, and the ratio.

    python scripts/benchmarks/retrieval/keyword_rank.py [--chunks 50000] [--questions 5] [--keywords 4]

Chunks are made-up text of about 2,000 characters. Keywords are names, single words and pairs of words that occur.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from retrieval.lexical.keyword_frequency.index import KeywordIndex, open_keyword_index
from retrieval.lexical.keyword_frequency.pes2 import KeywordTable, count_by_pattern, rank_by_keywords
from retrieval.passages import Passage
from scripts.benchmarks.decoding.synthetic_text import TextMaker

CHARACTERS = 2000
T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--keywords", type=int, default=4)
    options = parser.parse_args()
    maker = TextMaker(100_000)
    chunks = list(_chunks(maker, options.chunks))
    questions = _questions(chunks, options.questions, options.keywords)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index, build_s = _timed(lambda: _built(path, chunks))
        disk = sum(file.stat().st_size for file in path.iterdir())
        fast = [_timed(partial(_best, index.count, words))[1] for words in questions]
        slow = [_timed(partial(_best, partial(count_by_pattern, chunks), words))[1] for words in questions]
        _, update_s = _timed(lambda: _updated(index, chunks[:1000]))
        index.close()
    ratios = [slow_s / fast_s for slow_s, fast_s in zip(slow, fast, strict=True)]
    print(
        f"| chunks | build chunks/s | disk MB | index ms | pattern ms | ratio (lowest) | replace {len(chunks[:1000])} |"
    )
    print("|---|---|---|---|---|---|---|")
    times = f"{statistics.median(fast) * 1e3:.1f} | {statistics.median(slow) * 1e3:.0f}"
    ratio = f"{statistics.median(ratios):.0f} ({min(ratios):.0f})"
    print(f"| {len(chunks)} | {len(chunks) / build_s:.0f} | {disk / 1e6:.0f} | {times} | {ratio} | {update_s:.1f} s |")
    return 0


def _chunks(maker: TextMaker, count: int) -> list[Passage]:
    return [
        Passage(passage_id=number, document_id="d", title="", text=maker.text(300)[:CHARACTERS])
        for number in range(1, count + 1)
    ]


def _questions(chunks: list[Passage], count: int, keywords: int) -> list[list[str]]:
    """From the words of random chunks, edges of sentences cut off: what people ask for occurs."""
    rng = random.Random(7)
    out = []
    for _ in range(count):
        words = []
        for place in range(keywords):
            text = rng.choice(chunks).text.replace(".", "").replace("(", "").replace(")", "").split()
            at = rng.randrange(len(text) - 2)
            words.append(" ".join(text[at : at + 1 + place % 2]))
        out.append(words)
    return out


def _built(path: Path, chunks: list[Passage]) -> KeywordIndex:
    index = open_keyword_index(path)
    index.add(chunks)
    index.commit()
    return index


def _updated(index: KeywordIndex, chunks: list[Passage]) -> None:
    index.add(chunks)
    index.commit()


def _best(count: Callable[[list[str]], KeywordTable], keywords: list[str]) -> list[int]:
    return [int(number) for number in rank_by_keywords(count(keywords), [False] * len(keywords)).ids]


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
