"""Tables row by row: a number stays below the head of its column."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from retrieval.formats.notation import text_of
from retrieval.formats.pmc_jats import plain_text
from retrieval.formats.table_grid import table_rows


def _rows(inner: str) -> list[str]:
    return list(table_rows(ElementTree.fromstring(f"<table>{inner}</table>"), text_of))


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (
            "<thead><tr><th/><th>Drug</th><th>Placebo</th></tr></thead><tbody><tr><td>Age</td><td>50</td><td>51</td></tr>"
            "<tr><td>Deaths</td><td></td><td>2</td></tr></tbody>",
            [" | Drug | Placebo", "Age | 50 | 51", "Deaths |  | 2"],
        ),
        (
            "<tr><th rowspan='2'>Arm</th><th colspan='2'>Week 1</th></tr><tr><th>n</th><th>%</th></tr>"
            "<tr><td rowspan='2'>Drug</td><td>10</td><td>5</td></tr><tr><td>12</td><td>6</td></tr>",
            ["Arm | Week 1 | Week 1", "Arm | n | %", "Drug | 10 | 5", "Drug | 12 | 6"],
        ),
        ("<tr><td>a</td><td rowspan='2'>b</td></tr><tr/><tr><td>c</td></tr>", ["a | b", " | b", "c"]),
        ("<tr><td colspan='3'>Outcome</td></tr><tr><td>a</td><td>1</td><td/></tr>", ["Outcome", "a | 1"]),
        ("<tr><td>a<table><tr><td>x</td></tr></table></td><td>b</td></tr>", ["ax | b"]),
        ("<tr><td colspan='x' rowspan='-1'>a</td><td>b</td></tr>", ["a | b"]),
    ],
)  # fmt: skip
def test_a_cell_stands_in_every_row_and_column_that_it_spans(table: str, rows: list[str]) -> None:
    """Empty cells keep their place; a heading across the table stands once."""
    assert _rows(table) == rows


def test_a_table_that_spans_without_end_is_bounded() -> None:
    """A hostile one would repeat a cell a million times."""
    cells = "<td rowspan='99999' colspan='99999'>a</td><td>b</td>"
    rows = _rows(f"<tr>{cells}</tr>" * 300)
    assert sum(map(len, rows)) < 200_000


def test_the_text_of_an_article_has_its_tables_in_lines() -> None:
    """Powers in cells too."""
    table = (
        "<table-wrap><label>Table 1</label><table><tr><th/><th>n</th></tr><tr><td>Load</td><td>10<sup>3</sup></td></tr>"
        "</table></table-wrap>"
    )
    assert plain_text(ElementTree.fromstring(f"<sec>{table}</sec>")) == "Table 1\n| n\nLoad | 10³"
