"""Stream text to plain files, gzip and bgzip."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

_LEVEL: Final = 3
_BLOCK: Final = 65280  # what bgzip itself puts into a block
_END: Final = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_BUFFER: Final = 2**20


def write_text(path: Path, lines: Iterable[str]) -> int:
    """Lines with their ends; gzip where the name ends in .gz. Returns their number."""
    count = 0
    pending: list[str] = []
    size = 0
    with _opened(path) as file:
        for line in lines:
            count += 1
            pending.append(line)
            size += len(line)
            if size > _BUFFER:
                file.write("".join(pending).encode())
                pending, size = [], 0
        file.write("".join(pending).encode())
    return count


def write_bgzip(path: Path, lines: Iterable[str]) -> int:
    """As ``write_text``, always in bgzip's blocks: gzip members of at most 64 KiB that tell their size."""
    count = 0
    pending = bytearray()
    with path.open("wb") as file:
        for line in lines:
            count += 1
            pending += line.encode()
            if len(pending) > _BUFFER:
                whole = len(pending) // _BLOCK * _BLOCK
                _write_blocks(file, bytes(pending[:whole]))
                del pending[:whole]
        _write_blocks(file, bytes(pending))
        file.write(_END)
    return count


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    # Without a name and a time in its header, the same content gives the same file.
    return gzip.GzipFile(path, "wb", _LEVEL, mtime=0) if path.suffix == ".gz" else path.open("wb")


def _write_blocks(file: BinaryIO, data: bytes) -> None:
    for at in range(0, len(data), _BLOCK):
        block = data[at : at + _BLOCK]
        packer = zlib.compressobj(_LEVEL, wbits=-15)
        body = packer.compress(block) + packer.flush()
        size = len(body) + 26
        file.write(b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", size - 1) + body)
        file.write(struct.pack("<II", zlib.crc32(block), len(block)))
