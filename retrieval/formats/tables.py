"""Read tables with a header line: find the header, split rows, and turn each row into items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from retrieval.formats.items import Bad, Good, Item, MalformedRecord, bad, shown
from retrieval.formats.records import Entry
from retrieval.formats.sources import Line, Source

_MAX_PREFACE: Final = 500
NOT_UTF8: Final = "the line is not valid UTF-8"


@dataclass(frozen=True, slots=True)
class Shape:
    """Describe the form of a table.

    ``name`` is NCBI's name of the file; ``columns`` are required, in any order and letter case.
    """

    name: str
    columns: tuple[str, ...]
    separator: str = "\t"


@dataclass(frozen=True, slots=True)
class Table:
    """Hold an open table.

    ``at``: index of each column by its lower-case name; ``rows``: the lines after the header.
    """

    at: Mapping[str, int]
    rows: Iterator[Line]
    separator: str

    def indices(self, *columns: str) -> tuple[int, ...]:
        return tuple(self.at[column.lower()] for column in columns)

    def cells(self, text: str) -> list[str]:
        """Split a row into its cells.

        Raises:
            MalformedRecord: the row and the header differ in their number of columns.
        """
        cells = text.split(self.separator)
        if len(cells) != len(self.at):
            raise MalformedRecord(f"{len(cells)} columns, {len(self.at)} expected")
        return cells


def open_table(source: Source, shape: Shape) -> Table:
    """Read to the end of the header, a ``#`` line with all the columns.

    Raises:
        ImportFileError: the file has no such header.
    """
    rows = source.lines()
    number = 0
    for number, text in rows:
        if text is None or number > _MAX_PREFACE or (text.strip() and not text.startswith("#")):
            break
        names = _column_names(text, shape.separator)
        if all(column.lower() in names for column in shape.columns):
            return Table({name: index for index, name in enumerate(names)}, rows, shape.separator)
    if number == 0:
        raise source.error(f"the file is empty; {shape.name} was expected")
    columns = shape.separator.join(shape.columns[:4]).replace("\t", " ")
    raise source.error(f"this is no {shape.name}: no header with the columns {columns} …", number)


def _column_names(text: str, separator: str) -> list[str]:
    line = text.lstrip("#").strip(" ")
    if line.startswith("Format: "):  # files of NCBI Gene before 2017: "#Format: tax_id GeneID … (tab is used …)"
        return line.removeprefix("Format: ").partition(" (")[0].lower().split(" ")
    names = [name.strip().lower() for name in line.split(separator)]
    # RRF lines end with a separator; the empty column after it counts, as rows have it too.
    return names if len(set(names)) == len(names) else []


def one_per_row(
    rows: Iterable[Line], skip: int, row_filter: Callable[[str], bool] | None, parse: Callable[[str], Entry]
) -> Iterator[Item]:
    """Yield one item for each row that ``row_filter`` accepts; blank and comment lines are skipped."""
    for number, text in rows:
        if text is not None and (not text or text[0] == "#" or (row_filter is not None and not row_filter(text))):
            continue
        if skip > 0:
            skip -= 1
            continue
        if text is None:
            yield Bad(number, NOT_UTF8)
            continue
        try:
            yield Good(number, parse(text))
        except MalformedRecord as error:
            yield bad(number, error)


def several_per_row(rows: Iterable[Line], skip: int, parse: Callable[[str], Iterable[Entry]]) -> Iterator[Item]:
    """Yield any number of items for each row; a malformed row is one item."""
    return islice(_several(rows, parse), skip, None)


def _several(rows: Iterable[Line], parse: Callable[[str], Iterable[Entry]]) -> Iterator[Item]:
    for number, text in rows:
        if text is None:
            yield Bad(number, NOT_UTF8)
        elif text and text[0] != "#":
            try:
                yield from [Good(number, entry) for entry in parse(text)]
            except MalformedRecord as error:
                yield bad(number, error)


def is_number(text: str, digits: int = 18) -> bool:
    """Return True for 1 to ``digits`` digits without sign or space, the form of all NCBI identifiers."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def whole(cell: str, column: str) -> int:
    """Parse a cell as a non-negative integer.

    Raises:
        MalformedRecord: the cell is not a number.
    """
    if not is_number(cell):
        raise MalformedRecord(f"{column}: a number was expected, not {shown(cell)}")
    return int(cell)


def identifier(cell: str, column: str) -> str:
    """Return a numeric cell in plain decimal form.

    Raises:
        MalformedRecord: the cell is not a number.
    """
    return str(whole(cell, column))


def given(cell: str) -> str:
    """Return the cell, or "" for NCBI's dash."""
    return "" if cell == "-" else cell


def many(cell: str, separator: str = "|") -> tuple[str, ...]:
    """Return the distinct parts of a multi-valued cell in their order."""
    if cell == "-" or not cell:
        return ()
    if separator not in cell:
        return (cell.strip(),)
    return tuple(dict.fromkeys(part for raw in cell.split(separator) if (part := raw.strip()) and part != "-"))
