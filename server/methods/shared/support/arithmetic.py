"""Compare quantities, and find whether a number follows from others by one step of arithmetic. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Final

from server.methods.shared.support.quantities import TIME, Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText

PROPORTION: Final = "[proportion]"
_COUNTS: Final = ("", "dimensionless")
_EXACT: Final = 1e-6
_ROUNDED: Final = 0.05
_CALENDAR: Final = 0.09  # a month has 28 to 31 days, and four weeks are called one
_DAY: Final = 86_400.0
_PLAIN: Final = re.compile(r"\[(?:proportion|fold)\]")
_PERCENT: Final = 0.01
_MIN_COUNT: Final = 10

Powers = frozenset[tuple[str, int]]


def is_stated(quantity: Quantity, text: PreparedText) -> bool:
    if quantity.dimension in _COUNTS:
        return _has_number(quantity, text)
    if any(is_equal(quantity, other) for other in text.by_dimension.get(quantity.dimension, ())):
        return True
    if quantity.dimension == PROPORTION and any(
        _near(abs(quantity.values[0]), 100 * value, quantity.tolerance) for value in text.written if value < 1
    ):
        return True
    if not quantity.tolerance and text.by_dimension.get(quantity.dimension):
        return True  # "20, 40 and 50 (× 10⁹/L)"
    rates = text.by_dimension.get(_per_time(quantity.dimension), ())
    return any(is_rate_of(rate, quantity) for rate in rates)


def _has_number(quantity: Quantity, text: PreparedText) -> bool:
    values = {abs(value) for value in quantity.written}
    if not values.isdisjoint(text.written) or any(_digits(value) in text.index.words for value in values):
        return True
    shares = text.by_dimension.get(PROPORTION, ()) if 0 < min(values) < 1 else ()
    if any(_near(100 * value, one.values[0], 0.0) for value in values for one in shares):
        return True
    # Only a number with decimals is rounded, or one of thousands.
    value, tolerance = abs(quantity.written[0]), quantity.tolerance
    return (tolerance < 0.5 or tolerance >= 500) and any(_near(value, other, tolerance) for other in text.written)


def _digits(value: float) -> str:
    return str(int(value)) if value.is_integer() else ""


def is_equal(quantity: Quantity, other: Quantity) -> bool:
    is_scale = quantity.unit.factor is None
    for value in quantity.values:
        for known in other.values:
            a, b = (value, known) if is_scale else (abs(value), abs(known))
            tolerance = quantity.tolerance
            if quantity.dimension == TIME and quantity.unit.expression != other.unit.expression:
                is_calendar = {quantity.unit.expression, other.unit.expression} & {"month", "year"}
                if is_calendar and abs(a - b) <= _CALENDAR * abs(b):
                    return True
            elif other.written[0].is_integer() and quantity.unit.expression == other.unit.expression:
                tolerance = tolerance if quantity.written[0] >= 1000 else 0.0
            if _near(a, b, tolerance):
                return True
    return False


def _near(value: float, known: float, tolerance: float) -> bool:
    """Return whether a known value, rounded to the places of the other, is the other."""
    gap = abs(value - known)
    return gap <= _EXACT * abs(known) or (gap <= tolerance * 1.0001 and gap <= _ROUNDED * abs(known))


def is_rate_of(rate: Quantity, amount: Quantity) -> bool:
    """Return whether a quantity a time ("10 mg a day") is written with the amount and its unit."""
    expressions = (amount.unit.expression, f"({amount.unit.expression})")
    return rate.unit.expression.rpartition(" / ")[0] in expressions and any(
        _near(abs(a), abs(b), 0.0) for a in amount.written for b in rate.written
    )


def _per_time(dimension: str) -> str:
    """Return the name that pint gives to a dimension divided by time."""
    if not dimension or "[time]" in dimension:
        return ""
    above, _, below = dimension.partition(" / ")
    return " / ".join([above, *sorted([*filter(None, below.split(" / ")), "[time]"])])


def follows_from(quantity: Quantity, operands: Sequence[Quantity]) -> bool:
    """Return whether the quantity is a sum, difference, product or quotient of two that the answer itself names.

    Small counts are the sum of too much.
    """
    if quantity.dimension in _COUNTS and quantity.written[0] <= _MIN_COUNT and quantity.written[0].is_integer():
        return False
    known = [one for one in operands if one.unit.factor is not None]
    return any(
        is_result(quantity, value / _scale(quantity))
        for a, b in permutations(known, 2)
        for value in _of_two(a, b, quantity)
        if a.start != b.start
    )


def _of_two(a: Quantity, b: Quantity, wanted: Quantity) -> Iterator[float]:
    """Yield what one step of arithmetic makes of two quantities, of the dimension of the wanted one."""
    x, y = a.values[0] * _scale(a), b.values[0] * _scale(b)
    if a.dimension == b.dimension == wanted.dimension:
        yield from (x + y, x - y)
    powers, first, second = (_powers(one.dimension) for one in (wanted, a, b))
    if a.dimension and _joined(first, second, 1) == powers:
        yield x * y
        if b.dimension == PROPORTION:
            yield from (x * (1 - y), x * (1 + y))
    if y and (first or a.dimension == b.dimension) and _joined(first, second, -1) == powers:
        yield x / y
        if wanted.dimension == PROPORTION:
            yield (x - y) / y


def _scale(quantity: Quantity) -> float:
    return _PERCENT if quantity.dimension == PROPORTION else 1.0


def follows_by_rule(quantity: Quantity, operands: Sequence[Quantity], sources: Iterable[PreparedSource]) -> bool:
    """Return whether the quantity is to an operand as two quantities of one sentence of a source are to one another.

    "5 IU equal 1 µg" makes 300 µg of 1,500 IU, "a vial of 20 mg is dissolved in 60 mL" 600 mL of 200 mg. Of two doses
    in one unit, only where both are operands.
    """
    return any(is_result(quantity, value) for source in sources for value in _by_rule(quantity, operands, source))


def _by_rule(quantity: Quantity, operands: Sequence[Quantity], source: PreparedSource) -> Iterator[float]:
    wanted, per_day = _of_a_day(quantity)
    if not per_day:
        return
    for group in source.sentences:
        measured = [one for one in group if "[" in one.dimension and one.unit.factor is not None and one.values[0]]
        for a, b in permutations(measured, 2):
            (first, low), (second, high) = _of_a_day(a), _of_a_day(b)
            is_rule = a.unit.expression != b.unit.expression or all(
                any(is_equal(one, known) for known in operands if known.dimension == one.dimension) for one in (a, b)
            )
            if second == wanted and is_rule:
                same = (value for dimension, value in map(_of_a_day, operands) if dimension == first)
                yield from (value * high / low * quantity.values[0] / per_day for value in same)


def _of_a_day(quantity: Quantity) -> tuple[str, float]:
    """Return the dimension and the value of a quantity, of a rate a day those of a day's amount."""
    if quantity.unit.expression.endswith(" / (day)"):
        return quantity.dimension.replace(" / [time]", ""), quantity.values[0] * _DAY
    return quantity.dimension, quantity.values[0]


def is_result(quantity: Quantity, value: float) -> bool:
    """Return whether a value, rounded to the places of the quantity, is the quantity."""
    return any(_near(abs(value), abs(one), quantity.tolerance) for one in quantity.values)


@lru_cache(maxsize=512)
def _powers(dimension: str) -> Powers:
    """Return the base dimensions of a name of pint with their exponents: none of a proportion, mass of a body."""
    above, *below = dimension.split(" / ")
    counts: dict[str, int] = {}
    for part, sign in ((above, 1), *((part, -1) for part in below)):
        for name, exponent in re.findall(r"(\[\w+\])(?: \*\* (\d+))?", _PLAIN.sub("", part).replace("body_", "")):
            counts[name] = counts.get(name, 0) + sign * int(exponent or 1)
    return frozenset(counts.items())


def _joined(a: Powers, b: Powers, sign: int) -> Powers:
    first, second = dict(a), dict(b)
    counts = {name: first.get(name, 0) + sign * second.get(name, 0) for name in first.keys() | second.keys()}
    return frozenset((name, count) for name, count in counts.items() if count)
