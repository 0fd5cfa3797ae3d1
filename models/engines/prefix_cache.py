"""Cache the keys and values of finished token blocks, so that equal prefixes are computed once.

Owns tensors by block digest and evicts the least recently used; knows neither the model nor the requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor


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
