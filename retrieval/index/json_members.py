"""Read the members of one very large JSON object one by one, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.index.errors import IndexInputInvalid

_BLOCK: Final = 1 << 20
_MOST: Final = 16 << 20
_SPACE: Final = " \t\r\n"


class _Text:
    """Buffer the part of a file that is being parsed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open(encoding="utf-8")
        self._text, self._at = "", 0
        self._decoder = json.JSONDecoder()

    def close(self) -> None:
        self._file.close()

    def sign(self) -> str:
        """Consume and return the next character that is not white space, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                self._at += 1
                return self._text[self._at - 1]
            if not self._more():
                return ""

    def back(self) -> None:
        self._at -= 1

    def value(self) -> Any:
        """Consume and return the next string, list or object.

        Numbers must not stand alone, because a truncated one cannot be recognised.
        """
        if self.sign():
            self.back()
        while True:
            try:
                found, self._at = self._decoder.raw_decode(self._text, self._at)
                return found
            except json.JSONDecodeError as fault:
                if len(self._text) - self._at > _MOST or not self._more():
                    raise self.fault(f"it is cut or no JSON: {fault.msg}") from fault

    def fault(self, reason: str) -> IndexInputInvalid:
        return IndexInputInvalid(f"{self._path}: {reason}", param="folder")

    def _more(self) -> bool:
        try:
            block = self._file.read(_BLOCK)
        except UnicodeDecodeError as fault:
            raise self.fault("it is no UTF-8") from fault
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)


def json_members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of each member, in file order; a member may have at most 16 MiB.

    Raises:
        IndexInputInvalid: the file is truncated, or is not a JSON object of strings, lists and objects.
    """
    text = _Text(path)
    try:
        if text.sign() != "{":
            raise text.fault("it is no JSON object")
        sign = text.sign()
        while sign != "}":
            text.back()
            name = text.value()
            if not isinstance(name, str) or text.sign() != ":":
                raise text.fault("a member has no name")
            yield name, text.value()
            sign = text.sign()
            if sign not in (",", "}"):
                raise text.fault("it ends within the object" if not sign else "a comma is missing")
            if sign == ",":
                sign = text.sign()
                if not sign or sign == "}":
                    raise text.fault("it ends after a comma")
    finally:
        text.close()
