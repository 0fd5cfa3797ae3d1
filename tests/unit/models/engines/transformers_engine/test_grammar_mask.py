"""Masks of grammars."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from models.engines.transformers_engine.grammar_mask import bound_logits, keep_few


@pytest.mark.parametrize("size", [31, 32, 374, 383, 384])
@pytest.mark.parametrize("word", [0, -1, 0x55555555, 1])
def test_a_mask_writes_to_its_row_alone(size: int, word: int) -> None:
    """Rows of any length, also those that end inside a word: the numbers behind the row stay."""
    words = np.full(-(-size // 32), word, np.int32)
    words[-1] &= 0x0FFF0FFF
    bits = [bool((int(words[i // 32]) >> (i % 32)) & 1) for i in range(size)]
    expected = np.where(bits, np.arange(64, 64 + size, dtype=np.float32), -np.inf)
    for few in (False, True):
        around = np.arange(size + 128, dtype=np.float32)
        row = around[64 : 64 + size]
        if few:
            keep_few(torch.from_numpy(row), words, np.flatnonzero(words))
        else:
            bound_logits(row, words, np.full((4 * len(words), 8), 7, np.float32))
        assert np.array_equal(row, expected)
        assert np.isfinite(around[:64]).all() and np.isfinite(around[64 + size :]).all()
