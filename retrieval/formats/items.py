"""Define the items that readers yield and the options that they accept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from xml.etree.ElementTree import Element

from retrieval.formats.records import Entry, Organism
from retrieval.formats.sources import Source

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_YEAR: Final = re.compile(r"(?<![0-9])(1[5-9][0-9]{2}|20[0-9]{2})(?![0-9])", re.ASCII)
_SHORT: Final = re.compile(r"[0-9]{1,2}", re.ASCII)
_ISO_DATE: Final = re.compile(r"[12][0-9]{3}(?:-[0-9]{2}){0,2}", re.ASCII)
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
    if "year" not in parts and (written := _ISO_DATE.match(element.get("iso-8601-date", ""))):
        return written[0]
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
    short = name[:3].title()
    return MONTHS.index(short) + 1 if short in MONTHS else 0


MAX_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Good:
    """Hold one valid record.

    ``line`` is the 1-based line on which the record begins; in a tar archive the 1-based number of the member.
    """

    line: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Bad:
    """Report a skipped record.

    ``line`` as in ``Good``; ``reason`` is a message for people of at most ``MAX_REASON`` characters.
    """

    line: int
    reason: str


Item = Good | Bad


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Select and enrich the records that a reader yields.

    ``organisms``: names by taxonomy id, from an imported taxonomy. ``tax_ids``: only rows of these organisms, for gene
    files. ``only_in_genes``: only rows with a gene or a clinical significance, for dbSNP. ``doi_suffices``: a full text
    without a PMC number is read if it has a DOI.

    A reader's ``skip`` counts items under one set of options and is not valid under another.
    """

    organisms: Mapping[int, Organism] = field(default_factory=dict)
    tax_ids: frozenset[int] | None = None
    only_in_genes: bool = False
    doi_suffices: bool = False


NO_OPTIONS: Final = ReadOptions()


class MalformedRecord(ValueError):
    """Signal inside a reader that the current record becomes a ``Bad`` with this text as its reason."""


def bad(line: int, reason: object) -> Bad:
    text = " ".join(str(reason).split())
    return Bad(line, text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…")


def shown(text: str, limit: int = 40) -> str:
    """Return a value as a reason quotes it: short, on one line."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


class Reader(Protocol):
    """Read one file from its beginning with constant memory.

    The first ``skip`` items are skipped without building records.

    Raises:
        ImportFileError: before the first item if the file is not of the expected kind, later if it is truncated or
            damaged; the items before that point are valid.
    """

    def __call__(self, source: Source, options: ReadOptions = ..., skip: int = ...) -> Iterator[Item]: ...
