"""Store the names of a graph and their words in flat, sorted columns, and compare words letter by letter.

A name's row costs 27 bytes and a node 8 more and its id's length: a million names of a million nodes, about 1.3 rows a
name, stay near 60 MB; a word costs 32 bytes. The names themselves are not stored; two of them collide in one 64-bit
hash once in tens of millions of graphs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrieval.formats import english
from retrieval.formats.edits import single_edits
from retrieval.graph.linking.dictionary_lookup.normalize import Hashes

LEAST_WORD: Final = 3
MOST_WORD: Final = 32
Edit = Literal["exchanged", "doubled", "missing", "replaced", "ending"]
SYNONYM: Final = 1
VARIANT: Final = 2
SYMBOL: Final = 4
ALIAS: Final = 8
COMPACT: Final = 16
# A name that means another concept first.
CLAIM: Final = 32
# Any name of a class of diseases.
CLASS: Final = 64


class Typo(NamedTuple):
    """Describe one possible typo.

    ``word`` is the intended word. ``sort``: adjacent letters transposed; a letter doubled, or a double letter single; a
    letter more or less; a letter replaced; the last letter replaced (psoriasin, psoriasis). The later ones more often
    turn one name into another.
    """

    word: str
    sort: Edit


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Store words of three letters to 32 bytes, sorted."""

    words: NDArray[np.bytes_]

    def __len__(self) -> int:
        return len(self.words)

    def has(self, words: Sequence[str]) -> list[bool]:
        """Return whether each word is known; words that are too short or too long to be stored count as known."""
        found = self._has([word if is_indexable(word) else "" for word in words])
        return [bool(hit) or not is_indexable(word) for hit, word in zip(found, words, strict=True)]

    def joined(self, other: Vocabulary) -> Vocabulary:
        """Return the words of both."""
        return Vocabulary(np.union1d(self.words, other.words))

    def typo_candidates(self, word: str) -> list[Typo]:
        """Return the words that ``word``, normalized by ``fold``, can be with one typo.

        A typo is an inserted, deleted, substituted or transposed letter.
        """
        near = {*single_edits(word), *_as_heard(word)} - {word}
        candidates = sorted(filter(is_indexable, near))
        hits = self._has(candidates)
        return [_slip(other, word) for other, hit in zip(candidates, hits, strict=True) if hit]

    def _has(self, words: Sequence[str]) -> NDArray[np.bool_]:
        if not words or not len(self.words):
            return np.zeros(len(words), np.bool_)
        keys = np.array([word.encode() for word in words], self.words.dtype)
        positions = np.searchsorted(self.words, keys)
        return np.asarray(self.words[np.minimum(positions, len(self.words) - 1)] == keys, np.bool_)


def build_vocabulary(words: Iterable[str]) -> Vocabulary:
    """Build a vocabulary of the words that ``is_indexable`` accepts."""
    entries = sorted({word.encode() for word in words if is_indexable(word)})
    return Vocabulary(np.array(entries, f"S{MOST_WORD}"))


@lru_cache(maxsize=1)
def ordinary_words() -> Vocabulary:
    """Return the vocabulary of English words from the list that ships with the package."""
    return build_vocabulary(english.ordinary_words())


def is_english(word: str) -> bool:
    """Return whether the list of English words has a word, as it is or without an ending of a plural or verb."""
    return any(ordinary_words().has([*_base_forms(word.lower())]))


def _base_forms(word: str) -> Iterator[str]:
    yield word
    yield from (word.removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing") if word.endswith(ending))
    if word.endswith(("ies", "ied")):
        yield f"{word[:-3]}y"


def _as_heard(word: str) -> Iterator[str]:
    """Yield the word with one "f" as "ph"."""
    return (f"{word[:place]}ph{word[place + 1 :]}" for place, letter in enumerate(word) if letter == "f")


def is_indexable(word: str) -> bool:
    return len(word) >= LEAST_WORD and word.isalpha() and len(word.encode()) <= MOST_WORD


def _slip(other: str, word: str) -> Typo:
    if len(word) == len(other):
        if sorted(word) == sorted(other):
            return Typo(other, "exchanged")
        return Typo(other, "ending" if word[:-1] == other[:-1] else "replaced")
    shorter, longer = sorted((word, other), key=len)
    twice = any(longer[p] == longer[p + 1] and longer[:p] + longer[p + 1 :] == shorter for p in range(len(shorter)))
    return Typo(other, "doubled" if twice else "missing")


Number = TypeVar("Number", bound=np.generic)


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
    def nodes_known(self) -> int:
        """Return the number of the graph's nodes; higher numbers in ``nodes`` are concepts that it lacks."""
        return len(self.offsets) - 1

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
        self._node_kinds = array("H")
        self._node_ids = bytearray()
        self._offsets = array("q", [0])

    def node(self, node_id: str, kind: int = 0) -> int:
        """Return the number of a node, assigned at its first use with its kind."""
        code = self._node_codes.get(node_id)
        if code is None:
            code = self._node_codes[node_id] = len(self._node_codes)
            self._node_kinds.append(kind)
            self._node_ids += node_id.encode()
            self._offsets.append(len(self._node_ids))
        return code

    @property
    def node_kinds(self) -> NDArray[np.uint16]:
        """Return the kind of each node."""
        return np.array(self._node_kinds, np.uint16)

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
