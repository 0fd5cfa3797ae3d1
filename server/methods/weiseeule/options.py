"""Validate the ``arrowhead`` options of a WeiseEule request; unknown keys and wrong values are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from retrieval.corpus.items import date_number
from retrieval.corpus.search.ranking import MAX_K
from server.methods.base import OptionInvalid
from server.methods.medrag.options import MAX_CONTEXT_TOKENS, are_names
from server.methods.shared.extractive import DEFAULT_SENTENCES, MAX_SENTENCES
from server.methods.shared.passages import PassageQuery
from server.methods.shared.synthesis import SYNTHESES, Synthesis
from server.methods.weiseeule.library import MATCHINGS, RETRIEVERS, Matching, Restriction, WeiseRetriever

MAX_KEYWORDS: Final = 32
MAX_ARTICLES: Final = 50
_MAX_KEYWORD: Final = 200
_MAX_TYPES: Final = 100
_PMID: Final = re.compile(r"(?:PMID:\s*)?([1-9]\d{0,8})", re.ASCII)
_LAST: Final = ((10_000, 1231), (100, 31))
Extractor = Literal["auto", "model", "terms"]
_Rule = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeiseOptions:
    """Hold the options of a request.

    - ``keywords``: () reads them from the question: its marks, else the extractor.
    - ``fixed``: which of the keywords are fixed; None leaves that to the marks.
    - ``only_fixed``: no passage without all fixed keywords, as ``##``.
    - ``extractor``: "model" writes keywords under a schema, "terms" takes them by names and counts; "auto" chooses.
    - ``rerank``: number of the best passages that the cross-encoder puts in order.
    - ``papers``: PMIDs to which the search is restricted (``one_paper``, ``articles``).
    - ``compare``: also search by the other retrievers.
    - ``recommend``: recommend articles instead of answering.
    - ``quotes``, ``synthesis``, ``sentences``, ``context_tokens``: as for MedRAG.
    """

    namespaces: tuple[str, ...] = ()
    retriever: WeiseRetriever = "pes2"
    matching: Matching = "variants"
    keywords: tuple[str, ...] = ()
    fixed: tuple[str, ...] | Literal["all", "none"] | None = None
    only_fixed: bool = False
    extractor: Extractor = "auto"
    k: int = 10
    rerank: int = 0
    one_paper: str = ""
    articles: tuple[str, ...] = ()
    date_from: int = 0
    date_to: int = 0
    types: tuple[str, ...] = ()
    without_types: tuple[str, ...] = ()
    compare: bool = False
    recommend: bool = False
    context_tokens: int | None = None
    references: bool = True
    synthesis: Synthesis | None = None
    quotes: bool | None = None
    sentences: int = DEFAULT_SENTENCES

    @property
    def where(self) -> Restriction:
        papers = (self.one_paper,) if self.one_paper else self.articles
        return Restriction(
            date_from=self.date_from,
            date_to=self.date_to,
            types=self.types,
            without_types=self.without_types,
            papers=papers,
        )

    @property
    def passage_query(self) -> PassageQuery:
        """Return what the namespaces check before any work."""
        return PassageQuery(namespaces=self.namespaces, k=self.k, rerank=self.rerank)


def _number(least: int, most: int) -> _Rule:
    fits = lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most  # noqa: E731
    return fits, f"a number from {least} to {most}"


def _one_of(*words: str) -> _Rule:
    return lambda value: isinstance(value, str) and value in words, "one of " + ", ".join(words)


def _are_texts(most: int) -> Callable[[Any], bool]:
    def fit(value: Any) -> bool:
        is_list = isinstance(value, list) and 1 <= len(value) <= most
        return is_list and all(
            isinstance(one, str) and one.strip() and len(one) <= _MAX_KEYWORD and one.isprintable() for one in value
        )

    return fit


_FLAG: Final[_Rule] = (lambda value: isinstance(value, bool), "true or false")
_DAY: Final[_Rule] = (
    lambda value: isinstance(value, str) and date_number(value) > 0,
    "a day, a month or a year: 2020-01-31, 2020-01, 2020",
)
_TYPES: Final[_Rule] = (_are_texts(_MAX_TYPES), "a list of publication types")
_RULES: Final[dict[str, _Rule]] = {
    "namespaces": (are_names, "a list of 1 to 64 names"),
    "retriever": _one_of(*RETRIEVERS),
    "matching": _one_of(*MATCHINGS),
    "keywords": (_are_texts(MAX_KEYWORDS), f"a list of 1 to {MAX_KEYWORDS} keywords, one line each"),
    "fixed": (
        lambda value: value in ("all", "none", []) or _are_texts(MAX_KEYWORDS)(value),
        "all, none, or a list of keywords",
    ),
    "only_fixed": _FLAG,
    "extractor": _one_of("auto", "model", "terms"),
    "k": _number(1, MAX_K),
    "rerank": _number(0, MAX_K),
    "one_paper": (lambda value: _is_pmid(value), "a PMID"),
    "articles": (
        lambda value: isinstance(value, list) and 1 <= len(value) <= MAX_ARTICLES and all(map(_is_pmid, value)),
        f"a list of 1 to {MAX_ARTICLES} PMIDs",
    ),
    "date_from": _DAY,
    "date_to": _DAY,
    "types": _TYPES,
    "without_types": _TYPES,
    "compare": _FLAG,
    "recommend": _FLAG,
    "context_tokens": _number(1, MAX_CONTEXT_TOKENS),
    "references": _FLAG,
    "synthesis": _one_of(*SYNTHESES),
    "quotes": _FLAG,
    "sentences": _number(1, MAX_SENTENCES),
}


def parse_options(values: Mapping[str, Any]) -> WeiseOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    for key, value in values.items():
        if key == "egress":
            _refuse(key, "search is local, so nothing leaves and there is nothing to set")
        if key not in _RULES:
            _refuse(key[:40], f"there is no such option; options are {', '.join(_RULES)}")
        fits, rule = _RULES[key]
        if not fits(value):
            _refuse(key, f"must be {rule}")
    options = WeiseOptions(**{key: _frozen(key, value) for key, value in values.items()})
    if options.date_to and options.date_from > options.date_to:
        _refuse("date_from", "lies after date_to")
    if options.one_paper and options.articles:
        _refuse("one_paper", "is one of several articles; give articles alone")
    if None not in (options.quotes, options.synthesis) and options.quotes != (options.synthesis == "quoted"):
        _refuse("quotes", f"contradicts synthesis {options.synthesis!r}; give one of the two")
    return options


def _refuse(key: str, why: str) -> NoReturn:
    raise OptionInvalid(f"arrowhead.{key}: {why}", param=f"arrowhead.{key}")


def _is_pmid(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and bool(_PMID.fullmatch(str(value).strip()))


def _pmid(value: Any) -> str:
    found = _PMID.fullmatch(str(value).strip())
    return found[1] if found else ""


def _frozen(key: str, value: Any) -> Any:
    match key:
        case "one_paper":
            return _pmid(value)
        case "articles":
            return tuple(dict.fromkeys(map(_pmid, value)))
        case "date_from":
            return date_number(value)
        case "date_to":
            number = date_number(value)
            return next((number + last for part, last in _LAST if number % part == 0), number)
    return tuple(" ".join(one.split()) for one in value) if isinstance(value, list) else value
