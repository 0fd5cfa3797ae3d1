"""Names that a sentence exchanges."""

from __future__ import annotations

import pytest

from server.methods.base import Source
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())
SOURCES = (
    Source("Sartobine 8 mg keeps the pressure lower than velotrapine does.", 1),
    Source("Treatment includes sartobine, velotrapine and rest at home. Orla disease resembles Wenn disease.", 2),
)


@pytest.mark.parametrize(
    "sentence",
    [
        "Velotrapine keeps the pressure lower than sartobine does [1].",
        "Velotrapine 8 mg keeps pressure lower than sartobine does.",
    ],
)
def test_two_names_that_have_changed_places_are_noticed(sentence: str) -> None:
    """The rest of the sentence is the source's, so the comparison is turned."""
    assert [one.kind for one in Evidence(SOURCES, "", READER).check(sentence).mismatches] == ["record"]


@pytest.mark.parametrize(
    "sentence",
    [
        "Sartobine keeps the pressure lower than velotrapine does [1].",
        "Velotrapine keeps the pressure higher than sartobine does [1].",
        "Treatment includes velotrapine, sartobine and rest at home [2].",
        "Treatment includes rest, velotrapine and sartobine [2].",
    ],
)
def test_other_orders_of_the_same_pass(sentence: str) -> None:
    """The members of a list may stand in any order, and other words may turn the sentence round."""
    assert Evidence(SOURCES, "", READER).check(sentence).mismatches == ()


NUMBERS = (
    Source("In the trial the rate was 0.41 per 100 with sartobine and 1.22 with velotrapine.", 1),
    Source("Fever occurred in 1 of 33 with sartobine at night and in 11 of 34 with placebo.", 2),
    Source("Kidney damage occurs in 25 percent and is usually reversible, whereas ear damage is usually permanent.", 3),
)


@pytest.mark.parametrize(
    "sentence",
    [
        "The rate was 1.22 per 100 with sartobine and 0.41 with velotrapine [1].",
        "Fever occurred in 11 of 33 with sartobine and in 1 of 34 with placebo [2].",
        "Ear damage is usually reversible, whereas kidney damage is usually permanent [3].",
    ],
)
def test_numbers_and_clauses_that_have_changed_places_are_noticed(sentence: str) -> None:
    """Also where the source says more than the sentence, and where a conjunction stands between."""
    assert "record" in [one.kind for one in Evidence(NUMBERS, "", READER).check(sentence).mismatches]


@pytest.mark.parametrize(
    "sentence",
    [
        "The rate was 0.41 per 100 with sartobine and 1.22 with velotrapine [1].",
        "With velotrapine the rate was 1.22 per 100 and with sartobine 0.41 [1].",
        "Fever occurred in 11 of 34 with placebo and in 1 of 33 with sartobine [2].",
    ],
)
def test_numbers_that_move_with_their_names_pass(sentence: str) -> None:
    assert Evidence(NUMBERS, "", READER).check(sentence).mismatches == ()
