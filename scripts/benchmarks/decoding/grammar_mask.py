"""Measure the call grammar's cost per token: fill the mask, apply it, accept the token, in free text and inside calls.

Runs xgrammar alone, on one thread, over synthetic byte-level vocabularies, without a model. Inside calls the next token
is drawn from the allowed ones, so long tokens and dead ends occur as they would under a real model.

    python scripts/benchmarks/decoding/grammar_mask.py [--vocab 2048 131072] [--calls 200]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import xgrammar as xgr

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.decoding.grammar import call_grammar
from retrieval.ncbi.calls.urls import call_regex

TEXT = "The gene is known as LMP10 (c.35G->A); its symbol follows from the record below.\n"
PIECES = ("]->", "[https://", "https://", ".fcgi", "?db=", "&term=", "&id=", "gene", "ncbi", "->", "]->[", "->{")


class SyntheticTokenizer:
    """256 bytes, an end token, URL pieces, and random words, numbers and signs in about a real vocabulary's shares."""

    def __init__(self, size: int, seed: int = 0) -> None:
        rng = random.Random(seed)
        words = dict.fromkeys(PIECES)
        while len(words) < size - 257:
            words[_random_token(rng)] = None
        self.pieces = [bytes([i]) for i in range(256)] + [b""] + [word.encode() for word in words]
        self.vocab_size = len(self.pieces)
        self.eos_token_ids = frozenset({256})
        self.bos_token_id = None
        self.has_chat_template = False
        self.tool_template: str | None = None
        self.thinking = None
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, text: str) -> list[int]:
        """Longest match first, which is all that this measurement needs."""
        raw, ids, at = text.encode(), [], 0
        while at < len(raw):
            length = next(n for n in range(9, 0, -1) if raw[at : at + n] in self._ids)
            ids.append(self._ids[raw[at : at + length]])
            at += len(self.pieces[ids[-1]])
        return ids

    def encode_start(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.pieces[i] for i in token_ids).decode(errors="replace")

    def token_id(self, token: str) -> int | None:
        return self._ids.get(token.encode())

    def special_id(self, token: str) -> int | None:
        return None

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        raise NotImplementedError("a benchmark's tokenizer has no chat template")


def _random_token(rng: random.Random) -> str:
    kind, length = rng.random(), rng.randint(2, 9)
    if kind < 0.80:
        # Words, half of them with a space in front; a quarter in other scripts.
        letters = "etaoinshrdlcumwfgypbvkjxqz" if rng.random() < 0.75 else "абвгдежзиклмнопрстαβγδε"
        word = "".join(rng.choices(letters, k=length))
        return rng.choice(("", " ")) + rng.choice((word, word, word.capitalize()))
    if kind < 0.85:
        return "".join(rng.choices("0123456789", k=min(length, 3)))
    return "".join(rng.choices("_.,-+=&/[]():;<>{}'\"!?*# \n", k=min(length, 5)))


@dataclass(slots=True)
class Costs:
    """Microseconds per step."""

    fill: list[float] = field(default_factory=list)
    apply: list[float] = field(default_factory=list)
    accept: list[float] = field(default_factory=list)

    def row(self, where: str) -> str:
        total = [sum(step) for step in zip(self.fill, self.apply, self.accept, strict=True)]
        medians = [statistics.median(column) for column in (self.fill, self.apply, self.accept, total)]
        p99 = sorted(total)[int(0.99 * (len(total) - 1))]
        cells = " | ".join(f"{value:9.1f}" for value in (*medians, p99, max(total)))
        return f"| {where:<10} | {len(total):6d} | {cells} |"


class Walk:
    """One matcher and one row of logits, stepped token by token under the clock."""

    def __init__(self, compiled: xgr.CompiledGrammar, vocab_size: int, seed: int = 0) -> None:
        self._compiled = compiled
        self._bitmask = xgr.allocate_token_bitmask(1, vocab_size)
        self._random = torch.Generator().manual_seed(seed)
        self._vocab_size = vocab_size
        self._matcher = xgr.GrammarMatcher(compiled)

    def step(self, costs: Costs, token: int | None) -> int:
        """Take ``token``, or draw one that the mask allows."""
        logits = torch.randn(1, self._vocab_size, generator=self._random)
        t0 = time.perf_counter()
        needed = self._matcher.fill_next_token_bitmask(self._bitmask)
        t1 = time.perf_counter()
        if needed:
            xgr.apply_token_bitmask_inplace(logits, self._bitmask)
        t2 = time.perf_counter()
        token = int(logits.argmax()) if token is None else token
        t3 = time.perf_counter()
        if not self._matcher.accept_token(token):
            raise RuntimeError(f"token {token} is not allowed here")
        t4 = time.perf_counter()
        for column, seconds in ((costs.fill, t1 - t0), (costs.apply, t2 - t1), (costs.accept, t4 - t3)):
            column.append(seconds * 1e6)
        return token


def measure(size: int, num_calls: int) -> Iterator[str]:
    tokenizer = SyntheticTokenizer(size)
    t0 = time.perf_counter()
    info = xgr.TokenizerInfo(tokenizer.pieces, vocab_type=xgr.VocabType.RAW, stop_token_ids=[256])
    compiler = xgr.GrammarCompiler(info, max_threads=1)
    t1 = time.perf_counter()
    spec = call_grammar(call_regex(), tokenizer).spec
    compiled = compiler.compile_structural_tag(spec)
    t2 = time.perf_counter()
    compiler.compile_structural_tag(spec)
    t3 = time.perf_counter()
    yield (
        f"\nvocabulary {tokenizer.vocab_size}: tokenizer {(t1 - t0) * 1e3:.0f} ms once, "
        f"grammar {(t2 - t1) * 1e3:.0f} ms, again {(t3 - t2) * 1e3:.2f} ms"
    )
    free, inside, closer = Costs(), Costs(), tokenizer.token_id("]->")
    walk = Walk(compiled, tokenizer.vocab_size)
    for _ in range(num_calls):
        for token in tokenizer.encode(TEXT):
            walk.step(free, token)
        token = walk.step(free, tokenizer.token_id("[https://"))
        while token != closer:
            token = walk.step(inside, None)
    yield "| µs, median | tokens |      fill |     apply |    accept |  together |  p99 tog. |  max tog. |"
    yield "| ---------- | ------ | --------- | --------- | --------- | --------- | --------- | --------- |"
    yield free.row("free text")
    yield inside.row("in a call")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, nargs="+", default=[2048, 131072], help="vocabulary sizes")
    parser.add_argument("--calls", type=int, default=200, help="calls written per vocabulary")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size in arguments.vocab:
        for line in measure(size, arguments.calls):
            print(line, flush=True)


if __name__ == "__main__":
    main()
