"""Masks of grammars."""

from __future__ import annotations

import numpy as np
import pytest

from models.engines.transformers_engine.grammar_mask import KnownMasks
from models.errors import GRAMMAR_INVALID, ModelError


@pytest.mark.parametrize("size", [31, 32, 374, 383, 384, 4099])
@pytest.mark.parametrize("word", [-1, 0x55555555, 1, 0x7FFFFFFF])
@pytest.mark.parametrize("num_words", [1, 2, 200])
def test_a_mask_writes_to_its_row_alone(size: int, word: int, num_words: int) -> None:
    """Rows of any length, also those that end inside a word, at first and again: the numbers behind the row stay."""
    words = np.full(-(-size // 32), word, np.int32)
    words[num_words:] = 0
    words[-1] &= 0x0FFF0FFF
    bits = [bool((int(words[i // 32]) >> (i % 32)) & 1) for i in range(size)]
    expected = np.where(bits, np.arange(64, 64 + size, dtype=np.float32), -np.inf)
    masks = KnownMasks()
    for _ in range(2):
        around = np.arange(size + 128, dtype=np.float32)
        row = around[64 : 64 + size]
        masks.write(row, words)
        assert np.array_equal(row, expected)
        assert np.isfinite(around[:64]).all() and np.isfinite(around[64 + size :]).all()


def test_many_masks_are_told_apart() -> None:
    """More than are remembered, in turns."""
    masks, random = KnownMasks(), np.random.default_rng(3)
    known = [random.integers(-(2**31), 2**31, 9, dtype=np.int32) for _ in range(100)]
    for words in (*known, *known[::-1]):
        row = np.ones(288, np.float32)
        masks.write(row, words)
        assert np.array_equal(np.packbits(row > 0, bitorder="little"), words.view(np.uint8))


def test_a_mask_without_a_token_is_an_error() -> None:
    with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
        KnownMasks().write(np.zeros(64, np.float32), np.zeros(2, np.int32))
