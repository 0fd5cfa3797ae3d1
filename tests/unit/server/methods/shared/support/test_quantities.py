"""Numbers of texts, with their units."""

from __future__ import annotations

import pytest

from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())


def written(text: str) -> list[tuple[float, str]]:
    return [(one.written[0], one.unit.expression) for one in READER.read(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24–28 weeks", [(24, "week"), (28, "week")]),
        ("60° to 120°", [(60, "arc"), (120, "arc")]),
        ("between 5 and 10 mg", [(5, "milligram"), (10, "milligram")]),
        ("from 40 to 5 percent", [(40, "proportion"), (5, "proportion")]),
        ("3- to 4-year-olds", [(3, "year"), (4, "year")]),
        ("two weeks", [(2, "week")]),
        ("zwei Wochen", [(2, "week")]),
        ("deux semaines", [(2, "week")]),
        ("veinticinco días", [(25, "day")]),
        ("2½ h", [(2.5, "hour")]),
        ("9 million IU", [(9e6, "bioactivity")]),
        ("10⁶ cells", [(1e6, "number")]),
        ("5 × 10⁹/L", [(5e9, "number / (liter)")]),
        ("1e6", [(1e6, "")]),
        ("10^6", [(1e6, "")]),
        ("≥5.1 mmol/L", [(5.1, "(millimole) / (liter)")]),
        ("**75** g", [(75, "gram")]),
        ("−2.7 points (−8.8 to 3.3)", [(-2.7, ""), (-8.8, ""), (3.3, "")]),
        ("stored at -80 °C", [(-80, "degree_Celsius")]),
        ("1:100,000", [(1, ""), (100000, "")]),
        ("4.5 times as long", [(4.5, "fold")]),
        ("22 600 ppm", [(22600, "part_per_million")]),
    ],
)
def test_numbers_are_read_with_their_units(text: str, expected: list[tuple[float, str]]) -> None:
    """Ranges share a unit; words, fractions and powers are numbers."""
    found = written(text)

    assert [unit for _, unit in found] == [unit for _, unit in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected])


@pytest.mark.parametrize(
    ("text", "readings"), [("0,2", (0.2,)), ("1,450", (1450, 1.45)), ("1.450", (1.45, 1450)), ("1.234,5", (1234.5,))]
)
def test_marks_can_be_read_in_two_ways(text: str, readings: tuple[float, ...]) -> None:
    """A mark before three digits is a decimal sign in one language and none in another."""
    assert READER.read(f"{text} mg")[0].written == pytest.approx(readings)


@pytest.mark.parametrize("text", ["the CRASH-2 trial", "16q22.1", "COL3A1", "once bitten", "un cent"])
def test_parts_of_names_are_no_numbers(text: str) -> None:
    """Digits within a name, and words that are numbers in another language, measure nothing."""
    assert [one for one in READER.read(text) if one.dimension or abs(one.written[0]) > 10] == []


def test_masked_spans_hold_no_numbers() -> None:
    """What is an identifier or a citation mark is not a number too."""
    assert READER.read("as in [12], 50 mg", [(6, 10)])[0].text == "50 mg"


def test_the_body_surface_of_a_rate_is_no_number_of_its_own() -> None:
    assert READER.read("eGFR (mL/min/1.73 m²)") == []
