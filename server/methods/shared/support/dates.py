"""Read dates in the forms of four languages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MONTHS: Final = (
    "january januar janvier enero jan", "february februar février febrero feb", "march märz mars marzo mar",
    "april avril abril apr", "may mai mayo", "june juni juin junio jun", "july juli juillet julio jul",
    "august août agosto aug", "september septembre septiembre sep sept", "october oktober octobre octubre oct okt",
    "november novembre noviembre nov", "december dezember décembre diciembre dec dez",
)  # fmt: skip
_NUMBERS: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_NAME: Final = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_DATE: Final = re.compile(
    rf"(?<![\w-])(?:(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?|"
    rf"(?:(?P<d2>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?)?(?P<m2>{_NAME})\.?,?\s(?:de(?:l)?\s)?(?P<y2>(?:19|20)\d\d)|"
    rf"(?P<m3>{_NAME})\.?\s(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y3>(?:19|20)\d\d))(?![\w-])",
    re.IGNORECASE,
)


def dates_in(text: str) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield the places of dates and their numbers: a month's (yyyymm), then a day's (yyyymmdd) where one is named."""
    for found in _DATE.finditer(text):
        groups = found.groupdict()
        year, month, day = (
            next((groups[f"{part}{n}"] for n in "123" if groups.get(f"{part}{n}")), "") for part in "ymd"
        )
        number = int(year) * 100 + (int(month) if month.isdecimal() else _NUMBERS[month.lower()])
        yield (*found.span(), (number, number * 100 + int(day)) if day else (number,))
