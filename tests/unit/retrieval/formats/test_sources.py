"""Opening downloaded files: packing, line ends, encodings, and everything that can be wrong with a file."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.errors import ImportFileError, RetrievalError
from retrieval.formats.sources import BGZIP_END, Source
from scripts.samples.packing import write_bgzip

TEXT = "".join(f"line {number} é β\n" for number in range(5000))


def _saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


def _bgzipped(tmp_path: Path, text: str = TEXT) -> Path:
    path = tmp_path / "file"
    write_bgzip(path, text.splitlines(keepends=True))
    return path


def _lines(path: Path, **settings: int) -> list[str | None]:
    found = list(Source(path, **settings).lines())
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [text for _, text in found]


@pytest.mark.parametrize("packed", ["plain", "gzip", "members", "bgzip"])
def test_the_packing_is_told_by_content_not_by_name(tmp_path: Path, packed: str) -> None:
    """Plain, gzip, several gzip members and bgzip give the same lines, and all bytes count as consumed."""
    data = TEXT.encode()
    half = gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])
    path = tmp_path / "file"
    if packed == "bgzip":
        _bgzipped(tmp_path)
    else:
        _saved(tmp_path, {"plain": data, "gzip": gzip.compress(data), "members": half}[packed])
    source = Source(path)
    assert [text for _, text in source.lines()] == TEXT.splitlines()
    assert source.consumed == source.total == path.stat().st_size


@given(chunk=st.integers(64, 3000), packed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_lines_do_not_depend_on_where_the_file_is_cut_into_chunks(
    tmp_path_factory: pytest.TempPathFactory, chunk: int, packed: bool
) -> None:
    """Multi-byte characters and CR LF may fall on a border."""
    text = "".join(f"{number} äöü€\r\n" for number in range(300)) + "the last, without an end é"
    data = text.encode()
    path = _saved(tmp_path_factory.mktemp("chunks"), gzip.compress(data) if packed else data)
    assert _lines(path, chunk=chunk) == text.split("\r\n")


def test_the_consumed_bytes_grow_while_reading(tmp_path: Path) -> None:
    """A progress bar needs more than the two ends."""
    source = Source(_saved(tmp_path, TEXT.encode()), chunk=1000)
    seen = [source.consumed for _ in source.lines()]
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[2000] < source.total


def test_only_lf_ends_a_line(tmp_path: Path) -> None:
    """CR within a line, line separators of Unicode and form feeds belong to the text."""
    assert _lines(_saved(tmp_path, "a\rb\u2028c\x0bd\ne\r\n".encode())) == ["a\rb\u2028c\x0bd", "e"]


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    """Files that went through Windows begin with one."""
    assert _lines(_saved(tmp_path, b"\xef\xbb\xbf#head\nrow\n")) == ["#head", "row"]


def test_a_line_in_latin1_is_marked_and_the_others_stay(tmp_path: Path) -> None:
    """One bad byte does not spoil the file."""
    assert _lines(_saved(tmp_path, "gut\nMüller\n".encode("latin-1") + b"gut\n")) == ["gut", None, "gut"]


def test_utf16_is_refused(tmp_path: Path) -> None:
    """Every line would look like one in a wrong encoding."""
    with pytest.raises(ImportFileError, match="UTF-16"):
        _lines(_saved(tmp_path, "a\nb\n".encode("utf-16")))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error is a RetrievalError with a hint and the path."""
    with pytest.raises(ImportFileError, match=r"nothing\.gz.*No such file") as caught:
        Source(tmp_path / "nothing.gz")
    assert isinstance(caught.value, RetrievalError)
    assert caught.value.hint
    assert caught.value.path == tmp_path / "nothing.gz"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """But for the taxonomy dump's two tables, which this one has not."""
    with pytest.raises(ImportFileError):
        _lines(tmp_path)


@given(cut=st.floats(0.01, 0.999))
@settings(max_examples=25, deadline=None)
def test_a_cut_gzip_is_an_error_wherever_it_is_cut(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    """Nothing that is missing goes unnoticed; the position is given."""
    data = gzip.compress(random.Random(1).randbytes(3000).hex().encode())
    path = _saved(tmp_path_factory.mktemp("cut"), data[: max(2, int(len(data) * cut))])
    with pytest.raises(ImportFileError, match=r"byte \d+: .*(cut|damaged)"):
        _lines(path)


def test_a_damaged_gzip_is_an_error(tmp_path: Path) -> None:
    """The checksum at the end is verified too."""
    data = bytearray(gzip.compress(TEXT.encode()))
    data[-6] ^= 1
    with pytest.raises(ImportFileError, match="damaged"):
        _lines(_saved(tmp_path, bytes(data)))


def test_a_bgzip_file_that_lost_whole_blocks_is_an_error(tmp_path: Path) -> None:
    """Cut between two blocks it is sound gzip; only the end mark tells."""
    path = _bgzipped(tmp_path)
    data = path.read_bytes()
    assert data.endswith(BGZIP_END)
    path.write_bytes(data.removesuffix(BGZIP_END))
    with pytest.raises(ImportFileError, match="end mark"):
        _lines(path)


def test_what_follows_the_compressed_data_is_an_error_but_for_zeros(tmp_path: Path) -> None:
    """Tapes and some servers pad with zeros."""
    assert _lines(_saved(tmp_path, gzip.compress(b"a\n") + bytes(1000))) == ["a"]
    with pytest.raises(ImportFileError, match="something else"):
        _lines(_saved(tmp_path, gzip.compress(b"a\n") + b"<html>"))


def test_a_line_beyond_the_cap_is_an_error_and_not_read_into_memory(tmp_path: Path) -> None:
    """A small gzip can hold a line of gigabytes."""
    path = _saved(tmp_path, gzip.compress(b"head\n" + b"x" * 5_000_000))
    with pytest.raises(ImportFileError, match="line 2: the line is longer than 100000 bytes"):
        _lines(path, max_line=100_000, chunk=1024)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    """Whether that is an error the reader of the kind decides."""
    assert _lines(_saved(tmp_path, b"")) == []
    assert _lines(_saved(tmp_path, gzip.compress(b""))) == []
