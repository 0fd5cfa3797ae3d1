"""Split a large XML file into its records without building the file's tree.

The bytes of each record are passed on unchanged, so that they can be stored as NCBI sent them, a malformed record
affects no other, and skipping needs no parsing. No DTD is read and no entity is expanded: a document type with its own
declarations is rejected, and each record is parsed without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from retrieval.errors import ImportFileError
from retrieval.formats.items import MalformedRecord, shown
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import MAX_DEPTH, TOO_DEEP, is_too_deep

MAX_RECORD: Final = 16 * 2**20
_MAX_PROLOG: Final = 64 * 1024
_SPACE: Final = b" \t\r\n"
_NAME: Final = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_NAMESPACE: Final = re.compile(rb"\s(xmlns(?::[\w.-]+)?)\s*=\s*(\"[^\"<]*\"|'[^'<]*')")
_ENCODING: Final = re.compile(rb"encoding\s*=\s*[\"']([^\"']+)[\"']")
_ENCODINGS: Final = frozenset((b"utf-8", b"utf8", b"us-ascii", b"ascii"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Describe the structure of an XML file.

    ``root`` contains ``records``, none within another. ``alone``: a record that may be the root element itself, "" if
    none.
    """

    root: str
    records: frozenset[str]
    alone: str = ""
    max_record: int = MAX_RECORD


@dataclass(frozen=True, slots=True)
class RawRecord:
    """Hold the bytes of one record.

    ``data`` is the whole element, or the available part of a broken one; ``trouble`` then states the fault.
    """

    line: int
    name: str
    data: bytes
    trouble: str = ""


def records(source: Source, chunks: Iterator[bytes], layout: Layout) -> Iterator[RawRecord]:
    """Yield the records of an XML file.

    Raises:
        ImportFileError: the root is another element, the file ends before the root does, or a record is too large.
    """
    return _Cutter(source, chunks, layout).records()


def parse(record: RawRecord) -> tuple[ElementTree.Element, str]:
    """Parse a record into (element, its unchanged text).

    An entity that only a DTD could define counts as malformed.

    Raises:
        MalformedRecord: the record is not well-formed XML in UTF-8, or nested deeper than any article.
    """
    if record.trouble:
        raise MalformedRecord(record.trouble)
    try:
        element, text = ElementTree.fromstring(record.data), record.data.decode("utf-8")
    except ElementTree.ParseError as error:
        line, column = error.position
        what = str(error).partition(":")[0]
        raise MalformedRecord(f"{record.name}: {what}, line {record.line + line - 1}, column {column + 1}") from None
    except UnicodeDecodeError:
        raise MalformedRecord(f"{record.name}: not valid UTF-8") from None
    if is_too_deep(element):
        raise MalformedRecord(f"{record.name}: {TOO_DEEP}")
    return element, text


class _Cutter:
    """Scan an XML stream for records.

    ``_buffer[_at:]`` has been read and not yet consumed; ``_line`` is the line on which it begins.
    """

    def __init__(self, source: Source, chunks: Iterator[bytes], layout: Layout) -> None:
        self._source = source
        self._chunks = chunks
        self._layout = layout
        self._buffer = b""
        self._at = 0
        self._line = 1
        self._namespaces = b""
        self._unclosed = 0

    def records(self) -> Iterator[RawRecord]:
        root = self._root()
        if root == self._layout.alone:
            yield self._record(root)
            self._only_trailer()
            return
        tag = self._pass(self._find(b">", _MAX_PROLOG) + 1)
        self._namespaces = b"".join(b" " + found[0] for found in _NAMESPACE.finditer(tag))
        if tag.endswith(b"/>"):
            self._only_trailer()
            return
        end = b"</" + root.encode()
        while True:
            self._space()
            if self._looking_at(end):
                self._pass(self._find(b">", _MAX_PROLOG) + 1)
                break
            if not self._aside():
                yield self._child()
        self._only_trailer()

    def _root(self) -> str:
        """Return the root element's name and stop at its start tag."""
        if self._looking_at(b"\xef\xbb\xbf"):
            self._pass(3)
        if self._looking_at(b"\xff\xfe") or self._looking_at(b"\xfe\xff"):
            raise self._error("the text is UTF-16; UTF-8 is needed")
        self._space()
        allowed = [name for name in (self._layout.root, self._layout.alone) if name]
        expected = " or ".join(f"<{name}>" for name in allowed)
        if not self._has(1):
            raise self._error(f"the file is empty; {expected} was expected")
        self._declaration()
        while self._aside() or self._doctype():
            self._space()
        name = self._name()
        if name not in allowed:
            raise self._error(f"{expected} was expected, not {shown(self._start())}")
        return name

    def _declaration(self) -> None:
        if self._looking_at(b"<?xml"):
            size = self._find(b"?>", _MAX_PROLOG) + 2
            found = _ENCODING.search(self._peek(size))
            if found and found[1].lower() not in _ENCODINGS:
                raise self._error(f"the encoding is {found[1].decode('ascii', 'replace')}; UTF-8 is needed")
            self._pass(size)
            self._space()

    def _doctype(self) -> bool:
        if not self._looking_at(b"<!DOCTYPE"):
            return False
        size = self._find(b">", _MAX_PROLOG) + 1
        if b"[" in self._peek(size):
            raise self._error("the document type declares entities or the like; NCBI's files do not")
        self._pass(size)
        return True

    def _aside(self) -> bool:
        """Consume a comment or a processing instruction; False if there is none here."""
        for start, end in ((b"<!--", b"-->"), (b"<?", b"?>")):
            if self._looking_at(start):
                self._pass(self._find(end, self._layout.max_record, len(start)) + len(end))
                return True
        return False

    def _child(self) -> RawRecord:
        name = self._name()
        if not name:
            if not self._has(1):
                raise self._error(f"the file ends before </{self._layout.root}>: it is cut")
            trouble = f"text between records: {shown(self._start())}"
            return RawRecord(self._line, "", self._pass(self._find(b"<", self._layout.max_record, 1)), trouble)
        if name not in self._layout.records:
            record = self._record(name)
            return RawRecord(record.line, name, b"", record.trouble or f"an element <{name}> is not expected here")
        return self._record(name)

    def _record(self, name: str) -> RawRecord:
        """Return the element that begins here; if its start tag recurs before its end tag, it was never closed.

        Raises:
            ImportFileError: too many elements in sequence were never closed, which are nested elements.
        """
        line, tag_end = self._line, self._find(b">", self._layout.max_record) + 1
        if self._peek(tag_end).endswith(b"/>"):
            return RawRecord(line, name, self._pass(tag_end))
        # Whichever comes first decides: to look for each alone would read a nested file once for every level.
        tag = name.encode()
        size, closed = self._first(b"</" + tag + b">", b"<" + tag, tag_end)
        if not closed:
            self._unclosed += 1
            if self._unclosed > MAX_DEPTH:
                raise self._error(f"<{name}>: {TOO_DEEP}")
            return RawRecord(line, name, self._pass(size), f"<{name}> begins again before it is closed")
        self._unclosed = 0
        data = self._pass(size + len(name) + 3)
        if self._namespaces:
            data = _with_namespaces(data, self._namespaces)
        return RawRecord(line, name, data)

    def _first(self, end: bytes, start: bytes, offset: int) -> tuple[int, bool]:
        """Return the offset of the next end tag or start tag of a record, and whether it is the end tag.

        Raises:
            ImportFileError: neither comes within the limit of a record.
        """
        pattern = re.compile(re.escape(end) + b"|" + re.escape(start) + rb"(?=[\s>/])")
        limit = self._layout.max_record
        while (found := pattern.search(self._buffer, self._at + offset)) is None:
            offset = max(offset, len(self._buffer) - self._at - len(end))
            if len(self._buffer) - self._at > limit:
                raise self._error(f"{end.decode()} does not come within {limit} bytes of {shown(self._start())}")
            if not self._more():
                raise self._error(f"the file ends before {end.decode()} of {shown(self._start())}: it is cut")
        return found.start() - self._at, found[0] == end

    def _only_trailer(self) -> None:
        """Read to the end of the file, where gzip stores its checksum; only comments may follow the root."""
        self._space()
        while self._aside():
            self._space()
        if self._has(1):
            raise self._error(f"after the end of the document comes {shown(self._start())}")

    def _name(self) -> str:
        self._has(256)
        found = _NAME.match(self._buffer, self._at)
        return found[1].decode("ascii", "replace") if found else ""

    def _start(self) -> str:
        return self._buffer[self._at : self._at + 60].decode("utf-8", "replace")

    def _peek(self, size: int) -> bytes:
        return self._buffer[self._at : self._at + size]

    def _pass(self, size: int) -> bytes:
        data = self._buffer[self._at : self._at + size]
        self._at += size
        self._line += data.count(b"\n")
        return data

    def _space(self) -> None:
        while self._has(1):
            rest = self._buffer[self._at : self._at + 4096]
            size = len(rest) - len(rest.lstrip(_SPACE))
            if not size:
                return
            self._pass(size)

    def _looking_at(self, text: bytes) -> bool:
        self._has(len(text))
        return self._buffer.startswith(text, self._at)

    def _has(self, size: int) -> bool:
        """Read until this many bytes are ahead; False if the file ends first."""
        while len(self._buffer) - self._at < size:
            if not self._more():
                return False
        return True

    def _find(self, text: bytes, limit: int, offset: int = 0) -> int:
        """Return the offset of the next ``text`` from here.

        Raises:
            ImportFileError: it does not occur within ``limit`` bytes.
        """
        while (found := self._buffer.find(text, self._at + offset)) < 0:
            offset = max(offset, len(self._buffer) - self._at - len(text) + 1)
            if len(self._buffer) - self._at > limit:
                raise self._error(f"{text.decode()} does not come within {limit} bytes of {shown(self._start())}")
            if not self._more():
                raise self._error(f"the file ends before {text.decode()} of {shown(self._start())}: it is cut")
        return found - self._at

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return True

    def _error(self, reason: str) -> ImportFileError:
        return self._source.error(reason, self._line)


def _with_namespaces(data: bytes, declared: bytes) -> bytes:
    """Return the record with the root's namespace declarations added, except those that it makes itself."""
    tag_end = data.index(b">")
    own = {found[1] for found in _NAMESPACE.finditer(data[:tag_end])}
    missing = b"".join(b" " + found[0].strip() for found in _NAMESPACE.finditer(declared) if found[1] not in own)
    at = tag_end - 1 if data[tag_end - 1 : tag_end] == b"/" else tag_end
    return data[:at] + missing + data[at:]
