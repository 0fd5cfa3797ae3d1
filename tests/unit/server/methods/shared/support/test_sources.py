"""Sources, read once."""

from __future__ import annotations

from server.methods.base import Source
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.sources import PreparedSource, stems_of, without_options
from server.methods.shared.support.units import Units


def test_a_source_is_read_with_its_title_by_sentences() -> None:
    """Quantities are grouped by the sentences that they stand in."""
    source = PreparedSource.of(Source("It is 5 mg/kg. Others get 7 mg/kg.", 1, "Dose of 2 g"), QuantityReader(Units()))
    measured = [[one.text for one in group if one.dimension] for group in source.sentences]

    assert [group for group in measured if group] == [["2 g"], ["5 mg/kg"], ["7 mg/kg"]]
    assert source.name == "[1]"


def test_choices_of_a_question_are_not_given_by_it() -> None:
    """Of lettered choices all but one are wrong."""
    assert "1 mg" not in without_options("Which dose?\nA. 1 mg\nB. 2 mg")
    assert "SCN1A" not in without_options("Which gene? Options: A) SCN1A, B) TSHR")
    assert without_options("Is 5 mg of vitamin A. enough?") == "Is 5 mg of vitamin A. enough?"


def test_forms_of_a_word_have_one_stem() -> None:
    """Endings do not tell clauses apart; numbers do, and function words do not."""
    assert stems_of("seizures and type 2") == stems_of("Seizure of types 2")
