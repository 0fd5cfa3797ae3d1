"""Time what the grammar of calls costs each token of a call on the transformers engine, drawn or the best one.

Counted are what is forced, the mask, writing that to the logits, and going on; of each place the least time of all
passes, which neighbours on the machine change little.

    python scripts/benchmarks/decoding/call_mask.py MODEL [MODEL ...] [--passes 60]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.decoding.grammar import call_grammar
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, GrammarState, KnownMasks
from retrieval.ncbi.calls.urls import call_regex

EUTILS: Final = "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
CALLS: Final = (
    EUTILS + "esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term=LMP10]->",
    EUTILS + "efetch.fcgi?db=gene&retmax=5&retmode=json&id=19171,5699,8138]->",
    EUTILS + "esummary.fcgi?db=snp&retmax=10&retmode=json&id=1217074595]->",
)


def write(state: GrammarState, tokens: Sequence[int], logits: torch.Tensor, is_best: bool, least: list[float]) -> None:
    """Write a call as the engine does; ``least`` are the least seconds so far that each place took."""
    at = 0
    while at < len(tokens):
        row = logits.clone()
        row[tokens[at]] += 50 * is_best
        started = time.perf_counter()
        forced = state.forced()
        if not forced:
            state.mask(row, only_best=is_best)
        for token in forced or tokens[at : at + 1]:
            state.accept(token)
        least[at] = min(least[at] or 1.0, time.perf_counter() - started)
        at += len(forced) or 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a folder with a tokenizer")
    parser.add_argument("--passes", type=int, default=60)
    arguments = parser.parse_args()
    for folder in arguments.models:
        tokenizer = HfTokenizer.load(folder, local_only=True)
        size, masks, calls = tokenizer.vocab_size, KnownMasks(), [tokenizer.encode(call) for call in CALLS]
        compiled = GrammarCompiler(tokenizer, size).compile(call_grammar(call_regex(), tokenizer))
        logits = torch.randn(size, generator=torch.Generator().manual_seed(0))
        for is_best in (False, True):
            least = [[0.0] * len(call) for call in calls]
            for _ in range(arguments.passes):
                for call, times in zip(calls, least, strict=True):
                    write(GrammarState(compiled, size, masks), call, logits, is_best, times)
            each = sum(map(sum, least)) / sum(map(len, calls))
            print(f"{size:,} tokens, {'the best' if is_best else 'drawn'}: {1e6 * each:.1f} µs a token", flush=True)


if __name__ == "__main__":
    main()
