"""Find the calculations that a text writes out, and whether they hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simpleeval import InvalidExpression, simple_eval

from server.methods.shared.support.quantities import Quantity

_SIGN: Final = re.compile(r"\s*(?:\*\*|__)?\s*(?P<sign>[−+×x*·÷/()=≈~≃≅]|(?<=\s)[-‐‑‒–—])")  # "4-7" is a range
_OPERATORS: Final = {**dict.fromkeys("‐‑‒–—−", "-"), **dict.fromkeys("×x·", "*"), "÷": "/"}
_EQUAL: Final = frozenset("=≈~≃≅")
_ROUNDED: Final = 0.005
_MAX_SIGNS: Final = 60

Token = str | Quantity


@dataclass(frozen=True, slots=True)
class Calculation:
    """Hold an expression as it is written, its value, and the number that is said to be its result, None for none.

    ``steps`` are the numbers of the sides behind the first where all sides have one value:
    "6 / (0.2 × 2 + 0.2) = 6 / 0.6".
    """

    text: str
    value: float
    result: Quantity | None
    holds: bool
    steps: tuple[float, ...] = ()

    @property
    def is_result(self) -> bool:
        """Return whether the expression says more than a range or a share does."""
        return any(sign in self.text for sign in "×+÷(")


def calculations_in(text: str, quantities: Sequence[Quantity]) -> Iterator[Calculation]:
    """Yield the calculations of a text whose numbers are read."""
    for run in _runs(text, quantities):
        sides: list[list[Token]] = [[]]
        for token in run:
            if isinstance(token, str) and token in _EQUAL:
                sides.append([])
            else:
                sides[-1].append(token)
        last = [token for token in sides[-1] if isinstance(token, Quantity)]
        result = last[0] if len(sides) > 1 and len(last) == 1 else None
        steps = _steps(sides)
        for side in sides:
            if (value := _value_of(side, is_base=False)) is not None:
                yield Calculation(_shown(side), value, result, result is not None and _holds(side, result), steps)


def _steps(sides: Sequence[Sequence[Token]]) -> tuple[float, ...]:
    """Return the numbers of all sides but the first, where what each works out to is that of the first."""
    values = [_value_of(side, is_base=False) for side in sides[:-1]]
    first = values[0] if values else None
    if first is None or any(value is None or abs(value - first) > _ROUNDED * abs(first) for value in values):
        return ()
    return tuple(abs(token.written[0]) for side in sides[1:-1] for token in side if isinstance(token, Quantity))


def _runs(text: str, quantities: Sequence[Quantity]) -> Iterator[list[Token]]:
    """Yield the longest runs of numbers and signs."""
    run: list[Token] = []
    place = 0
    for quantity in [*(one for one in quantities if not one.is_implied), None]:
        end = quantity.start if quantity else len(text)
        while place < end and (found := _SIGN.match(text, place, end)) and len(run) < _MAX_SIGNS:
            if found["sign"] == "(" and _is_complete(run):
                yield run
                run = []
            run.append(_OPERATORS.get(found["sign"], found["sign"]))
            place = found.end()
        between = text[place:end]
        if quantity is None or between.strip(" *_"):
            yield run
            run = ["("] * between.rstrip().endswith("(")
        if quantity is not None:
            if quantity.written[0] < 0 and _is_complete(run):
                run.append("-")
            elif _is_complete(run):
                yield run
                run = []
            run.append(quantity)
            place = quantity.end


def _is_complete(run: Sequence[Token]) -> bool:
    return bool(run) and (isinstance(run[-1], Quantity) or run[-1] == ")")


def _value_of(side: Sequence[Token], *, is_base: bool) -> float | None:
    """Return the value of an expression, None where it is none."""
    terms = [_term(token, side[place - 1 : place], is_base=is_base) for place, token in enumerate(side)]
    while terms and terms.count("(") > terms.count(")") and terms[0] == "(":
        terms = terms[1:]
    while terms and terms.count(")") > terms.count("(") and terms[-1] == ")":
        terms = terms[:-1]
    if sum(isinstance(token, Quantity) for token in side) < 2:
        return None
    try:
        return float(simple_eval("".join(terms), names={}, functions={}))
    except (InvalidExpression, SyntaxError, ArithmeticError, TypeError, ValueError):
        return None


def _term(token: Token, before: Sequence[Token], *, is_base: bool) -> str:
    if isinstance(token, str):
        return token
    value = token.values[0] if is_base else token.written[0]
    return repr(abs(value) if list(before) == ["-"] else value)


def _holds(side: Sequence[Token], result: Quantity) -> bool:
    """Return whether the result is that of the numbers as they are written, of percentages, or in base units."""
    factor = abs(result.unit.factor or 1.0)
    written, base = _value_of(side, is_base=False), _value_of(side, is_base=True)
    quantities = [token for token in side if isinstance(token, Quantity)]
    scales = (1.0, 100.0, 0.01) if any("%" in one.text for one in (*quantities, result)) else (1.0,)
    return any(
        value is not None and abs(scale * value - known) <= max(tolerance, _ROUNDED * abs(known)) * 1.0001
        for value, known, tolerance in (
            (written, result.written[0], result.tolerance / factor),
            (base, result.values[0], result.tolerance),
        )
        for scale in scales
    )


def _shown(side: Sequence[Token]) -> str:
    signs = {"*": "×", "-": "−"}
    shown = (signs.get(token, token) if isinstance(token, str) else token.text.lstrip("-−– ") for token in side)
    return " ".join(shown).replace("( ", "(").replace(" )", ")")
