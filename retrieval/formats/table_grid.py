"""Write the tables of articles and pages row by row, so that each number stays below the head of its column.

A cell that spans rows or columns stands in each of them; an empty cell keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.formats.tables import is_number

_CELLS: Final = frozenset(("td", "th"))
_MAX_COLUMNS: Final = 200
_MAX_ROWS: Final = 1000
_MAX_REPEATED: Final = 20_000
SEPARATOR: Final = " | "


def table_rows(table: Element, text_of_cell: Callable[[Element], str]) -> Iterator[str]:
    """Yield each row that has words as one line, its cells between bars; ``text_of_cell`` gives a cell's text.

    A row of one cell, such as a heading within the table, has no bars. Trailing empty cells are left out.
    """
    pending: _Spanned = {}
    repeated = 0
    for row in _rows_of(table):
        grid = _GridRow(pending)
        own = [cell for cell in row if _name(cell) in _CELLS]
        for cell in own:
            columns, rows = _span(cell, "colspan", _MAX_COLUMNS), _span(cell, "rowspan", _MAX_ROWS)
            columns = columns if len(own) > 1 else 1
            repeated += columns * rows - 1
            if repeated > _MAX_REPEATED:
                columns = rows = 1
            grid.put(" ".join(text_of_cell(cell).split()), columns, rows)
        pending = grid.end()
        if any(grid.cells):
            yield SEPARATOR.join(grid.cells).rstrip(" |")


# By place in the row: in how many rows a cell stands from this one on, and its text.
_Spanned = dict[int, tuple[int, str]]


class _GridRow:
    """Fill one row from left to right, with the cells of earlier rows that reach into it at their places."""

    def __init__(self, pending: _Spanned) -> None:
        self.cells: list[str] = []
        self._pending = pending
        self._later: _Spanned = {}
        self._take_pending()

    def put(self, text: str, columns: int, rows: int) -> None:
        for _ in range(columns):
            self._append(rows, text)
        self._take_pending()

    def end(self) -> _Spanned:
        """Take the cells of earlier rows behind the last one, and return those that reach into the next row."""
        for place in sorted(place for place in self._pending if place >= len(self.cells)):
            self.cells.extend([""] * (place - len(self.cells)))
            self._append(*self._pending[place])
        return self._later

    def _take_pending(self) -> None:
        while (found := self._pending.get(len(self.cells))) is not None:
            self._append(*found)

    def _append(self, rows: int, text: str) -> None:
        if rows > 1:
            self._later[len(self.cells)] = (rows - 1, text)
        self.cells.append(text)


def _rows_of(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, not those of tables within its cells."""
    for child in table:
        if _name(child) == "tr":
            yield child
        elif _name(child) in ("thead", "tbody", "tfoot"):
            yield from (row for row in child if _name(row) == "tr")


def _span(cell: Element, name: str, most: int) -> int:
    number = cell.get(name, "").strip()
    return min(max(int(number), 1), most) if is_number(number, 5) else 1


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]
