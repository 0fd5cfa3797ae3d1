"""Measure the texts per second of encoders: unsorted float32 batches of 32 against sorted batches under a token budget.

Random texts of word lengths like those of abstracts. Every row of a model is measured in turn in each round, so that
the ratios are valid on a machine with other work; the best round counts. Tokenising is part of the time.

    python scripts/benchmarks/retrieval/encoders.py [--texts 128] [--rounds 1] [--threads 1] [--models minilm NAME …]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import EncoderOptions, Floats, PassageText
from models.encoders.resolve import ResolvedEncoder, resolve_encoder
from models.encoders.transformers_encoder.encoder import TransformersEncoder
from models.encoders.transformers_encoder.loading import place

PLAIN_BATCH: Final = 32
# Of an abstract with its title: median 160 words and 245 tokens on average, few very long.
MEDIAN_WORDS: Final = 160
COMMON: Final = ("the", "of", "and", "in", "to", "with", "was", "were", "for", "patients", "study", "cells", "protein")
SPREAD: Final = 0.55


@dataclass(frozen=True, slots=True)
class Row:
    """One way to encode; ``encode`` gives float32 vectors."""

    label: str
    encode: Callable[[Sequence[str]], Floats]


def abstracts(count: int, seed: int = 0) -> list[str]:
    """Common words and made-up ones: about 1.3 tokens each, as in biomedical text."""
    rng = random.Random(seed)
    syllables = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in ("", "n", "r", "l")]

    def word() -> str:
        return rng.choice(COMMON) if rng.random() < 0.6 else "".join(rng.choices(syllables, k=rng.randint(1, 2)))

    lengths = [max(4, int(rng.lognormvariate(np.log(MEDIAN_WORDS), SPREAD))) for _ in range(count)]
    return [" ".join(word() for _ in range(length)) for length in lengths]


class PlainEncoder:
    """Transformers as its examples show it: batches of 32 in the order given, padded to their longest, float32."""

    def __init__(self, resolved: ResolvedEncoder, device: torch.device) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder, self._max_tokens = resolved.passage.path, resolved.spec.max_passage
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device).eval()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> Floats:
        vectors = []
        for start in range(0, len(texts), PLAIN_BATCH):
            batch = list(texts[start : start + PLAIN_BATCH])
            encoded = self._tokenizer(
                batch, padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
            ).to(self._model.device)
            hidden = self._model(**encoded).last_hidden_state
            weights = encoded["attention_mask"].unsqueeze(-1).float()
            vectors.append(((hidden * weights).sum(1) / weights.sum(1)).cpu().numpy())
        return np.concatenate(vectors)


def rows(resolved: ResolvedEncoder, options: EncoderOptions) -> Iterator[Row]:
    yield Row(f"unsorted, {PLAIN_BATCH} texts, float32", PlainEncoder(resolved, place(options).device))
    for dtype in ("float32", "bfloat16"):
        own = EncoderOptions(
            device=options.device, dtype=dtype, batch_tokens=options.batch_tokens, threads=options.threads
        )
        encoder = TransformersEncoder(resolved, own)
        budget = encoder.placement.batch_tokens

        def encode(texts: Sequence[str], encoder: TransformersEncoder = encoder) -> Floats:
            return encoder.encode_passages([PassageText("", text) for text in texts])

        yield Row(f"sorted, {budget} tokens, {dtype}", encode)


def measure(name: str, resolved: ResolvedEncoder, texts: Sequence[str], rounds: int, options: EncoderOptions) -> None:
    measured = list(rows(resolved, options))
    seconds: dict[str, list[float]] = {row.label: [] for row in measured}
    vectors: dict[str, Floats] = {}
    for row in measured:
        row.encode(texts[:4])
    for _ in range(rounds):
        for row in measured:
            start = time.perf_counter()
            vectors[row.label] = row.encode(texts)
            seconds[row.label].append(time.perf_counter() - start)
    first = measured[0].label
    for row in measured:
        best, slowest = min(seconds[row.label]), min(seconds[first])
        cosine = _cosines(vectors[first], vectors[row.label]).min()
        print(f"| {name} | {row.label} | {len(texts) / best:.1f} | {slowest / best:.2f} | {cosine:.5f} |", flush=True)


def _cosines(first: Floats, second: Floats) -> Floats:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products: Floats = (first * second).sum(axis=1) / lengths
    return products


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=128, help="texts per row and round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-tokens", type=int, help="budget of one batch; the device's own by default")
    parser.add_argument("--models", nargs="+", default=["minilm"], help="names or folders of encoders")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    options = EncoderOptions(device=arguments.device, batch_tokens=arguments.batch_tokens, threads=arguments.threads)
    texts = abstracts(arguments.texts)
    print("| model | batches | texts/s | times faster | least cosine to the first |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.models:
        measure(name, resolve_encoder(name, options), texts, arguments.rounds, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
