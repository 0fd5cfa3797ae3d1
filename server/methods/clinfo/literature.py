"""Define the articles of a review, and the sources where a method searches and fetches them.

Knows nothing of calls, stores and egress: ``server.evidence.literature`` implements the sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from server.methods.base import AnswerRequest, CallReplied
from server.methods.clinfo.options import ClinfoOptions
from server.methods.shared.passages import SentenceScores

# Hears of each call that a source has made, when its reply has come; the ordinal is left to the hearer.
Hear = Callable[[CallReplied], None]
Flag = Literal["retracted", "expression of concern", "erratum", "preprint", "retraction notice"]
Level = Literal["synthesis", "trial", "cohort", "case", "other"]
# From the strongest kind of evidence to the weakest; reports name them so.
LEVELS: Final[tuple[Level, ...]] = ("synthesis", "trial", "cohort", "case", "other")
_LEVEL_OF: Final[dict[Level, frozenset[str]]] = {
    "synthesis": frozenset(
        {"systematic review", "meta-analysis", "network meta-analysis", "practice guideline", "guideline"}
    ),
    "trial": frozenset(
        {
            "randomized controlled trial",
            "controlled clinical trial",
            "clinical trial",
            "clinical trial, phase i",
            "clinical trial, phase ii",
            "clinical trial, phase iii",
            "clinical trial, phase iv",
            "pragmatic clinical trial",
            "equivalence trial",
            "adaptive clinical trial",
        }
    ),
    "cohort": frozenset(
        {"observational study", "comparative study", "multicenter study", "twin study", "validation study"}
    ),
    "case": frozenset({"case reports"}),
}
_TITLED: Final[tuple[tuple[Level, re.Pattern[str]], ...]] = (
    ("synthesis", re.compile(r"\b(?:systematic review|meta-?analys[ei]s)\b", re.IGNORECASE)),
    ("trial", re.compile(r"\b(?:randomi[sz]ed|placebo-controlled)\b(?!.*\b(?:protocol)\b)", re.IGNORECASE)),
    ("cohort", re.compile(r"\b(?:cohort|case-control|cross-sectional|population-based)\b", re.IGNORECASE)),
    ("case", re.compile(r"\bcase (?:report|series)\b|\ba case of\b", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True)
class Section:
    """Hold one part of an article's text as it was read; ``label`` is its heading, "" for none."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """Hold one article, book chapter or document.

    ``key`` is stable over searches: "PMID:123", else the document's id. ``date`` is yyyymmdd with zeros where unknown,
    0 for no date. ``types`` are in lower case. ``notices`` are the kinds of notices about the article, as
    PubMed names them ("ErratumIn"). ``item`` is the article's own CSL-JSON. ``source`` is where it was fetched,
    ``namespace`` "" outside of namespaces.
    """

    key: str
    title: str
    sections: tuple[Section, ...] = ()
    pmid: str = ""
    doi: str = ""
    journal: str = ""
    date: int = 0
    authors: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    notices: frozenset[str] = frozenset()
    item: Mapping[str, Any] = field(default_factory=dict, repr=False)
    url: str = ""
    source: str = ""
    namespace: str = ""

    @property
    def year(self) -> str:
        return str(self.date // 10000) if self.date else ""

    @property
    def text(self) -> str:
        """Return the abstract, or the passages that were found, one paragraph each."""
        return "\n".join(f"{one.label}: {one.text}" if one.label else one.text for one in self.sections)

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Return what a reader has to know of the record."""
        found: list[Flag] = []
        if "retracted publication" in self.types or self.notices & {"RetractionIn", "RetractedandRepublishedIn"}:
            found.append("retracted")
        if "retraction of publication" in self.types or "retraction notice" in self.types:
            found.append("retraction notice")
        if "ExpressionOfConcernIn" in self.notices or "expression of concern" in self.types:
            found.append("expression of concern")
        if self.notices & {"ErratumIn", "CorrectedandRepublishedIn", "UpdateIn"} or "published erratum" in self.types:
            found.append("erratum")
        if "preprint" in self.types:
            found.append("preprint")
        return tuple(found)

    @property
    def level(self) -> Level:
        """Return the level of evidence by publication types, else by the title's own words."""
        for level, types in _LEVEL_OF.items():
            if types.intersection(self.types):
                return level
        return next((level for level, pattern in _TITLED if pattern.search(self.title)), "other")


@dataclass(frozen=True, slots=True)
class Hits:
    """Hold the reply to one search: ``count`` in all, and the PMIDs returned, best first.

    ``note`` says what kept a part of the search on this machine or went wrong beside it, "" for nothing. ``missing``
    are words that stand in no record, which the search has ignored.
    """

    count: int
    pmids: tuple[str, ...]
    note: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Hold fetched articles in the order asked for; ``unread`` are reasons for records that could not be read.

    ``is_late``: the time ended before all calls had; what they would have fetched is left out.
    """

    articles: tuple[Article, ...]
    unread: tuple[str, ...] = ()
    is_late: bool = False


class ArticleSource(Protocol):
    """Search and fetch PubMed records at one source, for one answer."""

    @property
    def name(self) -> str:
        """Return the name for reports: "gateway", or "PubMed"."""
        ...

    async def search(self, term: str, most: int) -> Hits:
        """Search by relevance.

        Raises:
            NcbiError: the search failed, or may not leave this machine.
        """
        ...

    async def nearest(self, question: str, options: ClinfoOptions, most: int) -> Hits | None:
        """Search by vectors, within the limits of the request; None where the source has none.

        Raises:
            RetrievalError, ModelError: the vectors cannot be read or computed.
        """
        ...

    async def count(self, term: str) -> int:
        """Return how many records a term finds.

        Raises:
            NcbiError: as ``search``.
        """
        ...

    async def spelled(self, words: Sequence[str]) -> Mapping[str, str]:
        """Return how the source spells those of the words that it does not know, by the word; {} for none.

        Raises:
            NcbiError: as ``search``.
        """
        ...

    async def fetch(self, pmids: Sequence[str], seconds: float) -> Fetched:
        """Fetch records, 200 in one call; what is not there, or not there in time, is left out.

        Raises:
            NcbiError: all calls failed.
        """
        ...


class Literature(Protocol):
    """Open the sources of a request, and compare texts with the default encoder."""

    def check(self, ask: AnswerRequest, options: ClinfoOptions) -> None:
        """Validate sources and egress.

        Raises:
            OptionInvalid, EgressRaised
        """
        ...

    def open(self, ask: AnswerRequest, options: ClinfoOptions, hear: Hear) -> tuple[ArticleSource, ...]:
        """Return the sources of a request, each of which lets ``hear`` know of its calls."""
        ...

    def namespaces(self, ask: AnswerRequest, options: ClinfoOptions) -> tuple[str, ...]:
        """Return the namespaces to search, () for none; the notes of the package are no literature."""
        ...

    async def compare_articles(self, question: str, articles: Sequence[Article]) -> SentenceScores:
        """Compare title and text of articles with a question; a part that is not there or fails is left out."""
        ...
