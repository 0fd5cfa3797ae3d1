"""Parse publication dates at their known precision: "2003", "2003-05", "2003-05-02"."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR: Final = re.compile(r"(?<![0-9])(1[5-9][0-9]{2}|20[0-9]{2})(?![0-9])", re.ASCII)
_SHORT: Final = re.compile(r"[0-9]{1,2}", re.ASCII)
_AFTER_YEAR: Final = re.compile(r"\s+([A-Za-z]{3,9})(?:\.?\s+([0-9]{1,2})(?![0-9]))?", re.ASCII)


def date_of(element: Element | None) -> str:
    """Return the date of an element with Year, Month and Day or with MedlineDate, "" without a year.

    The first date of a MedlineDate is used. Tags may be in lower case, as in JATS.
    """
    if element is None:
        return ""
    parts = {child.tag.rpartition("}")[2].lower(): (child.text or "").strip() for child in element}
    if "medlinedate" in parts:
        return medline_date(parts["medlinedate"])
    return _date(parts.get("year", ""), parts.get("month", ""), parts.get("day", ""))


def medline_date(text: str) -> str:
    """Parse a MedlineDate.

    "1998 Dec-1999 Jan" gives 1998-12, "1978 Jul 15-31" 1978-07-15, "Spring 2000" and "2000 Spring" 2000.
    """
    year = _YEAR.search(text)
    if year is None:
        return ""
    after = _AFTER_YEAR.match(text, year.end())
    return _date(year[1], after[1] if after else "", (after[2] or "") if after else "")


def _date(year: str, month: str, day: str) -> str:
    if not _YEAR.fullmatch(year):
        return ""
    number = int(month) if _SHORT.fullmatch(month) else _month(month)
    if not 1 <= number <= 12:
        return year
    if not (_SHORT.fullmatch(day) and 1 <= int(day) <= 31):
        return f"{year}-{number:02}"
    return f"{year}-{number:02}-{int(day):02}"


def _month(name: str) -> int:
    short = name[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0
