"""Store keys and values of the running sequences: one row each, and the column is the token's position.

Rows of equal capacity lie together in one slab, so that sequences of similar length decode together without copies and
without padding on the left; the mask hides the columns beyond a row's length. A row that outgrows its slab moves to one
of larger capacity, so that a long sequence costs its neighbours neither memory nor time. Presents itself to a
transformers model as its ``Cache``. Knows nothing of requests or sampling.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from models.torch_runtime.layers import COLUMNS, RowBatch

_SMALLEST = 256
# Up to here capacities double; beyond, they grow by a third and a half in turn, because a large row that is half empty
# is memory that others lack.
_DOUBLING_TO = 2048
# Idle rows above this size, and above the size of those in use, are freed instead of kept for the next request.
_IDLE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class KvShape:
    """Describe the keys and values of one token, the same for every layer."""

    num_layers: int
    num_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_layers * self.num_heads * self.head_dim * self.dtype.itemsize


class KvRow:
    """Name the place of one sequence's states; the cache changes it when rows move.

    ``length`` is the number of columns written so far.
    """

    __slots__ = ("index", "length", "slab")

    def __init__(self, slab: _Slab, index: int) -> None:
        self.slab = slab
        self.index = index
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.slab.columns

    @property
    def states(self) -> Tensor:
        """Return the row's place, [layers, 2, heads, capacity, head_dim]."""
        return self.slab.kv[:, :, self.index]


class _Slab:
    """Hold rows of one capacity; those in use come first, without gaps."""

    def __init__(self, shape: KvShape, columns: int) -> None:
        self._shape = shape
        self.columns = columns
        self.rows: list[KvRow] = []
        self.kv = self._empty(0)

    @property
    def allocated(self) -> int:
        """Return the columns of all rows together."""
        return int(self.kv.shape[2]) * self.columns

    def resize(self, rows: int) -> None:
        """Change the number of rows, and keep what those in use have written."""
        old, self.kv = self.kv, self._empty(rows)
        length = max((row.length for row in self.rows), default=0)
        used = len(self.rows)
        self.kv[:, :, :used, :, :length] = old[:, :, :used, :, :length]

    def drop(self, row: KvRow) -> None:
        """Take a row out of use; the last one moves into the gap."""
        last = self.rows.pop()
        if last is not row:
            self.kv[:, :, row.index, :, : last.length] = self.kv[:, :, last.index, :, : last.length]
            last.index = row.index
            self.rows[last.index] = last

    def _empty(self, rows: int) -> Tensor:
        # Zeros, not uninitialised memory: a masked NaN would still make the weighted sum NaN.
        shape = self._shape
        return torch.zeros(
            (shape.num_layers, 2, rows, shape.num_heads, _rounded(self.columns), shape.head_dim),
            dtype=shape.dtype,
            device=shape.device,
        )


class _Writing:
    """Hold the rows of one slab that the next forward pass writes, from ``first`` on in the batch."""

    def __init__(
        self, shape: KvShape, first: int, rows: Sequence[KvRow], positions: Sequence[int], tokens: int
    ) -> None:
        self.first = first
        self.end = first + len(rows)
        self.slab = rows[0].slab
        self.rows = [row.index for row in rows]
        self.start = positions[0]
        self.end_column = max(positions) + tokens
        self.width = _rounded(self.end_column)
        self.row_index = torch.tensor(self.rows, device=shape.device)
        self.column_index = torch.tensor(positions, device=shape.device)
        self.is_run = self.rows == list(range(self.rows[0], self.rows[0] + len(self.rows)))
        self.mask = self._mask(shape, tokens)

    def store(self, half: Tensor, new: Tensor) -> None:
        """Write the new keys or values, [rows of the batch, heads, tokens, head_dim], of one layer."""
        if len(self.rows) == 1:
            half[self.rows[0], :, self.start : self.end_column] = new[self.first]
        else:
            half[self.row_index, :, self.column_index] = new[self.first : self.end, :, 0]

    def states(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return the rows' keys and values, [rows, heads, width, head_dim]."""
        keys, values = self.slab.kv[layer, 0, :, :, : self.width], self.slab.kv[layer, 1, :, :, : self.width]
        if self.is_run:
            first, end = self.rows[0], self.rows[-1] + 1
            return keys[first:end], values[first:end]
        return keys.index_select(0, self.row_index), values.index_select(0, self.row_index)

    def _mask(self, shape: KvShape, tokens: int) -> Tensor:
        """0 for a token's own row up to itself, -inf beyond. Not bool: every layer would convert it to this again."""
        last_seen = self.column_index.unsqueeze(1) + torch.arange(tokens, device=shape.device)
        seen = torch.zeros((len(self.rows), 1, tokens, self.width), dtype=shape.dtype, device=shape.device)
        hidden = torch.arange(self.width, device=shape.device) > last_seen.unsqueeze(2)
        return seen.masked_fill_(hidden.unsqueeze(1), -math.inf)


def _rounded(columns: int) -> int:
    """Return the width with which a row's attention is the same, bit for bit, alone and beside longer rows."""
    return -(-columns // COLUMNS) * COLUMNS


class KvCache:
    """Hold the KV cache of the running sequences.

    ``max_bytes`` bounds all rows together, in use and idle; while a row or slab is copied to a larger place, both
    exist. ``max_columns`` is the context length; the attribute is what of it one row can have within the bytes.
    """

    def __init__(self, shape: KvShape, *, max_bytes: int, max_rows: int, max_columns: int) -> None:
        self.shape = shape
        self._budget = max_bytes // shape.bytes_per_token
        self._max_rows = max_rows
        self.max_columns = min(max_columns, self._budget)
        self._used = 0
        self._slabs: dict[int, _Slab] = {}
        self._writing: list[_Writing] = []
        self._position_ids = torch.zeros((1, 1), dtype=torch.long, device=shape.device)
        self._layer = 0
        self._attended = 0
        self.cache = Cache(layers=[_KvCacheLayer(self, layer) for layer in range(shape.num_layers)])

    @property
    def num_bytes(self) -> int:
        """Return the size of all rows, in use and idle."""
        return self._allocated * self.shape.bytes_per_token

    @property
    def free_columns(self) -> int:
        """Return the columns that no row in use holds."""
        return self._budget - self._used

    def capacity_for(self, columns: int) -> int:
        """Return the columns that a row for this many tokens has; the bound is ``max_columns``."""
        capacity = _SMALLEST
        while capacity < columns:
            # 2048, 3072, 4096, 6144, 8192, …
            is_power = capacity & (capacity - 1) == 0
            capacity = 2 * capacity if capacity < _DOUBLING_TO else capacity // 2 * 3 if is_power else capacity // 3 * 4
        return min(capacity, self.max_columns)

    def open(self, columns: int) -> KvRow:
        """Take a row for this many tokens into use.

        Raises:
            ValueError: it does not fit; ``free_columns`` says so before.
        """
        slab = self._slab_for(columns, self.free_columns)
        row = KvRow(slab, len(slab.rows))
        slab.rows.append(row)
        self._used += slab.columns
        return row

    def grow(self, row: KvRow, columns: int) -> None:
        """Move a row to a place for this many tokens, with its states.

        Raises:
            ValueError: it does not fit; ``free_columns`` says so before.
        """
        old, index = row.slab, row.index
        slab = self._slab_for(columns, self.free_columns + old.columns)
        slab.kv[:, :, len(slab.rows), :, : row.length] = old.kv[:, :, index, :, : row.length]
        old.drop(row)
        row.slab, row.index = slab, len(slab.rows)
        slab.rows.append(row)
        self._used += slab.columns - old.columns
        self._free_idle()

    def close(self, row: KvRow) -> None:
        """Take a row out of use."""
        row.slab.drop(row)
        self._used -= row.capacity
        self._free_idle()

    def release(self) -> None:
        """Free the memory; no row may be in use afterwards."""
        for slab in self._slabs.values():
            slab.rows.clear()
        self._used = 0
        self._compact()

    def read(self, row: KvRow, start: int, end: int) -> Tensor:
        """Return a copy of a row's states, [layers, 2, heads, end - start, head_dim]."""
        return row.states[:, :, :, start:end].clone()

    def write(self, row: KvRow, start: int, block: Tensor) -> None:
        end = start + block.shape[3]
        row.states[:, :, :, start:end] = block
        row.length = max(row.length, end)

    # The next forward pass

    def set_write_positions(self, rows: Sequence[KvRow], positions: Sequence[int], tokens: int) -> None:
        """Set where the next forward pass writes: ``tokens`` columns from ``positions[i]`` on in ``rows[i]``.

        Several rows take one token each; rows of one capacity must stand together.
        """
        self._writing, self._attended, first = [], 0, 0
        for _, same in groupby(rows, key=lambda row: row.capacity):
            part = list(same)
            end = first + len(part)
            self._writing.append(_Writing(self.shape, first, part, positions[first:end], tokens))
            first = end
        for row, position in zip(rows, positions, strict=True):
            row.length = max(row.length, position + tokens)
        columns = torch.tensor(positions, device=self.shape.device)
        self._position_ids = columns.unsqueeze(1) + torch.arange(tokens, device=self.shape.device)

    @property
    def is_split(self) -> bool:
        """Return whether the rows of the next forward pass have different capacities.

        The attention must then take its keys and values from ``row_batches``.
        """
        return len(self._writing) > 1

    @property
    def was_attended(self) -> bool:
        """Return whether the attention of every layer took ``row_batches`` since the positions were set."""
        return self._attended == self.shape.num_layers

    def attention_mask(self) -> Tensor | None:
        """Return what is added to the scores, [rows, 1, tokens, width]; None where each batch has its own."""
        return None if self.is_split else self._writing[0].mask

    def position_ids(self) -> Tensor:
        return self._position_ids

    def first_position(self) -> int:
        return self._writing[0].start if self._writing else 0

    def update_layer(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new states, [rows, heads, tokens, head_dim], and return each row's whole states.

        When ``is_split``, what was given is returned.
        """
        self._layer = layer
        for part in self._writing:
            part.store(part.slab.kv[layer, 0], keys)
            part.store(part.slab.kv[layer, 1], values)
        return (keys, values) if self.is_split else self._writing[0].states(layer)

    def row_batches(self) -> Iterator[RowBatch]:
        """Yield the rows of the layer that was updated last, batch by batch, in the order of the forward pass."""
        self._attended += 1
        for part in self._writing:
            yield RowBatch(part.first, part.end, *part.states(self._layer), part.mask)

    # Memory

    @property
    def _allocated(self) -> int:
        return sum(slab.allocated for slab in self._slabs.values())

    def _slab_for(self, columns: int, free: int) -> _Slab:
        """Return the slab for this many tokens, with an idle row."""
        capacity = self.capacity_for(columns)
        if columns > capacity or capacity > free:
            raise ValueError(f"{columns} columns do not fit: {free} of {self._budget} are free")
        slab = self._slabs.setdefault(capacity, _Slab(self.shape, capacity))
        have = slab.allocated // capacity
        if len(slab.rows) < have:
            return slab
        # Doubling makes copies rare; near the bound idle rows elsewhere are freed first, and one row is added.
        requested = max(1, min(self._max_rows, 2 * have))
        if self._allocated + (requested - have) * capacity > self._budget:
            self._compact(keep=slab)
            requested = have + 1
        slab.resize(max(requested, have + 1))
        return slab

    def _free_idle(self) -> None:
        idle = self._allocated - self._used
        too_much = idle * self.shape.bytes_per_token > _IDLE_BYTES and idle > self._used
        if too_much or self._allocated > self._budget:
            self._compact()

    def _compact(self, keep: _Slab | None = None) -> None:
        """Free the idle rows of all slabs but ``keep``."""
        for slab in list(self._slabs.values()):
            if slab is keep:
                continue
            if slab.allocated > len(slab.rows) * slab.columns:
                # Even if no row is left: those who still hold the slab do not hold its memory then.
                slab.resize(len(slab.rows))
            if not slab.rows:
                del self._slabs[slab.columns]


class _KvCacheLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no type information
    """Present one layer to the model."""

    def __init__(self, slots: KvCache, layer: int) -> None:
        super().__init__()
        self._slots = slots
        self._layer = layer

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        return self._slots.update_layer(self._layer, key_states, value_states)

    def get_seq_length(self) -> int:
        return self._slots.first_position()


class PrefixCache:
    """Hold at most ``max_bytes`` of blocks.

    Not thread-safe: the decode thread owns it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._blocks: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._blocks

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def num_bytes(self) -> int:
        return self._bytes

    @property
    def used(self) -> float | None:
        """Return the share of the byte limit in use, or None if the limit is 0."""
        return self._bytes / self._max_bytes if self._max_bytes > 0 else None

    def room_for(self, block_bytes: int) -> int:
        """Return how many blocks of this size the limit allows."""
        return self._max_bytes // block_bytes

    def longest_prefix(self, digests: Sequence[bytes]) -> list[Tensor]:
        """Return the cached blocks of the longest prefix, in order."""
        blocks: list[Tensor] = []
        for digest in digests:
            block = self._blocks.get(digest)
            if block is None:
                break
            blocks.append(block)
        self.touch(digests[: len(blocks)])
        return blocks

    def touch(self, digests: Sequence[bytes]) -> None:
        """Mark blocks as used, the last first, since a tail is useless without its head and must be evicted first."""
        for digest in reversed(digests):
            if digest in self._blocks:
                self._blocks.move_to_end(digest)

    def put(self, digest: bytes, block: Tensor) -> None:
        if digest in self._blocks or block.nbytes > self._max_bytes:
            return
        self._blocks[digest] = block
        self._bytes += block.nbytes
        while self._bytes > self._max_bytes:
            _, evicted = self._blocks.popitem(last=False)
            self._bytes -= evicted.nbytes
