"""Validate the ``arrowhead`` options of a literature review. Pure.

Unknown keys and wrong values are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from server.methods.shared.options import Flag, Namespaces, NumSentences, checked, refuse, validated
from server.methods.shared.reading.gate import DEFAULT_SENTENCES
from server.methods.shared.synthesis import Synthesis
from server.types import EgressMode

SourceName = Literal["pubmed", "gateway", "namespaces"]
MAX_QUERIES: Final = 5
MAX_ARTICLES: Final = 1000
_MAX_EXCLUDED: Final = 5000
_INSTEAD: Final = {
    "expand": "citations are not followed; send queries of your own",
    "full_text": "arrowhead namespace fetch --full-text keeps full texts, which reviews search as namespaces",
}
_MAX_QUERY: Final = 300
_DAY: Final = re.compile(r"(\d{4})(?:[-/](\d{1,2}))?(?:[-/](\d{1,2}))?")
_NAME: Final = re.compile(r"[^\W_][^\"\[\]\n<>]{1,119}")
_PMID: Final = re.compile(r"[1-9][0-9]{0,9}")


def _listed(value: Any) -> Any:
    """Return one word as a list of it; of a list, each text once, with single blanks."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        return value
    return list(dict.fromkeys(" ".join(one.split()) for one in texts))


def _is_query(text: str) -> bool:
    return 0 < len(text) <= _MAX_QUERY and text.isprintable()


def _queries(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_QUERIES:
        return value
    texts = _listed(value)
    fits = isinstance(texts, list) and 1 <= len(texts) <= MAX_QUERIES
    if not fits or not all(isinstance(one, str) and _is_query(one) for one in texts):
        raise ValueError(f"must be a number from 1 to {MAX_QUERIES}, or as many PubMed queries")
    return texts


def _pmids(value: Any) -> Any:
    texts = [str(one) for one in value if isinstance(one, str | int)] if isinstance(value, list) else []
    if not 1 <= len(texts) <= _MAX_EXCLUDED or len(texts) < len(value) or not all(map(_PMID.fullmatch, texts)):
        raise ValueError(f"must be a list of 1 to {_MAX_EXCLUDED} PMIDs")
    return list(dict.fromkeys(texts))


def _is_day(value: str) -> bool:
    found = _DAY.fullmatch(value)
    if found is None:
        return False
    try:
        date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return False
    return True


_Name = Annotated[str, AfterValidator(checked(_NAME.fullmatch, "a name as it is written in PubMed"))]
_Day = Annotated[str, AfterValidator(checked(_is_day, "a day as 2020, 2020-01 or 2020-01-31"))]
_List = BeforeValidator(_listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinfoOptions:
    """Hold the options of a literature review.

    - ``queries``: how many to write, or the queries themselves in PubMed's syntax.
    - ``date_from``, ``date_to``: "" or yyyy[-mm[-dd]], of publication, both included.
    - ``sources``: () for PubMed or the gateway, as the egress mode has it, and the namespaces there are.
    - ``max_articles``: number of candidates that are fetched and screened.
    - ``sentences``: at most so many in an extractive answer.
    - ``max_seconds``: of the whole answer; each stage has a share.
    """

    queries: Annotated[int | tuple[str, ...], BeforeValidator(_queries)] = 3
    date_from: _Day = ""
    date_to: _Day = ""
    publication_types: Annotated[tuple[_Name, ...], _List, Field(min_length=1, max_length=20)] = ()
    exclude_pmids: Annotated[tuple[str, ...], BeforeValidator(_pmids)] = ()
    sources: Annotated[tuple[SourceName, ...], _List, Field(min_length=1)] = ()
    namespaces: Annotated[Namespaces, _List] = ()
    max_articles: Annotated[int, Field(strict=True, ge=1, le=MAX_ARTICLES)] = 60
    synthesis: Synthesis | None = None
    sentences: NumSentences = DEFAULT_SENTENCES
    references: Flag = True
    egress: EgressMode | None = None
    max_seconds: Annotated[float, Field(strict=True, ge=5, le=3600)] = 300.0

    @property
    def first_day(self) -> int:
        """Return the first permitted day as yyyymmdd, 0 for no limit."""
        return _number(self.date_from, "00", "00") if self.date_from else 0

    @property
    def last_day(self) -> int:
        """Return the last permitted day as yyyymmdd, 0 for no limit."""
        return _number(self.date_to, "99", "99") if self.date_to else 0


def _number(day: str, month: str, last: str) -> int:
    found = _DAY.fullmatch(day)
    return int(f"{found[1]}{(found[2] or month).zfill(2)}{(found[3] or last).zfill(2)}") if found else 0


def parse_options(values: Mapping[str, Any]) -> ClinfoOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    options = validated(ClinfoOptions, values, why_none=_INSTEAD)
    if options.first_day and options.last_day and options.first_day > options.last_day:
        refuse("date_from", "is after date_to")
    if options.namespaces and options.sources and "namespaces" not in options.sources:
        refuse("namespaces", 'are searched only where "sources" has "namespaces"')
    return options
