"""Tell the text of PDF pages from running heads, page numbers and line numbers, and put its lines together. Pure.

Lines come as the pages draw them: column by column in nearly all papers, with what a margin holds before, between or
behind. Where a page draws its columns row by row, ``in_columns`` puts them one behind the other. A line is left out
only for a reason that no table of numbers has: it stands on other pages too, unchanged but for a number that grows with
the page, or it counts the lines one by one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from statistics import median
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
# Columns of text: so many rows side by side, of so many characters, which fill this share of a column's width; the
# widest is at most so much wider than the narrowest. Cells of a table are short, or fill a row of their own width.
_FEWEST_BESIDE: Final = 6
_COLUMN_CHARS: Final = 30
_FILLED: Final = 0.75
_WIDEST: Final = 1.7
_INDENT: Final = 36.0  # points
# A title is in the largest letters of its page, and in larger ones than most of its text.
_LARGER: Final = 1.15
_SAME_SIZE: Final = 0.04
_FEWEST_LETTERS: Final = 4
_LONGEST_TITLE: Final = 300


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
        number: [_text(row) for row in _in_columns(_without(found, numbers[number]) if is_numbered else found)]
        for number, found in inner.items()
    }
    known = words_of(line for lines in texts.values() for line in lines)
    return {number: "\n".join(join_broken_words(filter(None, lines), known)) for number, lines in texts.items()}


def title_of(page: PdfPage) -> str:
    """Return the title that a first page shows: its lines in the largest letters; "" where it has none that stand out.

    Single letters that are larger still (initials, marks of a journal) are none.
    """
    rows = [row for row in _rows(page.lines) if sum(map(str.isalpha, _text(row))) >= _FEWEST_LETTERS]
    sizes = Counter[float]()
    for row in rows:
        sizes[_size(row)] += len(_text(row))
    if not sizes or (largest := max(sizes)) < _LARGER * sizes.most_common(1)[0][0]:
        return ""
    first = next(place for place, row in enumerate(rows) if _size(row) >= largest * (1 - _SAME_SIZE))
    lines = list(takewhile(lambda row: _size(row) >= largest * (1 - _SAME_SIZE), rows[first:]))
    title = " ".join(join_broken_words([_text(row) for row in lines], words_of(map(_text, rows)))).strip()
    return title if len(title) <= _LONGEST_TITLE else ""


def _size(row: Row) -> float:
    return max(line.size for line in row)


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


def in_columns(lines: Sequence[PdfLine]) -> list[int]:
    """Return the places of the lines in the order in which they are read.

    It is that in which they are drawn, but for stretches of text in columns that were drawn row by row.
    """
    starts = _column_starts(lines)
    if len(starts) < 2:
        return list(range(len(lines)))
    order: list[int] = []
    stretch: list[tuple[int, int]] = []  # column and place
    for place, line in enumerate(lines):
        column = _column_of(line, starts)
        is_above = bool(stretch) and line.y < lines[stretch[-1][1]].y - line.size
        if column is None or is_above:
            order += _read_order(stretch, lines)
            stretch = []
        if column is None:
            order.append(place)
        else:
            stretch.append((column, place))
    return order + _read_order(stretch, lines)


def _in_columns(rows: Sequence[Row]) -> list[Row]:
    lines = [line for row in rows for line in row]
    order = in_columns(lines)
    if order == list(range(len(lines))):
        return list(rows)
    row_of = [number for number, row in enumerate(rows) for _ in row]
    kept: list[list[int]] = []
    for place in order:
        # Pieces of a row stay together where they are also read one after the other.
        if kept and kept[-1][-1] == place - 1 and row_of[place] == row_of[place - 1]:
            kept[-1].append(place)
        else:
            kept.append([place])
    return [tuple(lines[place] for place in row) for row in kept]


def _column_starts(lines: Sequence[PdfLine]) -> list[float]:
    """Return the left edges of what stands side by side again and again, the leftmost first; [] where nothing does."""
    beside: Counter[int] = Counter()
    for before, line in pairwise(lines):
        if line.x0 > before.x1 and abs(line.y - before.y) < line.size:
            beside[round(line.x0 / _NEAR)] += 1
    most = max(beside.values(), default=0)
    if most < _FEWEST_BESIDE:
        return []
    starts = [min(line.x0 for line in lines)]
    for edge in sorted(edge for edge, number in beside.items() if number * 2 >= most):
        if (left := (edge - 0.5) * _NEAR) - starts[-1] > _INDENT:
            starts.append(left)
    return starts


def _column_of(line: PdfLine, starts: Sequence[float]) -> int | None:
    """Return the column that a line stands in, None for one that reaches into the next."""
    column = max((number for number, start in enumerate(starts) if start <= line.x0 + 1), default=0)
    is_wide = column + 1 < len(starts) and line.x1 > starts[column + 1]
    return None if is_wide else column


def _read_order(stretch: Sequence[tuple[int, int]], lines: Sequence[PdfLine]) -> list[int]:
    """Return the places of a stretch column by column where its columns are text, else as drawn."""
    columns: defaultdict[int, list[int]] = defaultdict(list)
    for column, place in stretch:
        columns[column].append(place)
    drawn = [place for _, place in stretch]
    if len(columns) < 2:
        return drawn
    shapes = [_shape([lines[place] for place in places]) for places in columns.values()]
    is_text = all(rows >= _FEWEST_BESIDE and chars >= _COLUMN_CHARS and filled for rows, chars, filled, _ in shapes)
    widths = [width for *_, width in shapes]
    if not is_text or max(widths) > _WIDEST * min(widths):
        return drawn
    return [place for column in sorted(columns) for place in columns[column]]


def _shape(lines: Sequence[PdfLine]) -> tuple[int, float, bool, float]:
    """Return the number of rows of a column, the characters of most, whether they fill its width, and this width."""
    rows: defaultdict[float, list[PdfLine]] = defaultdict(list)
    for line in lines:
        rows[line.y].append(line)
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    width = (right - left) or 1.0
    filled = median(max(line.x1 for line in row) - min(line.x0 for line in row) for row in rows.values()) / width
    chars = median(sum(len(line.text) for line in row) for row in rows.values())
    return len(rows), chars, filled >= _FILLED, width
