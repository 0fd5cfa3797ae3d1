"""Clauses of values."""

from __future__ import annotations

from server.methods.shared.support.clauses import Value, cut_at
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.sources import stems_of
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())


def clauses(text: str) -> list[frozenset[str]]:
    values: list[Value] = [one for one in READER.read(text) if one.dimension]
    return [stems_of(text[clause.start : clause.end]) for clause in cut_at(text, (0, len(text)), values)]


def test_a_sentence_is_cut_between_its_values() -> None:
    """The sign between two values ends the first one's clause."""
    assert clauses("Beta is infused at 1 mg/kg, alfa at 0.2 mg/kg") == [
        stems_of("Beta is infused at 1 mg/kg"),
        stems_of("alfa at 0.2 mg/kg"),
    ]


def test_values_side_by_side_share_their_words() -> None:
    """A pair has no words between its values that could tell them apart."""
    assert len(clauses("fewer recurrences (4.2% vs 26.6%)")) == 1


def test_semicolons_end_the_outer_clauses() -> None:
    """What stands behind a semicolon belongs to no value before it."""
    assert clauses("take azithromycin 500 mg; clindamycin is not recommended") == [stems_of("take azithromycin 500 mg")]


def test_the_name_before_a_value_in_parentheses_belongs_to_it() -> None:
    """Of several signs between two values, the last one with words behind it parts them."""
    assert clauses("beta (1 mg), alfa (2 mg)") == [stems_of("beta 1 mg"), stems_of("alfa 2 mg")]
