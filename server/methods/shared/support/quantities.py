"""Find the numbers of a text with their units, in base units. Pure but for the units passed in.

Read are digits with decimal commas and separators of thousands, powers of ten, number words of four languages, ranges
and lists that share a unit, rates and frequencies. A number that can be read in two ways has both readings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from text_to_num import find_numbers

from server.methods.shared.identifiers import INTEGER
from server.methods.shared.support.units import NO_UNIT, Unit, Units

TIME: Final = "[time]"
FREQUENCY: Final = "1 / [time]"
DATE: Final = "[date]"
PROBABILITY: Final = "[probability]"
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
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th|er|e|ère|ème)\b")
_MULTIPLE: Final = re.compile(
    r"[\s\xa0-](?:(?P<six>millions?|mio\.?|millionen|millón|millones)|(?P<nine>billions?|milliarden?|milliards?)|"
    r"(?P<three>thousand|tausend|mille|mil))(?!\w)",
    re.IGNORECASE,
)
_POWERS: Final = {"three": 1e3, "six": 1e6, "nine": 1e9}
_AND_HALF: Final = re.compile(r"\s(?:and a half|et demie?|y medi[oa])(?!\w)|einhalb(?!\w)", re.IGNORECASE)
# Between numbers of one range or list, whose unit stands behind the last.
_JOIN: Final = re.compile(
    r"[\s*_]{0,3}(?:(?:-|/|,|±|to|and|or|versus|vs\.?|bis|und|oder|à|et|ou|a|y|o|against|gegen|contre|contra)\s?){1,2}"
    r"(?:(?:to|from|about|von|auf|de|≥|>|<|≤)\s?)?[*_]{0,2}",
    re.IGNORECASE,
)
_GAP: Final = re.compile(r"[*_]{0,2}[\s\xa0]?-?[*_]{0,2}")
_HALF: Final = re.compile(r"\b(?:half|halbe[nrs]?|demi(?:e)?|medi[oa])[\s-](?:an?\s)?(?=[^\W\d_])", re.IGNORECASE)
_ARTICLE: Final = re.compile(
    r"\b(?:each|every|per|pro|jede[mnrs]?|chaque|cada|an?|eine[mnrs]?|ein|une?|una|one)\s", re.IGNORECASE
)
_OFTEN: Final = re.compile(
    r"\b(?P<one>once|einmal)|\b(?P<two>twice|zweimal)|\b(?P<three>thrice|dreimal)", re.IGNORECASE
)
_SHORT: Final = re.compile(
    r"(?<![\w.])(?:(?P<two>BID|bid|b\.i\.d\.?)|(?P<three>TID|tid|t\.i\.d\.?|TDS)|(?P<four>QID|qid|q\.i\.d\.?|QDS)|"
    r"q(?P<interval>\d{1,2})(?P<unit>h|d))(?!\w)"
)
_COUNTS: Final = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0}
_TIMES: Final = r"[\s-](?:times|mal|fois|veces|vez)"
_PER: Final = r"[\s-](?:(?:an?|per|each|every|pro|am|im|in der|par|por|al|à la|a la)\s)?"
_PROBABILITY: Final = re.compile(r"(?<![\w])[pP]\*?(?:[\s-]?values?)?\s?(?P<sign>[=<>≤≥])\s?$")
_EVERY: Final = re.compile(r"\b(?:every|each|alle|jede[nrs]?|toutes les|tous les|cada)\s$", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+|\W")
_MONTHS: Final = (
    "january januar janvier enero jan", "february februar février febrero feb", "march märz mars marzo mar",
    "april avril abril apr", "may mai mayo", "june juni juin junio jun", "july juli juillet julio jul",
    "august août agosto aug", "september septembre septiembre sep sept", "october oktober octobre octubre oct okt",
    "november novembre noviembre nov", "december dezember décembre diciembre dec dez",
)  # fmt: skip
_MONTH_NUMBERS: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH: Final = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_DATE: Final = re.compile(
    rf"(?<![\w-])(?:(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?|"
    rf"(?:(?P<d2>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?)?(?P<m2>{_MONTH})\.?,?\s(?:de(?:l)?\s)?(?P<y2>(?:19|20)\d\d)|"
    rf"(?P<m3>{_MONTH})\.?\s(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y3>(?:19|20)\d\d))(?![\w-])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Hold one number of a text: its place, and its readings in base units of ``unit``.

    ``written`` are the readings as they stand. ``tolerance`` is half of the last written place, in base units.
    ``is_joined``: the unit was taken from the next number of a range or list. ``is_implied``: an article stands for
    the number ("a month"). ``is_interval``: a period in which something recurs. ``is_bound``: a p-value that is said to
    be less than this.
    """

    text: str
    start: int
    end: int
    written: tuple[float, ...]
    values: tuple[float, ...]
    unit: Unit = NO_UNIT
    tolerance: float = 0.0
    is_joined: bool = False
    is_implied: bool = False
    is_interval: bool = False
    is_word: bool = False
    is_bound: bool = False

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
        interval = rf"{_PER}(?:(?P<adverb>{units.adverb})|(?P<unit>{units.one}))"
        self._often = re.compile(interval)
        self._times = re.compile(_TIMES + interval)
        self._one = re.compile(units.one)
        # "week 52 versus 14%": the unit of a number stands before it.
        self._before = re.compile(rf"(?<!\d)(?<!\d[ -])(?<!\w)(?:{units.one})\s$")
        self._adverb = re.compile(rf"(?<!\w)(?:{units.adverb})")

    def read(self, text: str, masked: Sequence[tuple[int, int]] = (), *, is_evidence: bool = False) -> list[Quantity]:
        """Return the quantities of a text by place, but for those that begin in a masked span.

        Of evidence, number words are read in all languages, and what an article or an adverb implies is read too.
        """
        plain = text.translate(_PLAIN)
        found = list(_dates(plain))
        days = [(q.start, q.end) for q in found]
        numbers = [number for number in (*_written(plain), *_worded(plain)) if not _is_within(number.start, days)]
        numbers.sort(key=lambda number: (number.start, -number.end))
        found += self._measured(plain, numbers, is_evidence=is_evidence)
        spans = sorted((q.start, q.end) for q in found)
        found += (q for q in (*self._short(plain), *self._halves(plain)) if not _is_within(q.start, spans))
        if is_evidence:
            often = [(q.start, q.end) for q in found if q.dimension == FREQUENCY]
            found += [q for q in self._implied(plain) if not _is_within(q.end - 1, often)]
            found += _digit_runs(plain)
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
                    quantity = self._of(text, number, after.unit, quantity.end, is_joined=True)
            if number.language not in ("", "en") and not quantity.dimension and not is_evidence:
                continue
            if after is not None and _JOIN.fullmatch(text, quantity.end, after.start):
                quantity = _scaled(quantity, text[after.start : after.end])
            after = quantity
            yield quantity

    def _quantity(self, text: str, number: _Number) -> Quantity | None:
        end, readings = number.end, number.readings
        if half := _AND_HALF.match(text, end):
            end, readings = half.end(), tuple(value + 0.5 for value in readings)
        if multiple := _MULTIPLE.match(text, end):
            end, power = multiple.end(), _POWERS[str(multiple.lastgroup)]
            readings = tuple(value * power for value in readings)
            number = replace(number, place=number.place * power)
        number = replace(number, readings=readings)
        if times := self._times.match(text, end):
            return self._frequency(text, (number.start, times.end()), readings, self._interval(times))
        if chance := _PROBABILITY.search(text, max(0, number.start - 20), number.start):
            unit = Unit("p", PROBABILITY, 1.0)
            return replace(self._of(text, number, unit, end), is_bound=chance["sign"] in "<≤")
        gap = _GAP.match(text, end)
        start = gap.end() if gap else end
        if measured := self._units.match(text, start) or self._units.match(text, end):
            interval = _EVERY.search(text[max(0, number.start - 12) : number.start]) is not None
            return replace(self._of(text, number, *measured), is_interval=interval)
        if ordinal := _ORDINAL.match(text, end):
            return self._of(text, number, NO_UNIT, ordinal.end())
        if text[end : end + 1].isalnum():
            return None
        return self._of(text, number, NO_UNIT, end)

    def _of(self, text: str, number: _Number, unit: Unit, end: int, *, is_joined: bool = False) -> Quantity:
        values = tuple(self._units.base(value, unit) for value in number.readings)
        return Quantity(
            text[number.start : end],
            number.start,
            end,
            number.readings,
            values,
            unit,
            number.place * abs(unit.factor if unit.factor is not None else 1.0) / 2,
            is_joined=is_joined,
            is_word=bool(number.language),
        )

    def _interval(self, found: re.Match[str]) -> Unit:
        if found["adverb"]:
            return self._units.of_adverb(found["adverb"])
        return self._units.of_word(found["unit"])

    def _frequency(self, text: str, span: tuple[int, int], times: tuple[float, ...], interval: Unit) -> Quantity | None:
        if interval.dimension != TIME:
            return None
        unit = self._units.unit(f"number / ({interval.expression})")
        values = tuple(self._units.base(value, unit) for value in times)
        return Quantity(text[slice(*span)], *span, times, values, unit)

    def _short(self, text: str) -> Iterator[Quantity]:
        """Yield "once daily", "BID" and "q12h"."""
        day = self._units.unit("day")
        for found in _OFTEN.finditer(text):
            behind = self._often.match(text, found.end())
            if behind is not None:
                count = (_COUNTS[str(found.lastgroup)],)
                quantity = self._frequency(text, (found.start(), behind.end()), count, self._interval(behind))
                yield from (quantity,) if quantity else ()
        for found in _SHORT.finditer(text):
            if found["interval"]:
                unit = self._units.unit(f"number / ({self._units.of_word(found['unit']).expression})")
                value = self._units.base(1 / max(1.0, float(found["interval"])), unit)
                yield Quantity(found[0], *found.span(), (float(found["interval"]),), (value,), unit)
            elif quantity := self._frequency(text, found.span(), (_COUNTS[str(found.lastgroup)],), day):
                yield quantity

    def _halves(self, text: str) -> Iterator[Quantity]:
        for found in _HALF.finditer(text):
            if behind := self._one.match(text, found.end()):
                unit, span = self._units.of_word(behind[0]), (found.start(), behind.end())
                yield Quantity(text[slice(*span)], *span, (0.5,), (self._units.base(0.5, unit),), unit)

    def _implied(self, text: str) -> Iterator[Quantity]:
        """Yield what no number says: "a month", "a day", "daily"."""
        for found in _ARTICLE.finditer(text):
            behind = self._one.match(text, found.end())
            unit = self._units.of_word(behind[0]) if behind else NO_UNIT
            if behind is None or unit.dimension != TIME:
                continue
            span = (found.start(), behind.end())
            base = (self._units.base(1.0, unit),)
            yield Quantity(text[slice(*span)], *span, (1.0,), base, unit, is_implied=True)
            quantity = self._frequency(text, span, (1.0,), unit)
            yield from (replace(quantity, is_implied=True),) if quantity else ()
        for found in self._adverb.finditer(text):
            quantity = self._frequency(text, found.span(), (1.0,), self._units.of_adverb(found[0]))
            yield from (replace(quantity, is_implied=True),) if quantity else ()


def _scaled(quantity: Quantity, following: str) -> Quantity:
    """Return a number with a second reading, in the millions or the powers of ten of the next one of its list.

    "2 and 3 million", "150 to 400 × 10⁹/L".
    """
    scale = _scale_of(following)
    if scale == 1.0 or _scale_of(quantity.text) != 1.0 or quantity.unit.factor is None:
        return quantity
    written, values = (tuple(one * scale for one in known) for known in (quantity.written, quantity.values))
    return replace(quantity, written=(*quantity.written, *written), values=(*quantity.values, *values))


def _scale_of(text: str) -> float:
    plain = text.translate(_PLAIN)
    number, multiple = _NUMBER.search(plain), _MULTIPLE.search(plain)
    power = number and (number["power"] or (number["raised"] or "").translate(_SUPERSCRIPTS))
    return _POWERS[str(multiple.lastgroup)] if multiple else float(f"1e{int(power)}") if power else 1.0


def _is_within(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    before = bisect_right(spans, (place, 1 << 60)) - 1
    return before >= 0 and place < spans[before][1]


def _dates(text: str) -> Iterator[Quantity]:
    """Yield dates in the forms of four languages: a month's (yyyymm), with a day's (yyyymmdd) where one is named."""
    for found in _DATE.finditer(text):
        groups = found.groupdict()
        year, month, day = (
            next((groups[f"{part}{n}"] for n in "123" if groups.get(f"{part}{n}")), "") for part in "ymd"
        )
        number = float(int(year) * 100 + (int(month) if month.isdecimal() else _MONTH_NUMBERS[month.lower()]))
        values = (number, number * 100 + int(day)) if day else (number,)
        yield Quantity(found[0], *found.span(), values, values, Unit("date", DATE, 1.0))


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


def _digit_runs(text: str) -> Iterator[Quantity]:
    """Yield all whole numbers: a list of ids without spaces looks like one number with separators."""
    for found in INTEGER.finditer(text):
        value = (float(found[0]),)
        yield Quantity(found[0], *found.span(), value, value, is_implied=True)
