"""Measure the call grammar's cost per token: fill the mask, apply it, accept the token, in free text and inside calls.

Steps the masks of the transformers engine on one thread, over synthetic byte-level vocabularies, without a model.
Inside calls the next token is drawn from the allowed ones, so long tokens and dead ends occur as they would under a
real model. Also: the seconds of the first grammar in a process, and of a second one.

    python scripts/benchmarks/decoding/grammar_mask.py [--vocab 49152 131072] [--calls 200]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, GrammarState
from models.types import Grammar
from retrieval.ncbi.calls.urls import call_regex

TEXT: Final = "The gene is known as LMP10 (c.35G->A); its symbol follows from the record below.\n"
PIECES: Final = ("]->", "[https://", "https://", ".fcgi", "?db=", "&term=", "&id=", "gene", "ncbi", "->", "]->[", "->{")
END: Final = "<|end|>"


def synthetic_tokenizer(size: int, seed: int = 0) -> HfTokenizer:
    """Bytes, an end token, URL pieces, and random words, numbers and signs in about a real vocabulary's shares."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    rng, split = random.Random(seed), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = dict.fromkeys((*sorted(pre_tokenizers.ByteLevel.alphabet()), END))
    for piece in PIECES:
        words[_as_bytes(split, piece)] = None
    while len(words) < size:
        words[_as_bytes(split, _random_token(rng))] = None
    # Without merges: text is tokenised byte by byte, and every token is there to be drawn.
    backend = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    backend.pre_tokenizer, backend.decoder = split, decoders.ByteLevel()
    return HfTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END))


def _as_bytes(split: Any, text: str) -> str:
    """Write a text as byte-level vocabularies do, one letter for each byte."""
    return "".join(part for part, _ in split.pre_tokenize_str(text))


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
        around = [sum(step) for step in zip(self.apply, self.accept, strict=True)]
        medians = [statistics.median(column) for column in (self.fill, self.apply, self.accept, around)]
        p99 = sorted(around)[int(0.99 * (len(around) - 1))]
        cells = " | ".join(f"{value:9.1f}" for value in (*medians, p99))
        return f"| {where:<10} | {len(around):6d} | {cells} |"


class Walk:
    """One sequence's state and one row of logits, stepped token by token under the clock."""

    def __init__(self, state: GrammarState, vocab_size: int, seed: int = 0) -> None:
        self._state = state
        self._random = torch.Generator().manual_seed(seed)
        self._vocab_size = vocab_size

    def step(self, costs: Costs, token: int | None) -> int:
        """Take ``token``, or draw one that the mask allows."""
        logits = torch.randn(self._vocab_size, generator=self._random)
        began = time.perf_counter()
        self._state.fill()
        filled = time.perf_counter()
        self._state.apply(logits)
        applied = time.perf_counter()
        token = int(logits.argmax()) if token is None else token
        chosen = time.perf_counter()
        self._state.accept(token)
        accepted = time.perf_counter()
        seconds = (filled - began, applied - filled, accepted - chosen)
        for column, spent in zip((costs.fill, costs.apply, costs.accept), seconds, strict=True):
            column.append(spent * 1e6)
        return token


def measure(size: int, num_calls: int) -> Iterator[str]:
    tokenizer = synthetic_tokenizer(size)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    grammars: list[Grammar] = [call_grammar(call_regex(), tokenizer), forced_call_grammar(call_regex(), tokenizer)]
    spent = []
    for grammar in grammars:
        began = time.perf_counter()
        compiled = compiler.compile(grammar)
        spent.append((time.perf_counter() - began) * 1e3)
    yield f"\nvocabulary {tokenizer.vocab_size}: first grammar {spent[0]:.0f} ms, another {spent[1]:.1f} ms"
    compiled = compiler.compile(grammars[0])
    free, inside = Costs(), Costs()
    opener, closer = tokenizer.token_id("[https://"), tokenizer.token_id("]->")
    walk = Walk(GrammarState(compiled, tokenizer.vocab_size), tokenizer.vocab_size)
    for _ in range(num_calls):
        for token in tokenizer.encode(TEXT):
            walk.step(free, token)
        token = walk.step(free, opener)
        while token != closer:
            token = walk.step(inside, None)
    yield "| µs, median | tokens |      fill |     apply |    accept | last two  |  their p99 |"
    yield "| ---------- | ------ | --------- | --------- | --------- | --------- | --------- |"
    yield free.row("free text")
    yield inside.row("in a call")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, nargs="+", default=[49152, 131072], help="vocabulary sizes")
    parser.add_argument("--calls", type=int, default=200, help="calls written per vocabulary")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size in arguments.vocab:
        for line in measure(size, arguments.calls):
            print(line, flush=True)


if __name__ == "__main__":
    main()
