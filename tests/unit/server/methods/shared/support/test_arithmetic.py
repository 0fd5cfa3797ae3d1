"""Quantities as sources state them, and those that follow from others."""

from __future__ import annotations

import pytest

from server.methods.base import Source
from server.methods.shared.support.arithmetic import follows_by_rule, follows_from, is_stated
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.sources import PreparedSource
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())


def states(evidence: str, answer: str) -> bool:
    return is_stated(READER.read(answer)[0], PreparedSource.of(Source(evidence), READER).whole)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("0.5 g", "500 mg"), ("14 days", "two weeks"), ("150 min", "2.5 h"), ("10 µg", "10 micrograms"),
        ("0,2 mg/kg", "0.2 mg/kg"), ("1000 mg", "1,000 mg"), ("10 mg", "10 mg a day"),
        ("27%", "26.6 percent"),
        ("98%", "a sensitivity of 0.98"), ("10,000/µL", "10 × 10⁹/L"), ("3 months", "12 weeks"),
        ("100,000", "1:100,000"),
        ("98.6 °F", "37 °C"),
    ],
)  # fmt: skip
def test_other_forms_of_a_quantity_are_stated(answer: str, evidence: str) -> None:
    """Units are converted, and what is rounded is what was rounded."""
    assert states(evidence, answer)


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("500 g/kg", "500 mg/kg"), ("5 mg", "5 mg/kg"), ("21 days", "14 days, or 18 months"),
        ("5.5 mg/kg", "7 mg/kg"), ("100%", "98 percent"),
        ("12 mg/kg", "16 mg/kg, 4 mg/kg and 2 mg/kg"), ("80 °C", "-80 °C"), ("24 hours", "12 hours of birth"),
        ("3 g", "3 mg"), ("12 people", "11 people"), ("52.2%", "32.2 percent, against 15.3 percent"),
    ],
)  # fmt: skip
def test_other_quantities_are_not_supported(answer: str, evidence: str) -> None:
    """Another value, unit or sign is another quantity."""
    assert not states(evidence, answer)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("2 Gy", "70 Gy in 35 fractions"),
        ("28 days", "14 days, again 14 days"),
        ("12 mg/kg", "16 mg/kg less 4 mg/kg"),
        ("1,120 mg", "16 mg/kg for 70 kg"),
    ],
)
def test_of_numbers_that_the_answer_names_more_follows(answer: str, named: str) -> None:
    """What could be met by chance among a source's numbers is no chance among those that the answer names."""
    quantity = READER.read(answer)[0]

    assert not states(named, answer)
    assert follows_from(quantity, READER.read(named))


@pytest.mark.parametrize(
    ("quantity", "operands"),
    [
        ("80 mg/dL", "160 mg/dL 50%"), ("120 mg", "160 mg 25%"), ("60 mg per day", "80 mg per day 25%"),
        ("7.4-fold", "12.6% 1.7%"),
    ],
)  # fmt: skip
def test_percentages_and_ratios_follow(quantity: str, operands: str) -> None:
    assert follows_from(READER.read(quantity)[0], READER.read(operands))


def test_a_ratio_in_one_unit_is_a_rule_only_where_the_answer_names_it() -> None:
    source = PreparedSource.of(Source("Orlamine 30 mg equals wennamine 20 mg."), READER)
    wanted, known = READER.read("80 mg")[0], READER.read("120 mg, 30 mg, 20 mg")
    assert follows_by_rule(wanted, known, [source]) and not follows_by_rule(wanted, known[:1], [source])
