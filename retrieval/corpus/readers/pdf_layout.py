"""Tell the text of PDF pages from running heads, page numbers and line numbers, and put its lines together. Pure.

Lines come as the pages draw them: column by column in nearly all papers, with what a margin holds before, between or
behind. A line is left out only for a reason that no table of numbers has: it stands on other pages too, unchanged but
for a number that grows with the page, or it counts the lines one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from retrieval.formats.english import join_broken_words, words_of
from retrieval.formats.notation import plain

_MARGIN: Final = 0.12
_OUTER_ROWS: Final = 3
_FEWEST_PAGES: Final = 3  # that share a frame, 2 of a document of four and less
_FEW_PAGES: Final = 4
_NEAR: Final = 4.0  # points
_NUMBER: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LINE_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_STEPS: Final = frozenset((1, 2, 5, 10))
_FEWEST_NUMBERS: Final = 5
_FEWEST_IN_ALL: Final = 20
_NUMBERED_SHARE: Final = 0.6


class PdfLine(NamedTuple):
    """Hold a piece of a line: its text with marks, its left and right edge, its base line from the top, and its size.

    ``goes_on``: it stands in the row of the piece before. Lengths are points.
    """

    text: str
    x0: float
    x1: float
    y: float
    size: float
    goes_on: bool = False


class PdfPage(NamedTuple):
    """Hold the lines of one page and its height in points."""

    height: float
    lines: tuple[PdfLine, ...]


Row = tuple[PdfLine, ...]


def page_texts(pages: Mapping[int, PdfPage]) -> dict[int, str]:
    """Return the text of each page by its number, "" for one that holds no more than its frame."""
    rows = {number: _rows(page.lines) for number, page in pages.items()}
    frames = _frames({number: _outer_rows(page.height, rows[number]) for number, page in pages.items()})
    inner = {number: [row for row in found if row not in frames[number]] for number, found in rows.items()}
    numbers = {number: _line_numbers([line for row in found for line in row]) for number, found in inner.items()}
    # Numbers beside the rows of one table are none of the lines of a manuscript, which has them on all its pages.
    is_numbered = sum(map(bool, numbers.values())) * 2 >= len(pages)
    is_numbered = is_numbered and sum(map(len, numbers.values())) >= _FEWEST_IN_ALL
    texts = {
        number: [_text(row) for row in (_without(found, numbers[number]) if is_numbered else found)]
        for number, found in inner.items()
    }
    known = words_of(line for lines in texts.values() for line in lines)
    return {number: "\n".join(join_broken_words(filter(None, lines), known)) for number, lines in texts.items()}


def _rows(lines: Sequence[PdfLine]) -> list[Row]:
    rows: list[list[PdfLine]] = []
    for line in lines:
        if line.goes_on and rows:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [tuple(row) for row in rows]


def _text(row: Row) -> str:
    return " ".join(plain(" ".join(line.text for line in row)).split())


def _outer_rows(height: float, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that may be running heads or feet: the outermost ones within the margins."""
    tops = sorted({row[0].y for row in rows})
    outer = {*tops[:_OUTER_ROWS], *tops[-_OUTER_ROWS:]}
    edge = _MARGIN * height
    return [row for row in rows if row[0].y in outer and not edge <= row[0].y <= height - edge]


def _frames(outer: Mapping[int, Sequence[Row]]) -> dict[int, set[Row]]:
    """Return the rows of each page that stand on others too; the first page that has one with words keeps it."""
    pages: defaultdict[str, set[int]] = defaultdict(set)
    for number, rows in outer.items():
        for row in rows:
            for key in _keys(_text(row), number):
                pages[key].add(number)
    needed = _FEWEST_PAGES if len(outer) > _FEW_PAGES else _FEWEST_PAGES - 1
    found: dict[int, set[Row]] = {number: set() for number in outer}
    for number, rows in outer.items():
        for row in rows:
            text = _text(row)
            alike = [pages[key] for key in _keys(text, number) if len(pages[key]) >= needed]
            has_words = any(map(str.isalpha, text))
            if any(not has_words or number > min(same) for same in alike):
                found[number].add(row)
    return found


def _keys(text: str, page: int) -> Iterator[str]:
    """Yield what equal rows of several pages share: the text, or all of it but a number that grows with the page."""
    if any(map(str.isalpha, text)):
        yield text
    for found in _NUMBER.finditer(text):
        yield f"{text[: found.start()]}\0{int(found[0]) - page}\0{text[found.end() :]}"


def _without(rows: Sequence[Row], left_out: set[PdfLine]) -> list[Row]:
    parts = (tuple(line for line in row if line not in left_out) for row in rows)
    return [row for row in parts if row]


def _line_numbers(lines: Sequence[PdfLine]) -> set[PdfLine]:
    """Return the numbers one below the other that count in equal steps, one for nearly each line beside them."""
    columns: defaultdict[tuple[str, int], list[PdfLine]] = defaultdict(list)
    for line in lines:
        if _LINE_NUMBER.fullmatch(line.text):
            columns["left", round(line.x0 / _NEAR)].append(line)
            columns["right", round(line.x1 / _NEAR)].append(line)
    found: set[PdfLine] = set()
    for column in columns.values():
        column.sort(key=lambda line: line.y)
        steps = {int(after.text) - int(before.text) for before, after in pairwise(column)}
        if len(column) < _FEWEST_NUMBERS or len(steps) != 1 or not steps <= _STEPS:
            continue
        beside = {
            round(line.y / _NEAR)
            for line in lines
            if column[0].y - 1 <= line.y <= column[-1].y + 1 and line not in column
        }
        if len(column) >= _NUMBERED_SHARE * len(beside) / steps.pop():
            found.update(column)
    return found
