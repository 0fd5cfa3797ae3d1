"""Calculations that are written out."""

from __future__ import annotations

import pytest

from server.methods.base import Source
from server.methods.shared.support.calculations import calculations_in
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())
QUESTION = "Sodium is 140, glucose 6 and urea 7 mmol/L; the measured osmolality is 320 mosm/kg. What is the gap?"
SOURCE = Source("Osmolality is twice the sodium plus glucose plus urea. A gap above 10 mosm/kg is suspect.", 1)


def calculations(text: str) -> list[tuple[float, bool]]:
    return [(round(one.value, 4), one.holds) for one in calculations_in(text, READER.read(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 × 140 + 6 + 7 = 293 mosm/kg", [(293.0, True)]),
        ("it is 2 × 140 + 6 + 7 = **283**", [(293.0, False)]),
        ("7.0% (0.0915 × 53 + 2.15 ≈ 7.0)", [(6.9995, True)]),
        ("(140 − 60) × 72 / (72 × 1.0) = 80 mL/min", [(80.0, True)]),
        ("8 / (0.2 × 2 + 0.1) = 8 / 0.5 = 16 mg/L", [(16.0, True), (16.0, True)]),
        ("16 mg/kg × 70 kg = 1,120 mg", [(1120.0, True)]),
        ("0.5 g × 2 = 1000 mg", [(1.0, True)]),
        ("20% × 50 mL = 10 mL", [(1000.0, True)]),
        ("(51% - 43%) / 43% = 18.6%", [(0.186, True)]),
        ("4–7 h in 2017-2018", []),
        ("3 × (4 / 0) = 5", []),
        ("p = 0.03; n = 12", []),
    ],
)
def test_written_calculations_are_evaluated(text: str, expected: list[tuple[float, bool]]) -> None:
    """Numbers are taken as written, as percentages, or in base units; ranges are no differences."""
    assert calculations(text) == expected


def test_the_results_of_an_answer_are_derived_step_by_step() -> None:
    """A result may be used in the next sentence, and a wrong one is said with the right one."""
    evidence = Evidence([SOURCE], QUESTION, READER)
    right = ["Osmolality: 2 × 140 + 6 + 7 = 293 mosm/kg.", "The gap is 320 − 293 = 27 mosm/kg [1]."]

    assert [evidence.check(one, " ".join(right)).mismatches for one in right] == [(), ()]
    wrong = evidence.check("Osmolality: 2 × 140 + 6 + 7 = 283 mosm/kg.").mismatches
    assert [one.detail for one in wrong] == ["2 × 140 + 6 + 7 is 293, not 283"]
