"""Store keys and values of the running sequences: one row each, and the column is the token's position.

Because every row starts at column 0, sequences of any length decode together without padding on the left, and join and
leave without being moved (only the last row fills a gap); the mask hides the columns beyond a row's length. Presents
itself to a transformers model as its ``Cache``. Knows nothing of requests or sampling.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

_COLUMN_STEP = 256


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


class KvCache:
    """Hold the KV cache of the running sequences.

    ``max_bytes`` bounds the allocated rows times columns; ``max_columns`` is the context length.
    """

    def __init__(self, shape: KvShape, *, max_bytes: int, max_rows: int, max_columns: int) -> None:
        self.shape = shape
        self._max_bytes = max_bytes
        self._max_rows = max_rows
        self._max_columns = max_columns
        self.set_write_positions([0], [0], 1)
        self._kv = self._empty(0, 0)
        self.cache = Cache(layers=[_KvCacheLayer(self, layer) for layer in range(shape.num_layers)])

    @property
    def num_bytes(self) -> int:
        return self._kv.nbytes

    def fits(self, rows: int, columns: int) -> bool:
        """Return whether ``reserve`` would stay within the byte bound."""
        rows, columns = self._grown(rows, columns)
        return rows * columns * self.shape.bytes_per_token <= self._max_bytes

    def reserve(self, rows: int, columns: int) -> None:
        """Grow to at least ``rows`` rows of ``columns`` tokens each, and keep the stored states."""
        rows, columns = self._grown(rows, columns)
        old = self._kv
        if (rows, columns) == (old.shape[2], old.shape[4]):
            return
        self._kv = self._empty(rows, columns)
        self._kv[:, :, : old.shape[2], :, : old.shape[4]] = old

    def release(self) -> None:
        """Free the memory; no row may be in use."""
        self._kv = self._empty(0, 0)

    def move(self, source: int, target: int, length: int) -> None:
        self._kv[:, :, target, :, :length] = self._kv[:, :, source, :, :length]

    def read(self, row: int, start: int, end: int) -> Tensor:
        """Return a copy of a row's states, [layers, 2, heads, end - start, head_dim]."""
        return self._kv[:, :, row, :, start:end].clone()

    def write(self, row: int, start: int, block: Tensor) -> None:
        self._kv[:, :, row, :, start : start + block.shape[3]] = block

    def set_write_positions(self, rows: Sequence[int], positions: Sequence[int], tokens: int) -> None:
        """Set where the next forward pass writes: ``tokens`` columns from ``positions[i]`` on in ``rows[i]``.

        Several rows take one token each.
        """
        self._rows, self._positions, self._tokens = list(rows), list(positions), tokens
        self._row_index = torch.tensor(self._rows, device=self.shape.device)
        self._column_index = torch.tensor(self._positions, device=self.shape.device)
        self._is_run = self._rows == list(range(self._rows[0], self._rows[0] + len(self._rows)))

    def attention_mask(self) -> Tensor | None:
        """Return what is added to the scores, [rows, 1, tokens, width], or None when the token sees everything.

        0 for a token's own row up to itself, -inf beyond. Not bool: every layer would convert it to this again.
        """
        if self._tokens == 1 and len(self._rows) == 1:
            return None
        device = self.shape.device
        columns = torch.arange(self._width, device=device)
        last_seen = self._column_index.unsqueeze(1) + torch.arange(self._tokens, device=device)
        seen = torch.zeros((len(self._rows), 1, self._tokens, self._width), dtype=self.shape.dtype, device=device)
        return seen.masked_fill_((columns > last_seen.unsqueeze(2)).unsqueeze(1), -math.inf)

    def position_ids(self) -> Tensor:
        return self._column_index.unsqueeze(1) + torch.arange(self._tokens, device=self.shape.device)

    def first_position(self) -> int:
        return self._positions[0]

    def update_layer(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new states, [rows, heads, tokens, head_dim], and return each row's whole states."""
        first, count = self._rows[0], len(self._rows)
        both = []
        for part, new in enumerate((keys, values)):
            stored = self._kv[layer, part]
            if count == 1:
                stored[first, :, self._positions[0] : self._positions[0] + self._tokens] = new[0]
            else:
                stored[self._row_index, :, self._column_index] = new[:, :, 0]
            narrow = stored[:, :, : self._width]
            both.append(narrow[first : first + count] if self._is_run else narrow.index_select(0, self._row_index))
        return both[0], both[1]

    @property
    def _width(self) -> int:
        return max(self._positions) + self._tokens

    def _grown(self, rows: int, columns: int) -> tuple[int, int]:
        have_rows, have_columns = self._kv.shape[2], self._kv.shape[4]
        if columns > have_columns:
            have_columns = min(self._max_columns, -(-columns // _COLUMN_STEP) * _COLUMN_STEP)
        if rows > have_rows:
            # Doubling makes copies rare; near the byte bound, grow only by what is needed.
            affordable = self._max_bytes // (have_columns * self.shape.bytes_per_token)
            have_rows = max(rows, min(self._max_rows, 2 * have_rows, affordable))
        return have_rows, have_columns

    def _empty(self, rows: int, columns: int) -> Tensor:
        # Zeros, not uninitialised memory: a masked NaN would still make the weighted sum NaN.
        shape = self.shape
        return torch.zeros(
            (shape.num_layers, 2, rows, shape.num_heads, columns, shape.head_dim),
            dtype=shape.dtype,
            device=shape.device,
        )


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

    def longest_prefix(self, digests: Sequence[bytes]) -> list[Tensor]:
        """Return the cached blocks of the longest prefix, in order."""
        found: list[Tensor] = []
        for digest in digests:
            block = self._blocks.get(digest)
            if block is None:
                break
            found.append(block)
        self.touch(digests[: len(found)])
        return found

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
