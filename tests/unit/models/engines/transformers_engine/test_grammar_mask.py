"""Masks of grammars."""

from __future__ import annotations

import pytest
import torch

from models.engines.transformers_engine.grammar_mask import apply_bitmask


@pytest.mark.parametrize("size", [31, 32, 374, 383, 384])
@pytest.mark.parametrize("word", [0, -1, 0x55555555, 1])
def test_a_mask_writes_to_its_row_alone(size: int, word: int) -> None:
    """Rows of any length, also those that end inside a word: the numbers behind the row stay."""
    around = torch.zeros(size + 128)
    bitmask = torch.full((1, -(-size // 32)), word, dtype=torch.int32)
    bitmask[0, -1] &= 0x0FFF0FFF  # the bits of padding are 0
    apply_bitmask(around[64 : 64 + size], bitmask)

    bits = [bool((int(bitmask[0, i // 32]) >> (i % 32)) & 1) for i in range(size)]
    assert around[64 : 64 + size].isfinite().tolist() == bits
    assert around[:64].isfinite().all() and around[64 + size :].isfinite().all()
