"""Stream the elements of large JSON arrays in constant memory, each with its line number."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.graph.errors import GraphFileInvalid
from retrieval.graph.loaders.reading import chunks

_MOST: Final = 16 << 20
_SPACE: Final = " \t\r\n"


class _Text:
    """Buffer the part of a file that is being parsed, with the current line number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chunks = chunks(path)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._counted, self.line = "", 0, 0, 1
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """Parse the next value and set ``line`` to the line on which it begins."""
        if not self.peek():
            raise self.fault("the file is cut")
        self._count()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as fault:
                if len(self._text) - self._at > _MOST or not self._more():
                    raise self.fault(f"it is cut or no JSON: {getattr(fault, 'msg', fault)}") from fault
                continue
            # A number or literal at the end of the buffer may continue in the next block.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return found

    def fault(self, reason: str) -> GraphFileInvalid:
        self._count()
        return GraphFileInvalid(f"{self._path}: line {self.line}: {reason}", param="files")

    def _count(self) -> None:
        self.line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at

    def _more(self) -> bool:
        self._count()
        block = next(self._chunks, None)
        try:
            read = self._decode.decode(block or b"", final=block is None)
        except UnicodeDecodeError as fault:
            raise self.fault("it is no UTF-8") from fault
        self._text, self._at, self._counted = self._text[self._at :] + read, 0, 0
        return block is not None


def array_items(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, element) of a file that is one array.

    Raises:
        GraphFileInvalid: the file is not one array.
    """
    text = _Text(path)
    if text.peek() != "[":
        raise text.fault("it is no JSON array")
    yield from _items(text)
    if text.peek():
        raise text.fault("something comes after the array")


def member_items(path: Path, wanted: str) -> Iterator[tuple[int, Any]]:
    """Yield (line, element) of the array ``wanted`` of a file that is one object; its other members are skipped.

    Raises:
        GraphFileInvalid: the file is not one object, or has no such array.
    """
    text, found = _Text(path), False
    if not text.take("{"):
        raise text.fault("it is no JSON object")
    while not text.take("}"):
        name = text.value()
        if not isinstance(name, str) or not text.take(":"):
            raise text.fault("a member has no name")
        if text.peek() == "[":
            for item in _items(text):
                if name == wanted:
                    yield item
            found = found or name == wanted
        else:
            text.value()
        if not text.take(",") and text.peek() != "}":
            raise text.fault("it ends within the object")
    if text.peek():
        raise text.fault("something comes after the object")
    if not found:
        raise text.fault(f"it has no array {wanted!r}")


def _items(text: _Text) -> Iterator[tuple[int, Any]]:
    text.take("[")
    if text.take("]"):
        return
    while True:
        found = text.value()
        yield text.line, found
        if text.take("]"):
            return
        if not text.take(","):
            raise text.fault("it ends within an array")
