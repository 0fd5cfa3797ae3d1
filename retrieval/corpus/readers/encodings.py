"""Decode text files of unknown encoding, or refuse them with the reason."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

from retrieval.corpus.errors import DocumentUnreadable

UTF_8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Text has tabs, line ends and form feeds; any other control character means that it was decoded wrongly or is no text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")
# In use for texts of these fields; rare ones would be guessed for common texts with an odd letter (5 µg).
_CANDIDATES: Final = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "mac_roman",
    "utf_16_le", "utf_16_be", "cp932", "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
# Where several are as likely, this one is the usual one.
_WESTERN: Final = "cp1252"
_TIE: Final = 0.02
_SAMPLE: Final = 256 * 1024


class UndecodedText(ValueError):
    """Report bytes that are no text in any encoding that is recognized."""


def decoded(data: bytes, path: Path) -> tuple[str, str]:
    """Return the text of a file with the name of its encoding.

    Raises:
        DocumentUnreadable: it is no text, or its encoding is not recognized.
    """
    try:
        return decode_text(data)
    except UndecodedText as error:
        raise DocumentUnreadable(f"{path}: {error}") from None


def decode_text(data: bytes) -> tuple[str, str]:
    """Return the text with the name of its encoding: UTF-8, that of a byte order mark, or the most likely one.

    Raises:
        UndecodedText: the bytes are no text, or their encoding is not recognized.
    """
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    try:
        text, name = data.decode(marked or UTF_8), UTF_8 if marked in ("", "utf-8-sig") else marked
    except UnicodeDecodeError as error:
        if marked:
            raise UndecodedText(f"not valid {marked.upper()} at byte {error.start}") from None
        text, name = _guessed(data, error.start)
    if "\0" in text:
        raise UndecodedText("it holds NUL characters")
    if name != UTF_8 and _CONTROL.search(text):
        raise UndecodedText(f"read as {name} it holds control characters")
    return text, name


def _guessed(data: bytes, bad: int) -> tuple[str, str]:
    import charset_normalizer

    # The sample has the first byte that is not UTF-8, which tells the encoding best.
    start = max(0, bad - _SAMPLE // 2)
    found = charset_normalizer.from_bytes(data[start : start + _SAMPLE], cp_isolation=list(_CANDIDATES))
    best = found.best()
    if best is None:
        raise UndecodedText(f"not valid UTF-8 at byte {bad}, and no other encoding is likely: save it as UTF-8")
    likely = [one for one in found if _WESTERN in one.could_be_from_charset and one.chaos <= best.chaos + _TIE]
    name = _WESTERN if likely else best.encoding
    try:
        return data.decode(name), name
    except (UnicodeDecodeError, LookupError):
        raise UndecodedText(f"not valid UTF-8 at byte {bad}, nor {name} throughout: save it as UTF-8") from None
