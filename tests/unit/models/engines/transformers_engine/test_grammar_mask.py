"""Masks of grammars."""

from __future__ import annotations

import numpy as np
import pytest

from models.engines.transformers_engine.grammar_mask import bound_logits


@pytest.mark.parametrize("size", [31, 32, 374, 383, 384])
@pytest.mark.parametrize("word", [0, -1, 0x55555555, 1])
def test_a_mask_writes_to_its_row_alone(size: int, word: int) -> None:
    """Rows of any length, also those that end inside a word: the numbers behind the row stay."""
    around = np.arange(size + 128, dtype=np.float32)
    words = np.full(-(-size // 32), word, np.int32)
    words[-1] &= 0x0FFF0FFF
    bound_logits(around[64 : 64 + size], words, np.full((4 * len(words), 8), 7, np.float32))

    bits = [bool((int(words[i // 32]) >> (i % 32)) & 1) for i in range(size)]
    expected = np.where(bits, np.arange(64, 64 + size, dtype=np.float32), -np.inf)
    assert np.array_equal(around[64 : 64 + size], expected)
    assert np.isfinite(around[:64]).all() and np.isfinite(around[64 + size :]).all()
