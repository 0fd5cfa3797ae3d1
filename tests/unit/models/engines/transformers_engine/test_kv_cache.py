"""The parts under the transformers engine: attention, rows, blocks, masks."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from models.engines.base import block_hashes
from models.engines.transformers_engine.grammar_mask import _unpack
from models.engines.transformers_engine.kv_cache import KvCache, KvShape, PrefixCache
from models.torch_runtime.layers import by_kernel, by_layout, grouped_attention

SHAPE = KvShape(num_layers=2, num_heads=1, head_dim=4, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("tokens", [1, 5])
def test_grouped_attention_equals_attention_with_repeated_heads(tokens: int) -> None:
    """Sharing keys among query heads changes no number beyond rounding."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, 6, tokens, 8, generator=generator)
    key, value = torch.randn(2, 3, 2, 9, 8, generator=generator)
    hidden = torch.arange(9) > torch.arange(4, 4 + tokens).unsqueeze(1)
    mask = torch.zeros(3, 1, tokens, 9).masked_fill(hidden, -math.inf)
    expected = scaled_dot_product_attention(
        query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), attn_mask=mask
    )
    got, _ = grouped_attention(torch.nn.Module(), query, key, value, mask)

    torch.testing.assert_close(got, expected.transpose(1, 2), atol=1e-6, rtol=1e-5)
    for attend in (by_layout, by_kernel):  # which of them depends on the device
        torch.testing.assert_close(attend(query, key, value, mask, None), expected, atol=1e-6, rtol=1e-5)


def test_grouped_attention_refuses_to_guess_causality() -> None:
    """Several tokens without a mask would see the future."""
    states = torch.zeros(1, 1, 2, 4)

    with pytest.raises(ValueError, match="mask"):
        grouped_attention(torch.nn.Module(), states, states, states, None)


def make_slots(max_tokens: int = 4096) -> KvCache:
    return KvCache(SHAPE, max_bytes=max_tokens * SHAPE.bytes_per_token, max_rows=8, max_columns=1024)


def test_rows_survive_growing_and_moving() -> None:
    """What was written is read back after more rows, more columns and a move."""
    slots = make_slots()
    slots.reserve(1, 10)
    block = torch.randn(2, 2, 1, 10, 4)
    slots.write(0, 0, block)
    slots.reserve(3, 600)
    slots.move(0, 2, 10)

    assert torch.equal(slots.read(2, 0, 10), block)
    assert torch.equal(slots.read(0, 3, 7), block[:, :, :, 3:7])


def test_mask_shows_each_row_its_own_past() -> None:
    """Row by row, columns up to and with the token's own position; beyond is hidden."""
    slots = make_slots()
    slots.reserve(3, 8)
    slots.set_write_positions([0, 2], [1, 3], 1)
    mask = slots.attention_mask()

    assert mask is not None
    assert mask[:, 0, 0].tolist() == [[0, 0, -math.inf, -math.inf], [0, 0, 0, 0]]
    assert slots.position_ids().tolist() == [[1], [3]]


def test_rows_apart_are_written_and_gathered_in_order() -> None:
    """Rows that are not neighbours get their own states, each at its own column."""
    slots = make_slots()
    slots.reserve(4, 8)
    slots.set_write_positions([3, 1], [0, 2], 1)
    keys = torch.tensor([7.0, 9.0]).view(2, 1, 1, 1).expand(2, 1, 1, 4)
    stored, _ = slots.update_layer(1, keys, keys)

    assert stored[:, 0, :, 0].tolist() == [[7, 0, 0], [0, 0, 9]]
    assert slots.read(3, 0, 1)[1, 0, 0, 0, 0] == 7


def test_bytes_bound_what_can_be_reserved() -> None:
    """fits says no beyond the bound, and rows near it grow one by one instead of doubling past it."""
    slots = make_slots(max_tokens=3 * 256)
    slots.reserve(2, 256)

    assert slots.fits(3, 256)
    assert not slots.fits(4, 256)
    slots.reserve(3, 256)
    assert slots.num_bytes == 3 * 256 * SHAPE.bytes_per_token


def test_block_names_cover_everything_before_them() -> None:
    """Equal blocks after different beginnings, or under different salts, have different names."""
    tokens = list(range(8))
    plain = block_hashes(tokens, 4, None)

    assert len(block_hashes(tokens[:7], 4, None)) == 1
    assert block_hashes([9, *tokens[1:]], 4, None)[1] != plain[1]
    assert len({plain[0], block_hashes(tokens, 4, "")[0], block_hashes(tokens, 4, "a")[0]}) == 3
    assert block_hashes(tokens, 4, None, known=plain[:1]) == plain


def test_a_tail_is_evicted_before_its_head() -> None:
    """The blocks of one prefix leave from the end, so that what remains is still a prefix."""
    block = torch.zeros(4)
    cache = PrefixCache(3 * block.nbytes)
    for digest in (b"1", b"2", b"3"):
        cache.put(digest, block)
    cache.touch([b"1", b"2", b"3"])
    cache.put(b"x", block)

    assert len(cache.longest_prefix([b"1", b"2", b"3"])) == 2
    assert cache.num_bytes == 3 * block.nbytes


def test_block_larger_than_the_cache_is_not_kept() -> None:
    """Nothing is thrown away for a block that could never fit."""
    cache = PrefixCache(16)
    cache.put(b"1", torch.zeros(4))
    cache.put(b"2", torch.zeros(5))

    assert (b"1" in cache, b"2" in cache) == (True, False)


def test_bits_unpack_lowest_first() -> None:
    """Word bits become booleans in token order, the sign bit included."""
    words = torch.tensor([0b101, -(2**31), 1], dtype=torch.int32)

    assert _unpack(words, 65).nonzero().flatten().tolist() == [0, 2, 63, 64]
