"""Validate the ``arrowhead`` options of a literature review. Pure.

Unknown keys and wrong values are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, get_args

from retrieval.corpus.store.base import is_name
from server.methods.base import OptionInvalid
from server.methods.shared.reading.gate import MAX_SENTENCES
from server.methods.shared.synthesis import SYNTHESES, Synthesis
from server.types import EGRESS_MODES, EgressMode

SourceName = Literal["pubmed", "gateway", "namespaces"]
Expansion = Literal["none", "cited_by", "references", "both"]
SOURCES: Final[tuple[SourceName, ...]] = get_args(SourceName)
MAX_QUERIES: Final = 5
MAX_ARTICLES: Final = 1000
_MAX_LISTED: Final = 50
_MAX_EXCLUDED: Final = 5000
_MAX_QUERY: Final = 300
_DAY: Final = re.compile(r"(\d{4})(?:[-/](\d{1,2}))?(?:[-/](\d{1,2}))?")
_NAME: Final = re.compile(r"[^\W_][^\"\[\]\n<>]{1,119}")
# A predicate for valid values, and its description.
_Rule = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinfoOptions:
    """Hold the options of a literature review.

    - ``queries``: how many to write, or the queries themselves in PubMed's syntax.
    - ``date_from``, ``date_to``: "" or yyyy[-mm[-dd]], of publication, both included.
    - ``sources``: () for PubMed or the gateway, as the egress mode has it, and the namespaces there are.
    - ``max_articles``: number of candidates that are fetched and screened.
    - ``expand``: search the citations of the best candidates as well.
    - ``full_text``: read the open full texts in PMC of the best articles as well.
    - ``sentences``: at most so many in an extractive answer.
    - ``max_seconds``: of the whole answer; each stage has a share.
    """

    queries: int | tuple[str, ...] = 3
    date_from: str = ""
    date_to: str = ""
    publication_types: tuple[str, ...] = ()
    species: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()
    exclude_pmids: tuple[str, ...] = ()
    sources: tuple[SourceName, ...] = ()
    namespaces: tuple[str, ...] = ()
    max_articles: int = 60
    expand: Expansion = "none"
    full_text: bool = False
    synthesis: Synthesis | None = None
    sentences: int = 3
    references: bool = True
    egress: EgressMode | None = None
    max_seconds: float = 300.0

    @property
    def num_queries(self) -> int:
        return self.queries if isinstance(self.queries, int) else len(self.queries)

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


def _whole(least: int, most: int) -> _Rule:
    fits = lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most  # noqa: E731
    return fits, f"a number from {least} to {most}"


def _one_of(*words: str) -> _Rule:
    return lambda value: isinstance(value, str) and value in words, "one of " + ", ".join(words)


def _list_of(fits: Callable[[str], bool], most: int, what: str) -> _Rule:
    def are(value: Any) -> bool:
        listed = [value] if isinstance(value, str) else value
        return (
            isinstance(listed, list)
            and 1 <= len(listed) <= most
            and all(isinstance(v, str) and fits(v) for v in listed)
        )

    return are, f"{what}, or a list of 1 to {most} of them"


_RULES: Final[dict[str, _Rule]] = {
    "queries": (lambda value: _are_queries(value), f"a number from 1 to {MAX_QUERIES}, or as many PubMed queries"),
    "date_from": (lambda value: _is_day(value), "a day as 2020, 2020-01 or 2020-01-31"),
    "date_to": (lambda value: _is_day(value), "a day as 2020, 2020-01 or 2020-01-31"),
    "publication_types": _list_of(lambda v: _NAME.fullmatch(v) is not None, 20, "a publication type"),
    "species": _list_of(lambda v: _NAME.fullmatch(v) is not None, 10, "a species as humans or mice"),
    "journals": _list_of(lambda v: _NAME.fullmatch(v) is not None, _MAX_LISTED, "the name of a journal"),
    "exclude_pmids": (lambda value: _are_pmids(value), f"a list of 1 to {_MAX_EXCLUDED} PMIDs"),
    "sources": _list_of(lambda v: v in SOURCES, len(SOURCES), "pubmed, gateway or namespaces"),
    "namespaces": _list_of(is_name, 64, "the name of a namespace"),
    "max_articles": _whole(1, MAX_ARTICLES),
    "expand": _one_of(*get_args(Expansion)),
    "full_text": (lambda value: isinstance(value, bool), "true or false"),
    "synthesis": _one_of(*SYNTHESES),
    "sentences": _whole(1, MAX_SENTENCES),
    "references": (lambda value: isinstance(value, bool), "true or false"),
    "egress": _one_of(*EGRESS_MODES),
    "max_seconds": (lambda value: _is_seconds(value), "a number of seconds from 5 to 3600"),
}
_LISTS: Final = frozenset({"publication_types", "species", "journals", "exclude_pmids", "sources", "namespaces"})


def parse_options(values: Mapping[str, Any]) -> ClinfoOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    for key, value in values.items():
        if key not in _RULES:
            _refuse(key[:40], f"there is no such option; options are {', '.join(_RULES)}")
        fits, rule = _RULES[key]
        if not fits(value):
            _refuse(key, f"must be {rule}")
    options = ClinfoOptions(**{key: _frozen(key, value) for key, value in values.items()})
    if options.first_day and options.last_day and options.first_day > options.last_day:
        _refuse("date_from", "is after date_to")
    if options.namespaces and options.sources and "namespaces" not in options.sources:
        _refuse("namespaces", 'are searched only where "sources" has "namespaces"')
    return options


def _refuse(key: str, why: str) -> None:
    raise OptionInvalid(f"arrowhead.{key}: {why}", param=f"arrowhead.{key}")


def _frozen(key: str, value: Any) -> Any:
    if key == "queries" and isinstance(value, int):
        return value
    if key in _LISTS or key == "queries":
        listed = [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(" ".join(str(one).split()) for one in listed))
    return value


def _are_queries(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return 1 <= value <= MAX_QUERIES
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_QUERIES:
        return False
    return all(isinstance(one, str) and one.strip() and len(one) <= _MAX_QUERY and one.isprintable() for one in listed)


def _are_pmids(value: Any) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_EXCLUDED:
        return False
    return all(re.fullmatch(r"[1-9][0-9]{0,9}", str(one)) for one in value if not isinstance(one, bool)) and not any(
        isinstance(one, bool | float) for one in value
    )


def _is_day(value: Any) -> bool:
    found = _DAY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return False
    try:
        date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return False
    return True


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 5 <= value <= 3600
