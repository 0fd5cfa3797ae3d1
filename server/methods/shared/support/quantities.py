"""Find the numbers of a text with their units, in base units. Pure but for the units passed in.

Read are digits with decimal commas and separators of thousands, powers of ten, number words of four languages, and
ranges and lists that share a unit. A number that can be read in two ways has both readings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from text_to_num import find_numbers

from server.methods.shared.support.units import NO_UNIT, Unit, Units

TIME: Final = "[time]"
_LANGUAGES: Final = ("en", "de", "fr", "es")
# One character for one, so that places stay as they are.
_PLAIN: Final = str.maketrans({**dict.fromkeys("‐‑‒–—−", "-"), **dict.fromkeys("\u202f\u2009\u2007", "\xa0"), "μ": "µ"})
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_FRACTIONS: Final = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3}
_RAISED: Final = r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}"
_NUMBER: Final = re.compile(
    r"(?<![\w.])(?<![^\W\d_]-)(?<!\d,)(?P<sign>(?<![\d%)])-\s?(?=[\d.]))?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}(?!\d)|"
    r"\d{1,3}(?:[\xa0']\d{3})+(?:[.,]\d+)?(?!\d)|\d{1,3}(?: \d{3})+(?![\d.,])|\d+[.,·]\d+|\d+|(?<!\d)[.·]\d+)"
    rf"(?P<fraction>[½¼¾⅓⅔])?(?:(?:[eE]|\s?[×x·*]\s?10\s?(?:\^|\*\*)?\s?)(?P<power>[-+]?(?!0)\d{{1,3}})(?!\d)|"
    rf"\s?[×x·*]\s?10(?P<raised>{_RAISED})|\^(?P<exponent>-?\d{{1,3}})(?!\d)|(?P<superscript>{_RAISED}))?|(?<![^\W\d_])(?P<alone>[½¼¾⅓⅔])"
)
# The body surface to which filtration rates are brought belongs to their unit.
_SURFACE: Final = re.compile(r"1[.,]73\s?m(?:²|\^?2)(?!\w)")
_MULTIPLE: Final = re.compile(
    r"[\s\xa0-](?:(?P<six>millions?|mio\.?|millionen|millón|millones)|(?P<nine>billions?|milliarden?|milliards?)|"
    r"(?P<three>thousand|tausend|mille|mil))(?!\w)",
    re.IGNORECASE,
)
_POWERS: Final = {"three": 1e3, "six": 1e6, "nine": 1e9}
# Between numbers of one range or list, whose unit stands behind the last.
_JOIN: Final = re.compile(
    r"[\s*_]{0,3}(?:(?:-|/|,|±|to|and|or|versus|vs\.?|bis|und|oder|à|et|ou|a|y|o|against|gegen|contre|contra)\s?){1,2}"
    r"(?:(?:to|from|about|von|auf|de|≥|>|<|≤)\s?)?[*_]{0,2}",
    re.IGNORECASE,
)
_GAP: Final = re.compile(r"[*_]{0,2}[\s\xa0]?-?[*_]{0,2}")
_WORD: Final = re.compile(r"\w+|\W")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Hold one number of a text: its place, and its readings in base units of ``unit``.

    ``written`` are the readings as they stand. ``tolerance`` is half of the last written place, in base units.
    """

    text: str
    start: int
    end: int
    written: tuple[float, ...]
    values: tuple[float, ...]
    unit: Unit = NO_UNIT
    tolerance: float = 0.0

    @property
    def dimension(self) -> str:
        return self.unit.dimension


@dataclass(frozen=True, slots=True)
class _Number:
    start: int
    end: int
    readings: tuple[float, ...]
    place: float = 1.0
    language: str = ""


class _Word:
    """Give text2num one token."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        return self._text

    def nt_separated(self, previous: _Word) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return False


class QuantityReader:
    """Read the quantities of texts with one table of units."""

    def __init__(self, units: Units) -> None:
        self._units = units
        # "week 52 versus 14%": the unit of a number stands before it.
        self._before = re.compile(rf"(?<!\d)(?<!\d[ -])(?<!\w)(?:{units.one})\s$")

    def read(self, text: str, masked: Sequence[tuple[int, int]] = (), *, is_evidence: bool = False) -> list[Quantity]:
        """Return the quantities of a text by place, but for those that begin in a masked span.

        Of evidence, number words are read in all languages.
        """
        plain = text.translate(_PLAIN)
        numbers = sorted((*_written(plain), *_worded(plain)), key=lambda number: (number.start, -number.end))
        found = self._measured(plain, numbers, is_evidence=is_evidence)
        starts = sorted(masked)
        return sorted((q for q in found if not _is_within(q.start, starts)), key=lambda q: (q.start, q.end))

    def _measured(self, text: str, numbers: Sequence[_Number], *, is_evidence: bool) -> Iterator[Quantity]:
        read: list[tuple[_Number, Quantity]] = []
        for number in numbers:
            quantity = self._quantity(text, number)
            # "9 million": the second word is a number of its own only where it does not belong to the first.
            if quantity is not None and (not read or number.start >= read[-1][1].end):
                read.append((number, quantity))
        after: Quantity | None = None
        for number, quantity in reversed(read):
            if not quantity.dimension and after is not None and after.dimension:
                gap = text[quantity.end : after.start]
                # "dos", "ein": a word of another language may be none.
                is_number = number.language in ("", "en") or is_evidence
                if is_number and _JOIN.fullmatch(gap) and not self._before.search(text, 0, quantity.start):
                    quantity = self._of(text, number, after.unit, quantity.end)
            if number.language not in ("", "en") and not quantity.dimension and not is_evidence:
                continue
            after = quantity
            yield quantity

    def _quantity(self, text: str, number: _Number) -> Quantity | None:
        end = number.end
        if multiple := _MULTIPLE.match(text, end):
            end, power = multiple.end(), _POWERS[str(multiple.lastgroup)]
            readings = tuple(value * power for value in number.readings)
            number = replace(number, readings=readings, place=number.place * power)
        gap = _GAP.match(text, end)
        start = gap.end() if gap else end
        if measured := self._units.match(text, start) or self._units.match(text, end):
            return self._of(text, number, *measured)
        return None if text[end : end + 1].isalnum() else self._of(text, number, NO_UNIT, end)

    def _of(self, text: str, number: _Number, unit: Unit, end: int) -> Quantity:
        values = tuple(self._units.base(value, unit) for value in number.readings)
        tolerance = number.place * abs(unit.factor if unit.factor is not None else 1.0) / 2
        return Quantity(text[number.start : end], number.start, end, number.readings, values, unit, tolerance)


def _is_within(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    before = bisect_right(spans, (place, 1 << 60)) - 1
    return before >= 0 and place < spans[before][1]


def _written(text: str) -> Iterator[_Number]:
    for found in _NUMBER.finditer(text):
        if _SURFACE.match(text, found.start()):
            continue
        if found["alone"]:
            yield _Number(*found.span(), (_FRACTIONS[found["alone"]],), 0.01)
            continue
        power = found["power"] or (found["raised"] or found["superscript"] or "").translate(_SUPERSCRIPTS)
        power = power or found["exponent"] or ""
        if (found["superscript"] or found["exponent"]) and found["digits"] != "10":
            continue
        readings, place = _readings(found["digits"])
        if found["superscript"] or found["exponent"]:
            readings, place = (1.0,), 0.0
        sign = -1.0 if found["sign"] else 1.0
        scale = float(f"1e{int(power)}") if power else 1.0
        added = _FRACTIONS.get(found["fraction"] or "", 0.0)
        yield _Number(*found.span(), tuple(sign * (one + added) * scale for one in readings), place * scale)


def _readings(digits: str) -> tuple[tuple[float, ...], float]:
    """Return the values that the digits can have, the likeliest first, and the value of their last place."""
    separators = re.sub(r"\d", "", digits)
    if " " in separators:  # "22 600", or two numbers side by side
        return (float(digits.replace(" ", "")), float(digits.rsplit(" ", 1)[1])), 1.0
    whole = float(re.sub(r"\D", "", digits) or 0)
    if not separators:
        return (whole,), _last_place(digits)
    if separators[-1] in ".·," and (len(separators) == 1 or separators[-1] != separators[0]):
        num_decimals = len(digits) - 1 - max(digits.rfind(mark) for mark in ".·,")
        decimal = (whole / 10**num_decimals,)
        is_open = len(separators) == 1 and num_decimals == 3 and not digits.startswith(("0", ".", "·"))
        if not is_open:
            return decimal, 10.0**-num_decimals
        return ((whole, *decimal), _last_place(digits)) if separators == "," else ((*decimal, whole), 0.001)
    return (whole,), _last_place(re.sub(r"\D", "", digits))


def _last_place(digits: str) -> float:
    """Return 1, or for thousands the place of the last digit that is not zero."""
    num_zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0**num_zeros if num_zeros >= 3 else 1.0


def _worded(text: str) -> Iterator[_Number]:
    places = [found.span() for found in _WORD.finditer(text)]
    words = [_Word(text[slice(*span)]) for span in places]
    seen: set[tuple[int, float]] = set()
    for language in _LANGUAGES:
        for number in find_numbers(words, language, threshold=0):
            start, end = places[number.start][0], places[number.end - 1][1]
            if any(c.isdigit() for c in text[start:end]) or (start, number.value) in seen:
                continue
            seen.add((start, number.value))
            yield _Number(start, end, (float(number.value),), language=language)
