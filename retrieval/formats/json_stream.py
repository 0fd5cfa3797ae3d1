"""Stream the members of a large JSON object, or the elements of large arrays, in constant memory with line numbers.

The standard decoder parses each value. ijson has no place here: its events carry no position, and a value nested in
20,000 brackets takes it a gigabyte.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, Final

from retrieval.errors import ImportFileError
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import JSON_TOO_DEEP, is_json_too_deep, whole_characters

MAX_VALUE: Final = 16 << 20
_SPACE: Final = " \t\r\n"


class JsonStream:
    """Parse one JSON document incrementally, once.

    ``_text[_at:]`` is read and not yet consumed; lines are counted up to ``_counted``. Every fault is an
    ImportFileError with the line.
    """

    def __init__(self, source: Source, chunks: Iterator[bytes], *, max_value: int = MAX_VALUE) -> None:
        """Parse the UTF-8 text of ``chunks``; one value may have ``max_value`` characters."""
        self._source = source
        self._chunks = chunks
        self._max_value = max_value
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        # Control characters within strings occur in published files.
        self._decoder = json.JSONDecoder(strict=False)
        self._text, self._at, self._counted, self._line = "", 0, 0, 1
        self._ended = False

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Yield (line, element) of a document that is one array.

        Raises:
            ImportFileError: the document is not one array, or an element is too large or nested too deep.
        """
        if self._peek() != "[":
            raise self._error("it is no JSON array")
        yield from self._items()
        self._only_space("array")

    def members(self) -> Iterator[tuple[int, str, Any]]:
        """Yield (line, name, value) of a document that is one object; a name may come twice.

        Raises:
            ImportFileError: the document is not one object, or a value is too large or nested too deep.
        """
        for line, name in self._names():
            yield line, name, self._value()

    def member_elements(self, array_name: str, *, required: bool = True) -> Iterator[tuple[int, Any]]:
        """Yield (line, element) of one array of a document that is an object, and skip its other members.

        Raises:
            ImportFileError: as ``members``, or there is no such array where one is ``required``.
        """
        found = False
        for _, name in self._names():
            if self._peek() != "[":
                self._value()
                continue
            found = found or name == array_name
            for item in self._items():
                if name == array_name:
                    yield item
        if required and not found:
            raise self._error(f"it has no array {array_name!r}")

    def _names(self) -> Iterator[tuple[int, str]]:
        """Yield (line, name) of each member of the object; the caller consumes the value."""
        if not self._take("{"):
            raise self._error("it is no JSON object")
        more = not self._take("}")
        while more:
            name, line = self._value(), self._line
            if not isinstance(name, str) or not self._take(":"):
                raise self._error("a member has no name")
            yield line, name
            more = self._goes_on("}", "object")
        self._only_space("object")

    def _items(self) -> Iterator[tuple[int, Any]]:
        self._take("[")
        more = not self._take("]")
        while more:
            item = self._value()
            yield self._line, item
            more = self._goes_on("]", "array")

    def _goes_on(self, end: str, what: str) -> bool:
        """Consume a comma, or the end of the object or array, and return whether it was a comma."""
        sign = self._peek()
        if sign not in (",", end):
            raise self._error("a comma is missing" if sign else f"it is cut: it ends within the {what}")
        self._at += 1
        return sign == ","

    def _only_space(self, what: str) -> None:
        if self._peek():
            raise self._error(f"something comes after the {what}")

    def _peek(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more()

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._at += 1
        return True

    def _value(self) -> Any:
        """Parse the next value and set ``_line`` to the line on which it begins."""
        self._peek()
        self._count()
        tried = 0
        while True:
            size = len(self._text) - self._at
            # A value of many chunks is tried again at each doubling only, so that the time grows with its length.
            if size > tried or size > self._max_value or self._ended:
                tried = 2 * size
                try:
                    found, end = self._decoder.raw_decode(self._text, self._at)
                except RecursionError:
                    raise self._error(JSON_TOO_DEEP) from None
                except json.JSONDecodeError as fault:
                    if size > self._max_value or self._ended:
                        raise self._error(f"it is cut or no JSON: {fault.msg}") from fault
                except ValueError as fault:  # a whole number of more digits than Python converts
                    raise self._error(f"it holds a number that is too long: {fault}") from None
                else:
                    # A number at the end of the text may continue in the next chunk: "12" and "12." are 12 so far.
                    whole = end < len(self._text) and self._text[end] not in ".eE"
                    if whole or self._ended or size > self._max_value:
                        if is_json_too_deep(found):
                            raise self._error(JSON_TOO_DEEP)
                        written, self._at = self._text[self._at : end], end
                        readable = whole_characters(written)
                        return found if readable == written else self._decoder.decode(readable)
                    tried = 0
            self._more()

    def _more(self) -> None:
        self._count()
        chunk = next(self._chunks, None)
        self._ended = chunk is None
        try:
            read = self._decode.decode(chunk or b"", final=self._ended)
        except UnicodeDecodeError as fault:
            raise self._error("it is no UTF-8") from fault
        self._text, self._at, self._counted = self._text[self._at :] + read, 0, 0

    def _count(self) -> None:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at

    def _error(self, reason: str) -> ImportFileError:
        self._count()
        return self._source.error(reason, self._line)
