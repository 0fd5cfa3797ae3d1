"""Stream a downloaded file or single members of an archive: plain, gzip, tar or zip, detected by content, not by name.

Gzip may be multi-member or bgzip. Every fault of the file itself is an ImportFileError. Memory is bounded: a few chunks
and one line. Archives are not unpacked to disk, and member paths are never used. The standard library's tar reader
treats a damaged header as the end of the archive and stores a list of all members; here a header is valid, or all zeros
(the end), or an error.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from retrieval.errors import ImportFileError

CHUNK: Final = 256 * 1024
MAX_LINE: Final = 64 * 2**20
_GZIP: Final = b"\x1f\x8b"
# The empty block that bgzip writes last (SAM specification, 4.1.2); its absence is the only sign that whole blocks are
# missing at the end.
BGZIP_END: Final = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")

Line = tuple[int, str | None]
_BLOCK: Final = tarfile.BLOCKSIZE
_MAX_NAME: Final = 2**20


class Source:
    """Stream one file to import.

    Holds no file open between calls; ``chunks`` and ``lines`` each read from the beginning. ``total`` and ``consumed``
    count bytes on disk (compressed bytes of a compressed file), for a progress bar; ``consumed`` is reset when reading
    starts again.
    """

    def __init__(self, path: Path, *, chunk: int = CHUNK, max_line: int = MAX_LINE) -> None:
        """Set ``chunk``, the number of bytes to read at once.

        Raises:
            ImportFileError: the file cannot be read.
        """
        self.path = path
        self.consumed = 0
        self._chunk = max(64, chunk)  # the first one holds a gzip header
        self._max_line = max_line
        try:
            self.total = sum(file.stat().st_size for file in _files(path))
        except OSError as error:
            name = f" ({Path(error.filename).name})" if path.is_dir() else ""
            raise ImportFileError(path, f"cannot be read: {error.strerror}{name}") from error

    def chunks(self) -> Iterator[bytes]:
        """Yield the decompressed content in pieces of at most four times the chunk size."""
        self.consumed = 0
        with self.open() as handle:
            head = self._read(handle)
            if not head.startswith(_GZIP):
                while head:
                    yield head
                    head = self._read(handle)
                return
            if _is_bgzip(head):
                self._expect_bgzip_end()
            yield from self._unpacked(handle, head)

    def lines(self) -> Iterator[Line]:
        """Return an iterator of (1-based number, text without its line end); text that is not UTF-8 is None.

        Lines end with LF or CR LF and with no other character. A byte order mark is dropped.
        """
        return split_lines(self, self.chunks(), self._max_line)

    def open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise ImportFileError(self.path, f"cannot be read: {error.strerror}") from error

    def sibling(self, path: Path) -> Source:
        """Return a source with the same settings for another file, or for this one again."""
        return Source(path, chunk=self._chunk, max_line=self._max_line)

    def error(self, reason: str, line: int | None = None) -> ImportFileError:
        return ImportFileError(self.path, reason, line=line)

    def _read(self, handle: BinaryIO) -> bytes:
        try:
            data = handle.read(self._chunk)
        except OSError as error:
            raise ImportFileError(self.path, f"cannot be read: {error.strerror}", offset=self.consumed) from error
        self.consumed += len(data)
        return data

    def _unpacked(self, handle: BinaryIO, data: bytes) -> Iterator[bytes]:
        while data:
            member = zlib.decompressobj(wbits=31)
            while True:
                try:
                    out = member.decompress(data, 4 * self._chunk)
                except zlib.error as error:
                    reason = f"the compressed data are damaged ({error})"
                    raise ImportFileError(self.path, reason, offset=self.consumed - len(data)) from error
                if out:
                    yield out
                if member.eof:
                    break
                data = member.unconsumed_tail
                if not data and not out:
                    data = self._read(handle)
                    if not data:
                        reason = "the compressed data end too early: the file is cut"
                        raise ImportFileError(self.path, reason, offset=self.consumed)
            data = self._next_member(handle, member.unused_data)

    def _next_member(self, handle: BinaryIO, data: bytes) -> bytes:
        """Return the start of the next gzip member without zero padding, empty at the end."""
        data = data.lstrip(b"\0")
        while len(data) < 2:
            more = self._read(handle)
            if not more:
                break
            data = (data + more).lstrip(b"\0")
        if data and not data.startswith(_GZIP):
            reason = "after the compressed data comes something else"
            raise ImportFileError(self.path, reason, offset=self.consumed - len(data))
        return data

    def _expect_bgzip_end(self) -> None:
        with self.open() as handle:
            handle.seek(max(0, self.total - len(BGZIP_END)), os.SEEK_SET)
            end = handle.read(len(BGZIP_END))
        if end != BGZIP_END:
            raise ImportFileError(self.path, "bgzip's end mark is missing: the file is cut", offset=self.total)


def _files(path: Path) -> list[Path]:
    """Return the files of a path: of a directory, the two tables of the taxonomy dump, the only supported directory."""
    return [path / "names.dmp", path / "nodes.dmp"] if path.is_dir() else [path]


def _is_bgzip(head: bytes) -> bool:
    return len(head) >= 16 and head[3] & 4 != 0 and head[12:14] == b"BC"


def split_lines(source: Source, chunks: Iterator[bytes], max_line: int = MAX_LINE) -> Iterator[Line]:
    """Yield lines as ``Source.lines`` does, from chunks other than the file's own, such as a member of an archive."""
    number = 0
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        block, newline, rest = chunk.rpartition(b"\n")
        if newline:
            pending.append(block)
            whole = b"".join(pending)
            texts = _decoded(whole if number else _without_mark(source, whole))
            yield from enumerate(texts, number + 1)
            number += len(texts)
            pending, size = [], 0
        pending.append(rest)
        size += len(rest)
        if size > max_line:
            raise source.error(f"the line is longer than {max_line} bytes", number + 1)
    last = b"".join(pending)
    if last:
        last = _without_mark(source, last) if number == 0 else last
        yield from enumerate(_decoded(last), number + 1)


def _without_mark(source: Source, block: bytes) -> bytes:
    if block.startswith(_UTF16):
        raise source.error("the text is UTF-16; UTF-8 is needed")
    return block.removeprefix(b"\xef\xbb\xbf")


def _decoded(block: bytes) -> list[str | None]:
    texts: list[str | None] = []
    try:
        whole = block.decode("utf-8")
    except UnicodeDecodeError:
        for line in block.split(b"\n"):
            try:
                texts.append(line.decode("utf-8").removesuffix("\r"))
            except UnicodeDecodeError:
                texts.append(None)
        return texts
    if "\r" in whole:
        whole = whole.replace("\r\n", "\n").removesuffix("\r")
    texts.extend(whole.split("\n"))
    return texts


@dataclass(frozen=True, slots=True)
class Member:
    """Represent a regular file of an archive.

    ``number`` is 1-based among all entries; ``name`` has no folders. Read ``content`` before requesting the next
    member; unread content is skipped.
    """

    number: int
    name: str
    content: Iterator[bytes]


def is_tar(source: Source) -> bool:
    """Return True if the file, decompressed if it is gzip, begins as a POSIX or GNU tar archive."""
    head = _Stream(source).upto(_BLOCK)
    return head[257:262] == b"ustar"


def tar_members(source: Source) -> Iterator[Member]:
    """Yield the regular files of a tar archive.

    Raises:
        ImportFileError: the archive is damaged, or ends without its end mark.
    """
    stream = _Stream(source)
    number, long_name, long_size = 0, "", -1
    while (header := _header(stream, number)) is not None:
        number += 1
        size = header.size if long_size < 0 else long_size
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            text = stream.exactly(min(size, _MAX_NAME), number)
            stream.skip(-size % _BLOCK + max(0, size - _MAX_NAME), number)
            if header.type == tarfile.GNUTYPE_LONGNAME:
                long_name = text.rstrip(b"\0").decode("utf-8", "replace")
            else:
                long_name, long_size = _pax(text, long_name)
            continue
        content = stream.content(size, number)
        if header.isreg():
            yield Member(number, (long_name or header.name).rpartition("/")[2], content)
        for _ in content:
            pass
        stream.skip(-size % _BLOCK, number)
        long_name, long_size = "", -1
    stream.drain()


def tar_member(source: Source, name: str) -> Iterator[bytes]:
    """Yield the content of the first member with this base name.

    Reads the archive to its end, because the gzip checksum is there.

    Raises:
        ImportFileError: the archive has no such member, or is damaged.
    """
    found = False
    for member in tar_members(source):
        if member.name == name and not found:
            found = True
            yield from member.content
    if not found:
        raise source.error(f"the archive holds no {name}")


def zip_member(source: Source, name: str) -> Iterator[bytes]:
    """Yield the content of the first member of a zip archive with this base name.

    ``source.consumed`` grows by the compressed size of what was read.

    Raises:
        ImportFileError: the archive has no such member, or is damaged.
    """
    try:
        with zipfile.ZipFile(source.path) as archive:
            found = [info for info in archive.infolist() if info.filename.rpartition("/")[2] == name]
            if not found:
                raise source.error(f"the archive holds no {name}")
            ratio = found[0].compress_size / max(1, found[0].file_size)
            with archive.open(found[0]) as content:
                while piece := content.read(CHUNK):
                    source.consumed += int(len(piece) * ratio)
                    yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise source.error(f"the zip archive is damaged ({error})") from error


def _header(stream: _Stream, number: int) -> tarfile.TarInfo | None:
    block = stream.upto(_BLOCK)
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError as error:
        if len(block) == _BLOCK and not any(block):
            return None
        what = "the tar archive is damaged" if len(block) == _BLOCK else "the tar archive is cut"
        raise stream.source.error(f"{what} after {number} entries ({error})") from error


def _pax(text: bytes, name: str) -> tuple[str, int]:
    """Parse a pax extended header, one "LENGTH KEY=VALUE" a line, into (path, size or -1)."""
    size = -1
    for record in text.split(b"\n"):
        key, _, value = record.partition(b" ")[2].partition(b"=")
        if key == b"path":
            name = value.decode("utf-8", "replace")
        elif key == b"size" and value.isdigit():
            size = int(value)
    return name, size


class _Stream:
    """Read the decompressed content of a file by byte counts."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._chunks = source.chunks()
        self._buffer = b""
        self._at = 0

    def upto(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end of the file."""
        parts: list[bytes] = []
        while size:
            part = self._piece(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def exactly(self, size: int, number: int) -> bytes:
        data = self.upto(size)
        if len(data) < size:
            raise self._cut(number)
        return data

    def content(self, size: int, number: int) -> Iterator[bytes]:
        while size:
            part = self._piece(size)
            if not part:
                raise self._cut(number)
            size -= len(part)
            yield part

    def skip(self, size: int, number: int) -> None:
        for _ in self.content(size, number):
            pass

    def drain(self) -> None:
        """Read to the end of the file, where gzip stores its checksum."""
        while self._piece(CHUNK):
            pass

    def _piece(self, size: int) -> bytes:
        if self._at == len(self._buffer):
            self._buffer, self._at = next(self._chunks, b""), 0
        piece = self._buffer[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def _cut(self, number: int) -> ImportFileError:
        return self.source.error(f"the tar archive is cut in its entry {number}")
