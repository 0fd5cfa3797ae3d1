"""A header that announces more than its file holds is refused at once, with the reason."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from models.errors import ModelNotFound
from models.gguf.conversion import facts_of
from models.gguf.header import check_header
from tests.tiny_gguf import write_gguf

_STRING, _ARRAY = 8, 9


def _text(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


def _head(tensors: int = 0, entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def _entry(kind: int, value: bytes) -> bytes:
    return _text(b"general.name") + struct.pack("<I", kind) + value


def _nested(depth: int) -> bytes:
    return struct.pack("<IQ", _ARRAY, 1) * depth + struct.pack("<IQ", 0, 0)


def _tensor(*dimensions: int, place: int = 0, count: int | None = None) -> bytes:
    number = len(dimensions) if count is None else count
    sizes = struct.pack(f"<{len(dimensions)}Q", *dimensions)
    return _text(b"token_embd.weight") + struct.pack("<I", number) + sizes + struct.pack("<IQ", 0, place)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_head(entries=2**60), r"it counts 1152921504606846976 entries"),
        (_head(tensors=2**60), r"it counts 1152921504606846976 tensors"),
        (_head(entries=1) + _entry(_ARRAY, struct.pack("<IQ", 0, 2**60)), "1152921504606846976 values"),
        (_head(entries=1) + _entry(_ARRAY, struct.pack("<IQ", _STRING, 2**60)), "1152921504606846976 values"),
        (_head(entries=1) + _entry(_ARRAY, _nested(20_000)), "arrays within arrays"),
        (_head(entries=1) + _entry(_STRING, _text(b"x", 2**60)), "a text has 1152921504606846976 bytes"),
        (_head(entries=1) + _text(b"k", 2**40), "a key has"),
        (_head(entries=1) + _entry(77, b"\0" * 8), "unknown type 77"),
        (_head(tensors=1) + _tensor(2**60), "a tensor has 1152921504606846976 numbers"),
        (_head(tensors=1) + _tensor(2**31, 2**31, 2**31), "which a file of"),
        (_head(tensors=1) + _tensor(count=2**31), "2147483648 dimensions"),
        (_head(tensors=1) + _tensor(1, place=2**50), "lies at byte"),
        (_head(version=99), "its version is 99"),
        (b"GGUF", "ends within its header"),
        (b"PK\x03\x04" + b"\0" * 99, "does not begin as one"),
    ],
)  # fmt: skip
def test_a_hostile_header_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """Neither memory nor time goes by what it counts."""
    file = tmp_path / "model.gguf"
    file.write_bytes(content)

    for check in (check_header, facts_of):
        with pytest.raises(ModelNotFound, match=said):
            check(file)


def test_a_sound_file_passes(tiny_llama: Path, tmp_path: Path) -> None:
    """As llama.cpp's converter writes it; cut anywhere in its header it does not."""
    file = write_gguf(tiny_llama, tmp_path / "tiny.gguf")
    check_header(file)
    content = file.read_bytes()
    for length in (5, 20, 100, 1000):
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        with pytest.raises(ModelNotFound):
            check_header(tmp_path / "cut.gguf")
