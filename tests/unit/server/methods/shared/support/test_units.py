"""Units of measurement, as they stand behind numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from server.methods.shared.support.units import Units

UNITS = Units()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mcg", "µg"), ("mcg", "micrograms"), ("ug", "Mikrogramm"), ("mg/kg/day", "mg/kg a day"),
        ("mg kg-1 day-1", "mg/kg/d"), ("mg daily", "mg pro Tag"),
        ("mg per kilogram of body weight per day", "mg/kg/day"),
        ("mmol/l", "mmol/L"), ("cells/µL", "/µL"), ("IU", "UI"), ("%", "por ciento"), ("°", "degrees"),
        ("weeks", "semaines"),
        ("g per square metre a day", "g/m²/d"), ("mm Hg", "mmHg"), ("g of xylitol per kg", "g/kg"),
        ("UI al día", "IU/day"),
    ],
)  # fmt: skip
def test_one_unit_has_many_spellings(one: str, other: str) -> None:
    """Symbols, words of four languages and ways to write a rate name one unit."""
    a, b = UNITS.match(one, 0), UNITS.match(other, 0)

    assert a is not None
    assert b is not None
    assert a[1] == len(one)
    assert a[0].dimension == b[0].dimension
    assert a[0].factor == pytest.approx(b[0].factor)


def test_a_dose_per_kilogram_is_no_pure_number() -> None:
    """A mass over a body's mass keeps its dimension, so that mg/kg is neither % nor mg."""
    per_body, per_cent, mass = UNITS.match("mg/kg", 0), UNITS.match("%", 0), UNITS.match("mg", 0)

    assert per_body and per_cent and mass
    assert len({per_body[0].dimension, per_cent[0].dimension, mass[0].dimension}) == 3


def test_degrees_have_a_zero_of_their_own() -> None:
    """A temperature is converted with its offset, a rate of temperatures without."""
    celsius, fahrenheit, rate = UNITS.match("°C", 0), UNITS.match("°F", 0), UNITS.match("°C per minute", 0)

    assert celsius and fahrenheit and rate
    assert UNITS.base(37, celsius[0]) == pytest.approx(UNITS.base(98.6, fahrenheit[0]))
    assert rate[0].factor == pytest.approx(1 / 60)


@pytest.mark.parametrize("text", ["diabetes", "mild", "garden", "human", "minor", "Hzz"])
def test_the_beginning_of_a_word_is_no_unit(text: str) -> None:
    """A unit ends where its word does."""
    assert UNITS.match(text, 0) is None


@pytest.mark.server
def test_pint_is_not_imported_before_a_unit_is_needed() -> None:
    """To import the package, and to make the table, loads no registry."""
    code = (
        "import sys; from server.methods.shared.support.correspondence import Evidence; "
        "from server.methods.shared.support.units import Units; Units(); sys.exit('pint' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
