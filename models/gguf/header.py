"""Check the header of a GGUF file before a reader believes its numbers.

The reader goes through a header entry by entry, in Python, as often as its counts say: a file of a hundred bytes that
counts 2**60 entries, or arrays within arrays, would keep it busy for ever. What a header announces must fit into the
file, and be no more than models have. Reads the header alone.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from models.errors import ModelNotFound

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ARRAY, _STRING = 9, 8
# Bytes of a value, by ggml's number of its type.
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
# A key with its length and type, and a tensor with its name, dimensions, type and place, take at least so many bytes.
_LEAST_ENTRY: Final = 13
_LEAST_TENSOR: Final = 24
_MOST_DIMENSIONS: Final = 4
# Far above what models have: the longest arrays are the merges of a vocabulary, below a million.
_MOST_ENTRIES: Final = 10_000
_MOST_TENSORS: Final = 200_000
_MOST_VALUES: Final = 8_000_000
_MOST_NAME: Final = 65_535


def check_header(file: Path) -> None:
    """Check that the header of a file keeps within it.

    Raises:
        ModelNotFound: it does not, or the file is no GGUF file; the message says why.
    """
    try:
        with file.open("rb") as stream:
            reason = _fault(stream, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise ModelNotFound(f"{file} cannot be read: {error}") from error
    if reason:
        raise ModelNotFound(f"{file} is no whole GGUF file: {reason}")


class _Fault(Exception):  # an outcome of this module
    """Carry what is wrong with a header."""


def _fault(stream: BinaryIO, size: int) -> str:
    try:
        _Header(stream, size).check()
    except _Fault as fault:
        return str(fault)
    return ""


@dataclass(slots=True)
class _Header:
    """Walk through a header of a file of ``size`` bytes; ``num_values`` are those of its arrays so far."""

    stream: BinaryIO
    size: int
    num_values: int = 0

    def check(self) -> None:
        if self._take(4) != _MAGIC:
            raise _Fault("it does not begin as one")
        if (version := self._number("I")) not in _VERSIONS:
            raise _Fault(f"its version is {version}; {_VERSIONS[0]} and {_VERSIONS[1]} are read")
        tensors, entries = self._number("Q"), self._number("Q")
        self._bound("tensors", tensors, _MOST_TENSORS, _LEAST_TENSOR)
        self._bound("entries", entries, _MOST_ENTRIES, _LEAST_ENTRY)
        for _ in range(entries):
            self._text("a key", _MOST_NAME)
            self._value(self._number("I"))
        for _ in range(tensors):
            self._tensor()

    def _value(self, kind: int) -> None:
        if kind == _STRING:
            self._text("a text", self.size)
        elif kind == _ARRAY:
            self._array(self._number("I"), self._number("Q"))
        else:
            self._take(self._width(kind))

    def _array(self, kind: int, length: int) -> None:
        if kind == _ARRAY:
            raise _Fault("it has arrays within arrays, which no model needs")
        width = 8 if kind == _STRING else self._width(kind)
        self.num_values += length
        self._bound("values in its arrays", self.num_values, _MOST_VALUES, 0)
        self._bound("values in an array", length, _MOST_VALUES, width)
        if kind != _STRING:
            self._skip(length * width)
        else:
            for _ in range(length):
                self._text("a text", self.size)

    def _tensor(self) -> None:
        self._text("the name of a tensor", _MOST_NAME)
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise _Fault(f"a tensor has {dimensions} dimensions, of at most {_MOST_DIMENSIONS}")
        elements = 1
        for _ in range(dimensions):
            elements *= self._number("Q")
        # The smallest kinds of ggml take less than two bits for a number.
        if elements > self.size * 8:
            raise _Fault(f"a tensor has {elements} numbers, which a file of {self.size} bytes cannot hold")
        self._number("I")
        if (place := self._number("Q")) > self.size:
            raise _Fault(f"a tensor lies at byte {place} of {self.size}")

    def _width(self, kind: int) -> int:
        if kind not in _WIDTHS:
            raise _Fault(f"a value has the unknown type {kind}")
        return _WIDTHS[kind]

    def _bound(self, what: str, number: int, most: int, least_bytes: int) -> None:
        if number > most or number * least_bytes > self.size:
            raise _Fault(f"it counts {number} {what}, more than its {self.size} bytes hold or any model has")

    def _text(self, what: str, most: int) -> None:
        length = self._number("Q")
        if length > most:
            raise _Fault(f"{what} has {length} bytes")
        self._skip(length)

    def _number(self, form: str) -> int:
        return int(struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))[0])

    def _take(self, length: int) -> bytes:
        data = self.stream.read(length)
        if len(data) != length:
            raise _Fault("it ends within its header")
        return data

    def _skip(self, length: int) -> None:
        if self.stream.tell() + length > self.size:
            raise _Fault("it ends within its header")
        self.stream.seek(length, os.SEEK_CUR)
