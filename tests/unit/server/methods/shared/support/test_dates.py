"""Dates in the forms of four languages."""

from __future__ import annotations

import pytest

from server.methods.shared.support.dates import dates_in


@pytest.mark.parametrize(
    "text",
    [
        "2014-09-11", "11 September 2014", "September 11, 2014", "11th of September 2014", "11. September 2014",
        "11 septembre 2014", "11 de septiembre de 2014", "Sep 11 2014",
    ],
)  # fmt: skip
def test_a_day_is_the_same_in_all_forms(text: str) -> None:
    """A date has the number of its month and of its day."""
    assert [numbers for _, _, numbers in dates_in(f"on {text}, it")] == [(201409, 20140911)]


def test_a_month_alone_is_a_date() -> None:
    """A month and a year need no day."""
    assert [numbers for _, _, numbers in dates_in("since März 2021")] == [(202103,)]


@pytest.mark.parametrize("text", ["2019-2020", "may 5 mg", "NCT01035255", "9 of 11"])
def test_other_numbers_are_no_dates(text: str) -> None:
    """Spans of years and words that are months' names elsewhere are left alone."""
    assert list(dates_in(text)) == []
