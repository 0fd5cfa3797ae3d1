"""Stream single members of tar and zip archives without unpacking to disk; member paths are never used.

The standard library's tar reader treats a damaged header as the end of the archive and stores a list of all members;
here a header is valid, or all zeros (the end), or an error.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from retrieval.errors import ImportFileError
from retrieval.formats.sources import CHUNK, Source

_BLOCK: Final = tarfile.BLOCKSIZE
_MAX_NAME: Final = 2**20


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
