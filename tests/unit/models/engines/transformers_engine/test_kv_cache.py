"""The parts under the transformers engine: attention, rows, blocks, masks."""

from __future__ import annotations

import math
import weakref

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


@pytest.mark.parametrize("seen", [70, 300, 700])
@pytest.mark.parametrize("group", [1, 3])
def test_attention_in_bfloat16_is_the_same_whatever_is_computed_with_a_token(seen: int, group: int) -> None:
    """Bit for bit: alone, beside other rows, behind other tokens of a draft or a prompt, in a wider batch."""
    heads, dtype, least = 2 * group, torch.bfloat16, -(-seen // 32) * 32
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(8, heads, 70, 64, generator=generator).to(dtype)
    key, value = torch.randn(2, 8, 2, 1024, 64, generator=generator).to(dtype)

    def attend(rows: int, tokens: int, width: int) -> torch.Tensor:
        hidden = torch.arange(width) >= torch.arange(seen - tokens + 1, seen + 1).unsqueeze(1)
        mask = torch.zeros(rows, 1, tokens, width, dtype=dtype).masked_fill(hidden, -math.inf)
        behind = torch.cat((query[:rows, :, 1:tokens], query[:rows, :, :1]), dim=2)
        attended, _ = grouped_attention(torch.nn.Module(), behind, key[:rows, :, :width], value[:rows, :, :width], mask)
        return attended[0, -1]

    alone = attend(1, 1, least)
    for rows, tokens, width in (
        (8, 1, least),
        (8, 1, 1024),
        (1, 2, least),
        (1, 9, least),
        (1, 33, least),
        (1, 70, 1024),
    ):
        assert torch.equal(attend(rows, tokens, width), alone), (rows, tokens, width)


def test_grouped_attention_refuses_to_guess_causality() -> None:
    """Several tokens without a mask would see the future."""
    states = torch.zeros(1, 1, 2, 4)

    with pytest.raises(ValueError, match="mask"):
        grouped_attention(torch.nn.Module(), states, states, states, None)


def make_slots(max_tokens: int = 8192, context: int = 4096) -> KvCache:
    return KvCache(SHAPE, max_bytes=max_tokens * SHAPE.bytes_per_token, max_rows=8, max_columns=context)


def states(columns: int, seed: int) -> torch.Tensor:
    return torch.randn(2, 2, 1, columns, 4, generator=torch.Generator().manual_seed(seed))


def test_rows_survive_growing_and_leaving() -> None:
    """What was written is read back after more rows, larger places and the end of others."""
    slots = make_slots()
    written = [states(20 * (i + 1), i) for i in range(6)]
    rows = [slots.open(200) for _ in written]
    for row, block in zip(rows, written, strict=True):
        slots.write(row, 0, block)
    slots.grow(rows[1], 700)
    slots.grow(rows[4], 300)
    slots.close(rows[0])
    slots.grow(rows[4], 1025)
    slots.close(rows[2])

    for i in (1, 3, 4, 5):
        assert torch.equal(slots.read(rows[i], 0, 20 * (i + 1)), written[i])
    assert [rows[i].capacity for i in (1, 3, 4, 5)] == [1024, 256, 2048, 256]


def test_mask_shows_each_row_its_own_past() -> None:
    """Row by row, columns up to and with the token's own position; beyond is hidden."""
    slots = make_slots()
    rows = [slots.open(8) for _ in range(3)]
    slots.set_write_positions([rows[0], rows[2]], [1, 3], 1)
    mask = slots.attention_mask()

    assert mask is not None
    assert mask[:, 0, 0, :5].tolist() == [[0, 0, *[-math.inf] * 3], [0, 0, 0, 0, -math.inf]]
    assert bool((mask[:, 0, 0, 5:] == -math.inf).all())
    assert slots.position_ids().tolist() == [[1], [3]]


def test_rows_apart_are_written_and_gathered_in_order() -> None:
    """Rows that are not neighbours get their own states, each at its own column."""
    slots = make_slots()
    rows = [slots.open(8) for _ in range(4)]
    slots.set_write_positions([rows[3], rows[1]], [0, 2], 1)
    keys = torch.tensor([7.0, 9.0]).view(2, 1, 1, 1).expand(2, 1, 1, 4)
    stored, _ = slots.update_layer(1, keys, keys)

    assert stored[:, 0, :3, 0].tolist() == [[7, 0, 0], [0, 0, 9]] and not stored[:, 0, 3:].any()
    assert slots.read(rows[3], 0, 1)[1, 0, 0, 0, 0] == 7


def test_rows_of_different_capacity_are_attended_to_batch_by_batch() -> None:
    """Each gives what it gives alone, and a short one is not padded to the width of a long one."""
    slots = make_slots()
    lengths = (5, 900, 30, 700)
    rows = sorted((slots.open(length + 1) for length in lengths), key=lambda row: row.capacity)
    lengths = (5, 30, 900, 700)
    for row, length in zip(rows, lengths, strict=True):
        slots.write(row, 0, states(length, length))
    query, new = torch.randn(4, 2, 1, 4), torch.randn(4, 1, 1, 4)

    def attend(chosen: list[int]) -> torch.Tensor:
        slots.set_write_positions([rows[i] for i in chosen], [lengths[i] for i in chosen], 1)
        keys, values = slots.update_layer(1, new[chosen], new[chosen])
        batches = slots.row_batches if slots.is_split else None
        return grouped_attention(
            torch.nn.Module(), query[chosen], keys, values, slots.attention_mask(), row_batches=batches
        )[0]

    together = attend([0, 1, 2, 3])
    slots.set_write_positions(rows, lengths, 1)
    widths = [batch.keys.shape[2] for batch in slots.row_batches()]
    alone = torch.cat([attend([i]) for i in range(4)])

    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)
    assert widths == [32, 928]


def test_bytes_bound_all_rows_together() -> None:
    """free_columns says what fits, a row beyond it is refused, and doubling stops at the bound."""
    slots = make_slots(max_tokens=3 * 256)
    rows = [slots.open(10), slots.open(256)]
    assert slots.free_columns == 256
    rows.append(slots.open(1))
    assert slots.num_bytes == 3 * 256 * SHAPE.bytes_per_token
    with pytest.raises(ValueError, match="do not fit"):
        slots.open(1)
    slots.close(rows.pop())
    slots.grow(rows[0], 300)
    assert (rows[0].capacity, slots.free_columns) == (512, 0)
    assert slots.num_bytes <= 3 * 256 * SHAPE.bytes_per_token


def test_idle_rows_make_way_for_a_long_one() -> None:
    """After 8 short rows have ended, the whole memory is one row's."""
    slots = make_slots(max_tokens=8 * 256)
    for row in [slots.open(10) for _ in range(8)]:
        slots.close(row)
    assert slots.free_columns == 8 * 256
    long = slots.open(8 * 256)
    assert slots.num_bytes == 8 * 256 * SHAPE.bytes_per_token
    slots.close(long)
    assert slots.open(10).capacity == 256


def test_large_idle_rows_are_freed() -> None:
    """Memory goes back by itself once more than it holds is idle; a little is kept for the next request."""
    shape = KvShape(num_layers=1, num_heads=1, head_dim=1024, dtype=torch.float32, device=torch.device("cpu"))
    slots = KvCache(shape, max_bytes=2**31, max_rows=32, max_columns=2**20)
    kept = slots.open(10)
    large = slots.open(60_000)  # 512 MiB, of which nothing is ever written
    states_of_it = weakref.ref(large.slab.kv)
    slots.set_write_positions([large], [0], 1)
    slots.close(large)
    assert states_of_it() is None
    assert slots.num_bytes == kept.capacity * shape.bytes_per_token
    slots.close(slots.open(10_000))
    assert slots.num_bytes > kept.capacity * shape.bytes_per_token


def test_capacities_waste_at_most_half_of_a_large_row() -> None:
    """They grow by doubling while they are small, then by less; the context and the memory bound the last one."""
    slots = make_slots(max_tokens=10**6, context=100_000)
    for columns in range(1, 100_001, 7):
        capacity = slots.capacity_for(columns)
        assert columns <= capacity <= max(256, 2 * columns)
        assert capacity <= 1.5 * columns or columns <= 2048
    assert slots.capacity_for(99_000) == 100_000
    assert make_slots(max_tokens=5000, context=10**6).max_columns == 5000


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
