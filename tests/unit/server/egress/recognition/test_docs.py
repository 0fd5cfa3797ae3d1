"""docs/egress.md says what the code does: its tables are read against those of the code."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from server.egress.recognition.recognizer import CHOICES
from server.egress.recognition.terms import FIELDS, MAX_CLAUSES, MAX_IDS, NUMBERS
from server.settings.egress import EgressSettings

TEXT = (Path(__file__).parents[5] / "docs" / "egress.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]


def _names(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]*)`", cell))


def test_the_ranges_are_those_of_the_code() -> None:
    """Every database with each span, and no other."""
    said = {
        _names(row[0])[0]: tuple((int(first), int(last)) for first, last in re.findall(r"(\d+) to (\d+)", row[1]))
        for row in ROWS
        if len(row) == 2 and re.fullmatch(r"(\d+ to \d+(, )?)+", row[1])
    }

    assert said == NUMBERS
    plain = " ".join(TEXT.split())
    assert f"at most {MAX_IDS} in a call" in plain and "at most three clauses" in plain and MAX_CLAUSES == 3


def test_the_fixed_lists_are_those_of_the_code() -> None:
    """Every value of every parameter of every endpoint; a row may stand for several of both."""
    said: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in ROWS:
        if len(row) == 3 and _names(row[0]) and _names(row[0])[0] in CHOICES:
            for endpoint, parameter in product(_names(row[0]), _names(row[1])):
                assert parameter not in said.setdefault(endpoint, {})
                said[endpoint][parameter] = _names(row[2])

    assert said == CHOICES


def test_the_budgets_are_the_defaults_of_the_settings() -> None:
    """By name and number."""
    numbers = {_names(row[0])[0]: int(row[1]) for row in ROWS if len(row) == 3 and row[1].isdecimal()}
    said = {name: number for name, number in numbers.items() if name.startswith("egress.max_")}

    assert said == {f"egress.{name}": field.default for name, field in EgressSettings.model_fields.items()
                    if name.startswith("max_")}  # fmt: skip


def test_the_fields_are_those_of_the_code() -> None:
    """Each field that takes a kind of name is in the text, none that is refused."""
    paragraph = TEXT[TEXT.index("Fields: `sym`") : TEXT.index("Filters (`filter`")]
    named = {tag for tag, field in FIELDS.items() if field.kinds} | {"chr", "chrom", "chromosome"}

    assert {" ".join(name.split()) for name in _names(paragraph)} == named
