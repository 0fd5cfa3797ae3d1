"""Store the names of a graph and their words in flat, sorted columns.

A name's row costs 21 bytes and a node 10 more and its id's length; a word costs 32. The names themselves are not
stored; two of them collide in one 64-bit hash once in tens of millions of graphs.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.formats.english import is_ordinary
from retrieval.graph.linking.dictionary_lookup.normalize import Hashes, fold, hash_text, hash_tokens, surface

_LEAST_WORD: Final = 3
_MOST_WORD: Final = 32
_MOST_SYMBOL: Final = 10
SYNONYM: Final = 1
SYMBOL: Final = 2
ALIAS: Final = 4
# A name that means another concept first.
CLAIM: Final = 8
# Any name of a class of diseases.
CLASS: Final = 16
_PACKED: Final = struct.Struct("<QiB")
ROW: Final = np.dtype([("written", "<u8"), ("node", "<i4"), ("flags", "u1")])
Rows = NDArray[Any]


class Posting(NamedTuple):
    """Hold one row of the table.

    ``written``: hash of the name as written, letter case aside unless it is a symbol. ``flags``: bits of this module.
    """

    written: int
    node: int
    flags: int


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Store words of three letters to 32 bytes, sorted."""

    words: NDArray[np.bytes_]

    def has(self, words: Sequence[str]) -> list[bool]:
        """Return whether each word is known; words that are too short or too long to be stored count as known."""
        if not len(self.words):
            return [not is_indexable(word) for word in words]
        keys = np.array([word.encode() if is_indexable(word) else b"" for word in words], self.words.dtype)
        places = np.minimum(np.searchsorted(self.words, keys), len(self.words) - 1)
        return [bool(known) for known in (self.words[places] == keys) | (keys == b"")]

    def joined(self, other: Vocabulary) -> Vocabulary:
        """Return the words of both."""
        return Vocabulary(np.union1d(self.words, other.words))


def is_indexable(word: str) -> bool:
    return len(word) >= _LEAST_WORD and word.isalpha() and len(word.encode()) <= _MOST_WORD


def is_english(word: str) -> bool:
    """Return whether a word is English; what is too short or too long, or not of letters alone, counts as such."""
    word = word.lower()
    return is_ordinary(word) or not is_indexable(word)


def name_flags(name: str) -> int:
    """Return SYMBOL for one word of at most ten characters with a digit or a capital after its first letter."""
    is_short = len(name) <= _MOST_SYMBOL and not any(c.isspace() for c in name)
    return SYMBOL if is_short and any(c.isupper() or c.isdigit() for c in name[1:]) else 0


def written_hash(name: str, flags: int) -> int:
    return hash_text(name if flags & SYMBOL else surface(name))


@dataclass(frozen=True, slots=True)
class NameTable:
    """Store rows sorted by ``keys``.

    ``kinds``: codes by node; ``node_ids``: one text, split by ``offsets`` [nodes + 1].
    """

    keys: Hashes
    rows: Rows
    kinds: NDArray[np.uint16]
    kind_names: tuple[str, ...]
    longest: int
    words: Vocabulary
    node_ids: bytes
    offsets: NDArray[np.int64]

    @property
    def nodes_known(self) -> int:
        """Return the number of the graph's nodes; higher numbers in ``rows`` are concepts that it lacks."""
        return len(self.offsets) - 1

    def kind(self, node: int) -> str:
        return self.kind_names[int(self.kinds[node])]

    def node_id(self, node: int) -> str:
        return self.node_ids[self.offsets[node] : self.offsets[node + 1]].decode()

    def ranges(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row, and the last row + 1, of each hash."""
        return np.searchsorted(self.keys, hashes, "left"), np.searchsorted(self.keys, hashes, "right")

    def postings(self, first: int, last: int) -> Iterator[Posting]:
        return map(Posting._make, self.rows[first:last].tolist())


class TableBuilder:
    """Collect names one by one; one of more than ``most`` tokens is omitted."""

    def __init__(self, most: int = 40) -> None:
        self._most = most
        self._longest = 0
        self._keys, self._rows = array("Q"), bytearray()
        self._words: set[str] = set()
        self._kind_codes: dict[str, int] = {}
        self._node_codes: dict[str, int] = {}
        self._node_kinds = array("H")
        self._node_ids = bytearray()
        self._offsets = array("q", [0])

    def node(self, node_id: str, kind: str) -> int:
        """Return the number of a node, assigned at its first use with its kind."""
        code = self._node_codes.get(node_id)
        if code is None:
            code = self._node_codes[node_id] = len(self._node_codes)
            self._node_kinds.append(self._kind_codes.setdefault(kind, len(self._kind_codes)))
            self._node_ids += node_id.encode()
            self._offsets.append(len(self._node_ids))
        return code

    def add(self, name: str, node: int, flags: int) -> None:
        tokens = fold(name)
        if not 0 < len(tokens) <= self._most:
            return
        self._words.update(token for token in tokens if token not in self._words and is_indexable(token))
        self._longest = max(self._longest, len(tokens))
        self._keys.append(hash_tokens(tokens))
        self._rows += _PACKED.pack(written_hash(name, flags), node, flags)

    def finish(self) -> NameTable:
        """Return the table and end the builder, which accepts no more names."""
        self._node_codes.clear()
        keys = np.frombuffer(self._keys, np.uint64)
        order = np.argsort(keys, kind="stable")
        return NameTable(
            keys=keys[order],
            rows=np.frombuffer(self._rows, ROW)[order],
            kinds=np.array(self._node_kinds, np.uint16),
            kind_names=tuple(self._kind_codes),
            longest=self._longest,
            words=Vocabulary(np.array(sorted(word.encode() for word in self._words), f"S{_MOST_WORD}")),
            node_ids=bytes(self._node_ids),
            offsets=np.array(self._offsets, np.int64),
        )
