"""Measure the grammar of verbatim quotes, and the call table, in llguidance and in xgrammar.

Compile time (this thread's processor time and the wall's), microseconds per mask, and whether what a random chooser
writes is a quote under its number, or a call of the table. One thread, no model, made-up passages and vocabularies.

    python scripts/benchmarks/decoding/quote_grammar.py [--vocab 49152 131072] [--passages 1 5 20 60] [--calls 1000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import llguidance
import numpy as np
import torch
import xgrammar as xgr

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.decoding.grammar import quote_grammar, quote_line
from retrieval.errors import CallRejected
from retrieval.ncbi.calls.urls import call_regex, parse_call_url
from scripts.benchmarks.decoding.grammar_mask import SyntheticTokenizer
from scripts.benchmarks.decoding.synthetic_text import TextMaker
from server.methods.shared.sentences import quoted_line, split_clauses

END = 256
NOTHING = "None of the passages answers the question."
MOST_TOKENS = 2_000
SEQUENCE = "ATTCTGCCTTTAGTAATTTGATGACAGAGACTTCTTGGGAACCACAGCC"


class Library(NamedTuple):
    """How one library compiles a text of a kind ("lark", "regex"), and walks through it."""

    compile: Callable[[str, str], Any]
    start: Callable[[Any], Walk]


class Walk(NamedTuple):
    """One sequence in a grammar: ``fill`` writes the mask of the next token."""

    fill: Callable[[torch.Tensor], None]
    take: Callable[[int], bool]
    ended: Callable[[], bool]


def by_xgrammar(pieces: Sequence[bytes]) -> Library:
    compiler = xgr.GrammarCompiler(
        xgr.TokenizerInfo(list(pieces), vocab_type=xgr.VocabType.RAW, stop_token_ids=[END]),
        max_threads=1,
        cache_enabled=False,
    )

    def start(compiled: Any) -> Walk:
        matcher = xgr.GrammarMatcher(compiled)
        return Walk(matcher.fill_next_token_bitmask, matcher.accept_token, matcher.is_terminated)

    kinds = {"lark": compiler.compile_lark, "regex": compiler.compile_regex}
    return Library(lambda kind, spec: kinds[kind](spec), start)


class _Pieces:
    """What llguidance asks of a tokenizer of its own."""

    eos_token_id = END
    bos_token_id = None
    special_token_ids = (END,)

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.tokens = list(pieces)

    def __call__(self, text: Any) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


def by_llguidance(pieces: Sequence[bytes]) -> Library:
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Pieces(pieces)))

    def compiled(kind: str, spec: str) -> Any:
        matcher = llguidance.LLMatcher(tokenizer, llguidance.grammar_from("grammar" if kind == "lark" else kind, spec))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(grammar: Any) -> Walk:
        matcher = grammar.deep_copy()
        return Walk(
            lambda row: matcher.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * 4),
            matcher.consume_token,
            matcher.is_stopped,
        )

    return Library(compiled, start)


LIBRARIES: Mapping[str, Callable[[Sequence[bytes]], Library]] = {"llguidance": by_llguidance, "xgrammar": by_xgrammar}


def written(walk: Walk, size: int, chooser: random.Random, costs: list[float]) -> bytes:
    """The ids that a random chooser writes, as bytes of two; the time of each mask goes into ``costs``, in µs."""
    row, ids = torch.zeros(1, -(-size // 32), dtype=torch.int32), b""
    for _ in range(MOST_TOKENS):
        if walk.ended():
            break
        began = time.perf_counter()
        walk.fill(row)
        costs.append((time.perf_counter() - began) * 1e6)
        allowed = np.unpackbits(row[0].numpy().view(np.uint8), bitorder="little").nonzero()[0]
        token = END if row[0, END // 32] >> END % 32 & 1 and chooser.random() < 0.5 else int(chooser.choice(allowed))
        if not walk.take(token):
            raise RuntimeError(f"token {token} is not allowed here")
        ids += token.to_bytes(4, "big") if token != END else b""
    return ids


def text_of(ids: bytes, pieces: Sequence[bytes]) -> str:
    tokens = [int.from_bytes(ids[at : at + 4], "big") for at in range(0, len(ids), 4)]
    return b"".join(pieces[token] for token in tokens).decode(errors="replace")


def passages(number: int) -> dict[int, list[str]]:
    """Made-up passages of some 60 words in sentences, as texts that can be quoted."""
    maker = TextMaker(5_000, seed=number)
    sentences = ([maker.text(20).rstrip(".").capitalize() for _ in range(3)] for _ in range(number))
    texts = [". ".join([*found, ""]).strip() for found in sentences]
    return {n: [quoted_line(s.text) for s in split_clauses(text)] for n, text in enumerate(texts, 1)}


def measured(library: Library, kind: str, spec: str) -> tuple[Any, str]:
    wall, own = time.perf_counter(), time.thread_time()
    compiled = library.compile(kind, spec)
    return compiled, f"{(time.thread_time() - own) * 1e3:.0f} ms ({(time.perf_counter() - wall) * 1e3:.0f} ms)"


def row(name: str, cells: Sequence[str], costs: list[float]) -> str:
    costs.sort()
    times = (statistics.median(costs), costs[int(0.99 * (len(costs) - 1))] / 1e3, statistics.fmean(costs))
    return f"| {name} | {' | '.join(cells)} | {times[0]:.0f} µs | {times[1]:.2f} ms | {times[2]:.0f} µs |"


def quotes(name: str, library: Library, pieces: Sequence[bytes], number: int) -> str:
    found = passages(number)
    spec = quote_grammar(found, most=3, nothing=NOTHING).spec
    lines = {quote_line(text, n) for n, texts in found.items() for text in texts} | {NOTHING}
    compiled, cost = measured(library, "lark", spec)
    costs: list[float] = []
    chooser = random.Random(1)
    texts = [text_of(written(library.start(compiled), len(pieces), chooser, costs), pieces) for _ in range(20)]
    told = [line for text in texts for line in text.splitlines()]
    right = sum(line in lines for line in told)
    size = sum(len(line) for line in lines)
    return row(name, [str(number), f"{size:,}", cost, f"{right} of {len(told)}"], costs)


def calls(name: str, library: Library, pieces: Sequence[bytes], number: int) -> str:
    compiled, cost = measured(library, "regex", call_regex(sequences=[SEQUENCE]))
    costs: list[float] = []
    chooser, right = random.Random(1), 0
    for _ in range(number):
        text = text_of(written(library.start(compiled), len(pieces), chooser, costs), pieces)
        try:
            parse_call_url(text)
            right += 1
        except CallRejected as refusal:
            print(f"refused: {text!r}: {refusal}")
    return row(name, [cost, f"{right} of {number}"], costs)


def tables(size: int, numbers: Sequence[int], num_calls: int) -> Iterator[str]:
    pieces = SyntheticTokenizer(size).pieces
    libraries = {name: make(pieces) for name, make in LIBRARIES.items()}
    yield f"\nvocabulary {len(pieces):,}: quotes"
    yield "| library | passages | characters | compile: processor (wall) | verbatim | mask, median | p99 | mean |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for number in numbers:
        for name, library in libraries.items():
            yield quotes(name, library, pieces, number)
    if num_calls:
        yield "\ncalls\n| library | compile: processor (wall) | of the table | mask, median | p99 | mean |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for name, library in libraries.items():
            yield calls(name, library, pieces, num_calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, nargs="+", default=[49_152, 131_072], help="vocabulary sizes")
    parser.add_argument("--passages", type=int, nargs="+", default=[1, 5, 20, 60])
    parser.add_argument("--calls", type=int, default=1000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size in arguments.vocab:
        for line in tables(size, arguments.passages, arguments.calls):
            print(line, flush=True)


if __name__ == "__main__":
    main()
