"""Measure how many texts a second the shipped encoder embeds."""

from __future__ import annotations

import random
import time

from models.encoders.base import EncoderOptions, PassageText
from models.encoders.registry import create_encoder
from scripts.gpu.figures import figure, is_dry

_WORDS = ("the", "of", "and", "patients", "with", "gene", "protein", "was", "trial", "expression", "in", "cells")


def texts(number: int) -> list[PassageText]:
    """Random texts of the lengths of abstracts."""
    chance = random.Random(0)
    return [PassageText("", " ".join(chance.choices(_WORDS, k=chance.randint(80, 260)))) for _ in range(number)]


def main(dry: bool) -> int:
    encoder = create_encoder("minilm", EncoderOptions(device="cpu" if dry else "cuda"))
    passages = texts(16 if dry else 4096)
    encoder.encode_passages(passages[:16])
    began = time.perf_counter()
    vectors = encoder.encode_passages(passages)
    figure("texts/s of minilm", f"{len(passages) / (time.perf_counter() - began):.0f}")
    return 0 if vectors.shape == (len(passages), encoder.dim) else 1


if __name__ == "__main__":
    raise SystemExit(main(is_dry(__doc__)))
