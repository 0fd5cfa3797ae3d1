"""Compare quantities, and find whether a number follows from others by one step of arithmetic. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Final, Literal

from server.methods.shared.support.quantities import DATE, FREQUENCY, PROBABILITY, TIME, Quantity
from server.methods.shared.support.sources import PreparedSource, PreparedText

Support = Literal["stated", "derived"]

PROPORTION: Final = "[proportion]"
_FOLD: Final = "[fold]"
_COUNTS: Final = ("", "dimensionless")
_EXACT: Final = 1e-6
_ROUNDED: Final = 0.05
_CALENDAR: Final = 0.09  # a month has 28 to 31 days, and four weeks are called one
_MIN_COUNT: Final = 10
_MIN_BASE: Final = 100
# "100 white cells per microlitre", "an eGFR of 60"
_OFTEN_BARE: Final = frozenset({"1 / [length] ** 3", "[length] ** 3 / [time]"})
_DAY: Final = 86_400.0
_WEEK: Final = 7 * _DAY
_YEAR: Final = 365.25 * _DAY
# 4 percent by weight and volume are 40 mg/mL.
_CONCENTRATION: Final = "[mass] / [length] ** 3"
_GRAMS_PER_LITRE: Final = 10.0
_SHARES: Final = {
    **dict.fromkeys(["half", "halved", "halves", "hälfte", "halbe", "halben", "halber", "moitié", "mitad"], 50.0),
    **dict.fromkeys(["third", "drittel", "tiers", "tercio"], 100 / 3),
    **dict.fromkeys(("two thirds", "zwei drittel", "deux tiers", "dos tercios"), 200 / 3),
    **dict.fromkeys(["quarter", "viertel", "quart", "cuarto"], 25.0),
    **dict.fromkeys(("three quarters", "drei viertel", "trois quarts", "tres cuartos"), 75.0),
}
_FOLDS: Final = dict(
    zip(["twofold", "threefold", "fourfold", "fivefold", "sixfold"], (2.0, 3.0, 4.0, 5.0, 6.0), strict=True)
)
_WORDS: Final = {PROPORTION: _SHARES, _FOLD: _FOLDS}


def is_stated(quantity: Quantity, text: PreparedText) -> bool:
    if quantity.dimension in _COUNTS:
        return _has_number(quantity, text)
    if quantity.dimension == DATE:  # a day for a day, a month for a day in it
        return any(quantity.values[-1] in other.values for other in text.by_dimension.get(DATE, ()))
    if quantity.is_bound and any(
        other.values[0] <= quantity.values[0] for other in text.by_dimension.get(PROBABILITY, ())
    ):
        return True
    if any(is_equal(quantity, other) for other in text.by_dimension.get(quantity.dimension, ())):
        return True
    if quantity.dimension in (FREQUENCY, TIME) and _recurs(quantity, text):
        return True
    if quantity.dimension == PROPORTION and any(
        _near(abs(quantity.values[0]), 100 * value, quantity.tolerance) for value in text.written if value < 1
    ):
        return True
    return (
        _is_otherwise_written(quantity, text) or _is_without_time(quantity, text) or _has_plain_number(quantity, text)
    )


def _is_otherwise_written(quantity: Quantity, text: PreparedText) -> bool:
    """Return whether a text has the quantity in words, without its unit, or as a percentage by weight and volume."""
    if any(
        _near(quantity.values[0], value, quantity.tolerance)
        for word, value in _WORDS.get(quantity.dimension, {}).items()
        if text.index.has_phrase(word)
    ):
        return True
    if quantity.dimension in _OFTEN_BARE and quantity.written[0] in text.written:
        return True
    if quantity.dimension == _CONCENTRATION and any(
        _near(quantity.values[0], _GRAMS_PER_LITRE * one.values[0], 0.0)
        for one in text.by_dimension.get(PROPORTION, ())
    ):
        return True
    # "20, 40 and 50 (× 10⁹/L)"
    is_power = not quantity.tolerance and quantity.text.startswith("10")
    return is_power and bool(text.by_dimension.get(quantity.dimension))


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


def _has_plain_number(quantity: Quantity, text: PreparedText) -> bool:
    """Return whether the number stands without a unit before no word, in a text that has the unit: a table's cell."""
    if not text.by_dimension.get(quantity.dimension) and not quantity.is_joined:
        return False
    values = {abs(value) for value in quantity.written}
    for other in text.by_dimension.get("", ()):
        if not other.is_implied and not values.isdisjoint(map(abs, other.written)):
            behind = text.text[other.end : other.end + 2].lstrip()
            if quantity.is_joined or not behind[:1].isalnum():
                return True
    return False


def is_equal(quantity: Quantity, other: Quantity) -> bool:
    is_scale = quantity.unit.factor is None
    for value in quantity.values:
        for known in other.values:
            a, b = (value, known) if is_scale else (abs(value), abs(known))
            tolerance = quantity.tolerance
            if quantity.dimension == TIME and quantity.unit.expression != other.unit.expression:
                if {quantity.unit.expression, other.unit.expression} & {"month", "year"}:
                    tolerance = max(tolerance, _CALENDAR * abs(b))
                    if abs(a - b) <= tolerance and abs(a - b) <= _CALENDAR * abs(b):
                        return True
            elif other.written[0].is_integer() and quantity.unit.expression == other.unit.expression:
                tolerance = tolerance if quantity.written[0] >= 1000 else 0.0
            if _near(a, b, tolerance):
                return True
    return False


def _near(value: float, known: float, tolerance: float, most: float = _ROUNDED) -> bool:
    """Return whether a known value, rounded to the places of the other, is the other."""
    gap = abs(value - known)
    return gap <= _EXACT * abs(known) or (gap <= tolerance * 1.0001 and gap <= most * abs(known))


def _recurs(quantity: Quantity, text: PreparedText) -> bool:
    """Compare "twice a day" with "every 12 hours"."""
    if not quantity.values[0] or (quantity.dimension == TIME and not quantity.is_interval):
        return False
    others = text.by_dimension.get(TIME if quantity.dimension == FREQUENCY else FREQUENCY, ())
    recurring = (other for other in others if other.dimension == FREQUENCY or other.is_interval or other.is_implied)
    return any(_near(1 / quantity.values[0], abs(other.values[0]), 0.0) for other in recurring)


def _is_without_time(quantity: Quantity, text: PreparedText) -> bool:
    """Return whether the text gives a rate, "10 mg a day" for "10 mg", or for a rate its amount beside another rate."""
    if any(is_rate_of(rate, quantity) for rate in text.by_dimension.get(_per_time(quantity.dimension), ())):
        return True
    amount, _ = _of_a_day(quantity)
    is_rate = amount != quantity.dimension and bool(text.by_dimension.get(quantity.dimension))
    return is_rate and any(is_rate_of(quantity, other) for other in text.by_dimension.get(amount, ()))


def is_rate_of(rate: Quantity, amount: Quantity) -> bool:
    """Return whether a quantity a time ("10 mg a day") is written with the amount and its unit."""
    expressions = (amount.unit.expression, f"({amount.unit.expression})")
    return rate.unit.expression.rpartition(" / ")[0] in expressions and any(
        _near(abs(a), abs(b), 0.0) for a in amount.written for b in rate.written
    )


def _per_time(dimension: str) -> str:
    """Return the name that pint gives to a dimension divided by time."""
    return "" if not dimension or "[time]" in dimension else _sorted_dimension(dimension)


def _sorted_dimension(dimension: str) -> str:
    above, _, below = dimension.partition(" / ")
    under = sorted([*filter(None, below.split(" / ")), "[time]"])
    return " / ".join([above, *under])


def follows_from(quantity: Quantity, operands: Sequence[Quantity]) -> bool:
    """Return whether the quantity follows from operands that the answer itself names."""
    ways = (_same, _sums, _ratios, _compounds, _over_days, _percentages, _by_factor, _in_a_year)
    return any(is_result(quantity, value) for way in ways for value in way(quantity, operands))


def follows_by_rule(quantity: Quantity, operands: Sequence[Quantity], sources: Iterable[PreparedSource]) -> bool:
    """Return whether the quantity is to an operand as two quantities of one sentence of a source are to one another.

    "5 IU equal 1 µg" makes 300 µg of 1,500 IU, "a vial of 20 mg is dissolved in 60 mL" 600 mL of 200 mg. Of two doses
    in one unit, only where both are operands.
    """
    return any(is_result(quantity, value) for source in sources for value in _by_rule(quantity, operands, source))


def follows_per_number(quantity: Quantity, bases: Iterable[Quantity], sources: Iterable[PreparedSource]) -> bool:
    """Return whether the quantity is, per one of the round numbers, what two counts of a source's sentence are.

    "4 per 100,000" makes 0.04 per 1,000, and "30 new cases among 2 million" 1.5 per 100,000.
    """
    if quantity.dimension not in _COUNTS:
        return False
    groups = ([one for one in group if one.dimension in _COUNTS] for source in sources for group in source.sentences)
    pairs = (
        (low, high) for group in groups for a, b in permutations(group, 2) for low, high in product(a.values, b.values)
    )
    shares = [low / high for low, high in pairs if 0 < low < high and high >= _MIN_BASE]
    rounds = [base.written[0] for base in bases if is_round_base(base) and base.start > quantity.start]
    return any(is_result(quantity, share * base) for share in shares for base in rounds)


def follows_as_share(quantity: Quantity, named: Sequence[Quantity], sources: Iterable[PreparedSource]) -> bool:
    """Return whether the quantity is what a count is of a source's count in percent, or such a percentage as a count.

    The count or the percentage stands beside it: "119 patients (9.3%)", "about 1,134 (89%)".
    """
    counts = [
        one.values[0]
        for source in sources
        for one in source.whole.by_dimension.get("", ())
        if one.values[0] >= _MIN_COUNT
    ]
    if quantity.dimension == PROPORTION:
        parts = [one.values[0] for one in named if one.dimension in _COUNTS]
        return any(is_result(quantity, 100 * part / count) for part in parts for count in counts if 0 < part < count)
    if quantity.dimension in _COUNTS and quantity.written[0] > _MIN_COUNT:
        shares = [one.values[0] / 100 for one in named if one.dimension == PROPORTION]
        return any(is_result(quantity, share * count) for share in shares for count in counts)
    return False


def is_round_base(quantity: Quantity) -> bool:
    """Return whether a number is a power of ten to which rates are brought."""
    digits = _digits(quantity.written[0])
    return quantity.dimension in _COUNTS and quantity.written[0] >= _MIN_BASE and digits.strip("0") == "1"


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


def is_share(a: Quantity, b: Quantity, texts: Iterable[PreparedText]) -> bool:
    """Return whether two counts ("7 in 10,000") are a proportion of a text, of which the second is the round number."""
    low, high = abs(a.written[0]), abs(b.written[0])
    if a.dimension or b.dimension or not 0 < low < high:
        return False
    return any(
        _near(100 * low / high, one.values[0], 0.0) for text in texts for one in text.by_dimension.get(PROPORTION, ())
    )


def _same(quantity: Quantity, group: Iterable[Quantity]) -> Iterator[float]:
    """Yield the same quantity in another unit, and what a rate a day gives in a day."""
    for one in group:
        if one.dimension == quantity.dimension and one.dimension not in _COUNTS and one.unit != quantity.unit:
            yield one.values[0]
        if one.unit.expression.endswith(" / (day)") and _per_time(quantity.dimension) == one.dimension:
            yield one.values[0] * _DAY
        if not quantity.dimension and one.dimension:  # a number of a calculation without its unit
            yield one.written[0]


def _over_days(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    """Yield what an amount comes to when it is taken once a day."""
    amounts = [one for one in group if one.dimension == quantity.dimension and quantity.dimension != TIME]
    amounts = [one for one in amounts if one.dimension not in _COUNTS or abs(one.written[0]) > _MIN_COUNT]
    days = [one.values[0] / _DAY for one in group if one.dimension == TIME and one.unit.expression in ("day", "week")]
    yield from (amount.values[0] * day for amount in amounts for day in days if day > 1)


def _percentages(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    """Yield percentages of amounts, and amounts that are raised or lowered by them."""
    wanted, per_day = _of_a_day(quantity)
    if wanted in (*_COUNTS, PROPORTION) or not per_day:
        return
    scale = quantity.values[0] / per_day
    amounts = [value for dimension, value in map(_of_a_day, group) if dimension == wanted]
    shares = [one.values[0] / 100 for one in group if one.dimension == PROPORTION]
    yield from (amount * part * scale for amount in amounts for one in shares for part in (one, 1 - one, 1 + one))


def _in_a_year(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    """Yield how often a year has what recurs after an interval."""
    if quantity.dimension in _COUNTS:
        yield from (_YEAR / one.values[0] for one in group if one.dimension == TIME and one.is_interval)
        yield from (_YEAR * one.values[0] for one in group if one.dimension == FREQUENCY)


def _by_factor(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    """Yield what a conversion factor, a number with decimals, makes of an amount in another unit."""
    factors = [one.written[0] for one in group if one.dimension in _COUNTS and not one.written[0].is_integer()]
    amounts = [one.written[0] for one in group if "[" in one.dimension and one.dimension != quantity.dimension]
    if "[" in quantity.dimension:
        scale = abs(quantity.unit.factor or 1.0)
        yield from (scale * value for a in amounts for f in factors for value in (a * f, a / f if f else 0.0))


def is_result(quantity: Quantity, value: float) -> bool:
    """Return whether a value, rounded to the places of the quantity, is the quantity."""
    most = 2 * _ROUNDED if quantity.dimension == _FOLD else _ROUNDED  # "about 7 times"
    return any(_near(abs(value), abs(one), quantity.tolerance, most) for one in quantity.values)


def _sums(quantity: Quantity, group: Iterable[Quantity]) -> Iterator[float]:
    if quantity.dimension in _COUNTS and quantity.written[0] <= _MIN_COUNT and quantity.written[0].is_integer():
        return
    same = [other for other in group if other.dimension == quantity.dimension and not other.is_implied]
    if quantity.dimension in _COUNTS:  # "within one unit of its pKa"
        same += [one for one in group if one.unit.expression == "bioactivity" and one.written[0] <= _MIN_COUNT]
    for a, b in combinations(same, 2):
        if a.start != b.start:
            yield a.values[0] + b.values[0]
            yield a.values[0] - b.values[0]
    if quantity.dimension == PROPORTION:
        yield from (100 - one.values[0] for one in same)


def _ratios(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    if quantity.dimension not in (_FOLD, PROPORTION, *_COUNTS):
        return
    for low, high in _pairs(group):
        yield high / low
        if quantity.dimension == PROPORTION:
            yield from (100 * low / high, 100 * (high - low) / high, 100 * (high - low) / low)


def _pairs(group: Sequence[Quantity]) -> Iterator[tuple[float, float]]:
    """Yield the values of two quantities of one dimension, the lower first, neither zero."""
    for a, b in combinations(group, 2):
        if a.dimension == b.dimension and a.start != b.start and a.unit.factor is not None:
            low, high = sorted((abs(a.values[0]), abs(b.values[0])))
            if low:
                yield low, high


def _compounds(quantity: Quantity, group: Sequence[Quantity]) -> Iterator[float]:
    """Yield products and quotients of the quantity's dimension: of dose and frequency, of amount and concentration."""
    wanted = _powers(quantity.dimension)
    for a, b in permutations([one for one in group if one.unit.factor is not None], 2):
        first, second = _powers(a.dimension), _powers(b.dimension)
        if a.dimension and _joined(first, second, 1) == wanted:
            yield a.values[0] * b.values[0]
        if b.values[0] and first != second and _joined(first, second, -1) == wanted:
            yield a.values[0] / b.values[0]


@lru_cache(maxsize=512)
def _powers(dimension: str) -> frozenset[tuple[str, int]]:
    """Return the base dimensions of pint's name of a dimension with their exponents."""
    above, *below = dimension.split(" / ")
    counts: dict[str, int] = {}
    for part, sign in ((above, 1), *((part, -1) for part in below)):
        for name, exponent in re.findall(r"(\[\w+\])(?: \*\* (\d+))?", part):
            counts[name] = counts.get(name, 0) + sign * int(exponent or 1)
    return frozenset(counts.items())


def _joined(a: frozenset[tuple[str, int]], b: frozenset[tuple[str, int]], sign: int) -> frozenset[tuple[str, int]]:
    first, second = dict(a), dict(b)
    counts = {name: first.get(name, 0) + sign * second.get(name, 0) for name in first.keys() | second.keys()}
    return frozenset((name, count) for name, count in counts.items() if count)


def follows_for_body(quantity: Quantity, weights: Iterable[Quantity], sources: Iterable[PreparedSource]) -> bool:
    """Return whether the quantity is a dose per kilogram of a source, for one of the weights."""
    kilograms = [weight.written[0] for weight in weights if weight.unit.expression == "kilogram"]
    doses = [
        (dimension.replace(" / [body_mass]", ""), dose)
        for source in sources
        for dimension, doses in source.whole.by_dimension.items()
        if "[body_mass]" in dimension
        for dose in doses
    ]
    # A dose a day may be called a dose, and a dose beside others a day a dose a day.
    is_daily = any(_of_a_day(dose)[0] != dose.dimension for _, dose in doses)
    return any(
        is_result(quantity, dose.values[0] * kilogram * scale)
        for dimension, dose in doses
        for kilogram in kilograms
        for is_equal_dimension, scale in (
            (dimension == quantity.dimension, 1.0),
            (dimension == _per_time(quantity.dimension) and _of_a_day(dose)[0] != dose.dimension, _DAY),
            (is_daily and _per_time(dimension) == quantity.dimension, 1 / _DAY),
            (quantity.unit.expression.endswith(" / (week)") and _per_time(dimension) == quantity.dimension, 1 / _WEEK),
        )
        if is_equal_dimension
    )
