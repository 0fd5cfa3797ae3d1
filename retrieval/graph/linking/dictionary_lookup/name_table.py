"""Store all names of a graph in flat columns from name hash to node, sorted, searched by bisection, built once.

A row costs 27 bytes and a node 8 more and its id's length: a million names of a million nodes, about 1.3 rows a name,
stay near 60 MB. The names themselves are not stored; two of them collide in one 64-bit hash once in tens of millions of
graphs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval.graph.linking.dictionary_lookup.normalize import Hashes

Number = TypeVar("Number", bound=np.generic)
SYNONYM: Final = 1
VARIANT: Final = 2
SYMBOL: Final = 4
ALIAS: Final = 8
COMPACT: Final = 16


class Posting(NamedTuple):
    """Hold one row of the table.

    ``written``: hash of the name's surface; ``cased``: hash of its exact characters. ``flags``: bits of this module.
    """

    node: int
    written: int
    cased: int
    kind: int
    flags: int


@dataclass(frozen=True, slots=True)
class NameTable:
    """Store rows sorted by ``keys``; ``node_ids`` is one text, split by ``offsets`` [nodes + 1]."""

    keys: Hashes
    written: Hashes
    cased: Hashes
    nodes: NDArray[np.int32]
    kinds: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    kind_names: tuple[str, ...]
    node_ids: bytes
    offsets: NDArray[np.int64]
    longest: int
    names: int
    too_long: int

    @property
    def nbytes(self) -> int:
        columns = (self.keys, self.written, self.cased, self.nodes, self.kinds, self.flags, self.offsets)
        return sum(column.nbytes for column in columns) + len(self.node_ids)

    def node_id(self, node: int) -> str:
        return self.node_ids[self.offsets[node] : self.offsets[node + 1]].decode()

    def ranges(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row, and the last row + 1, of each hash."""
        return np.searchsorted(self.keys, hashes, "left"), np.searchsorted(self.keys, hashes, "right")

    def postings(self, first: int, last: int) -> Iterator[Posting]:
        for row in range(first, last):
            yield Posting(
                int(self.nodes[row]),
                int(self.written[row]),
                int(self.cased[row]),
                int(self.kinds[row]),
                int(self.flags[row]),
            )


class TableBuilder:
    """Collect names one by one; a name of more than ``longest`` tokens is omitted and counted."""

    def __init__(self, longest: int = 40) -> None:
        self._most = longest
        self._longest = 0
        self._names = self._too_long = 0
        self._keys, self._written, self._cased = array("Q"), array("Q"), array("Q")
        self._nodes, self._kinds, self._flags = array("i"), array("H"), array("B")
        self._kind_codes: dict[str, int] = {}
        self._node_codes: dict[str, int] = {}
        self._node_ids = bytearray()
        self._offsets = array("q", [0])

    def node(self, node_id: str) -> int:
        """Return the number of a node, assigned at its first use."""
        code = self._node_codes.get(node_id)
        if code is None:
            code = self._node_codes[node_id] = len(self._node_codes)
            self._node_ids += node_id.encode()
            self._offsets.append(len(self._node_ids))
        return code

    def kind(self, kind: str) -> int:
        return self._kind_codes.setdefault(kind, len(self._kind_codes))

    def counts(self, tokens: int) -> bool:
        """Count a name of this many tokens and return True if it is short enough; call once for each name."""
        self._names += 1
        self._too_long += tokens > self._most
        return tokens <= self._most

    def add(self, key: int, tokens: int, posting: Posting) -> None:
        if tokens > self._most:
            return
        self._longest = max(self._longest, tokens)
        self._keys.append(key)
        self._written.append(posting.written)
        self._cased.append(posting.cased)
        self._nodes.append(posting.node)
        self._kinds.append(posting.kind)
        self._flags.append(posting.flags)

    def finish(self) -> NameTable:
        """Return the table and end the builder, which accepts no more names."""
        self._node_codes.clear()
        keys = np.frombuffer(self._keys, np.uint64) if self._keys else np.empty(0, np.uint64)
        order = np.argsort(keys, kind="stable").astype(np.int64)
        return NameTable(
            keys=keys[order],
            written=_column(self._written, np.uint64, order),
            cased=_column(self._cased, np.uint64, order),
            nodes=_column(self._nodes, np.int32, order),
            kinds=_column(self._kinds, np.uint16, order),
            flags=_column(self._flags, np.uint8, order),
            kind_names=tuple(self._kind_codes),
            node_ids=bytes(self._node_ids),
            offsets=np.array(self._offsets, np.int64),
            longest=self._longest,
            names=self._names,
            too_long=self._too_long,
        )


def _column(values: array[int], dtype: type[Number], order: NDArray[np.int64]) -> NDArray[Number]:
    raw = np.frombuffer(values, dtype) if values else np.empty(0, dtype)
    return raw[order]
