"""Define what the method asks of the namespaces, and the results; knows nothing of indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

from retrieval.corpus.search.ranking import RankedPassage
from retrieval.lexical.question_keywords import Keyword
from server.methods.base import AnswerRequest
from server.methods.shared.passages import Gathered, Passages

WeiseRetriever = Literal["pes2", "pes1", "bm25", "hybrid"]
Matching = Literal["variants", "exact"]


@dataclass(frozen=True, slots=True)
class Restriction:
    """Restrict a search to some documents; every condition must be met.

    Dates are yyyymmdd, inclusive, 0 for none; ``papers`` are PMIDs, () for all.
    """

    date_from: int = 0
    date_to: int = 0
    types: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()


OPEN: Final = Restriction()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordSearch:
    """Describe a ranking by keywords; ``namespaces`` () means all that the request may read."""

    keywords: tuple[Keyword, ...]
    namespaces: tuple[str, ...] = ()
    only_fixed: bool = False
    matching: Matching = "variants"
    k: int = 10
    where: Restriction = OPEN


@dataclass(frozen=True, slots=True)
class CountedSpelling:
    """Hold one way to write a keyword, what kind of variant it is, and how often all passages have it."""

    text: str
    kind: str
    occurrences: int


@dataclass(frozen=True, slots=True)
class CountedKeyword:
    """Hold a keyword as it was counted, its own spelling first.

    ``written`` are the ways in which the ranked passages write it, with their numbers, the most frequent first.
    """

    text: str
    fixed: bool
    spellings: tuple[CountedSpelling, ...]
    written: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KeywordPassage:
    """Hold a ranked passage: ``counts`` by keyword, and its mentions as (keyword, start, end) in its text."""

    found: RankedPassage
    counts: tuple[int, ...]
    has_fixed: bool
    mentions: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordsRanked:
    """Hold the ranking by keywords, best first.

    ``num_found`` passages had any keyword, ``num_with_fixed`` every fixed one, before the cut to k.
    """

    namespaces: tuple[str, ...]
    keywords: tuple[CountedKeyword, ...]
    rows: tuple[KeywordPassage, ...]
    num_found: int
    num_with_fixed: int
    seconds: float = 0.0

    @property
    def record(self) -> dict[str, Any]:
        """Return the table of counts for the trace."""
        return {
            "keywords": [
                {
                    "text": one.text,
                    "fixed": one.fixed,
                    "spellings": [asdict(way) for way in one.spellings],
                    "written": dict(one.written),
                }
                for one in self.keywords
            ],
            "passages_with_a_keyword": self.num_found,
            "passages_with_all_fixed": self.num_with_fixed,
            "rows": [_row(rank, one) for rank, one in enumerate(self.rows, 1)],
        }


def _row(rank: int, one: KeywordPassage) -> dict[str, Any]:
    passage = one.found.passage
    return {
        "rank": rank,
        "namespace": one.found.namespace,
        "passage_id": str(passage.passage_id),
        "document_id": passage.document_id,
        "title": passage.title,
        "section": passage.section,
        "page": passage.page,
        "counts": list(one.counts),
        "distinct": sum(map(bool, one.counts)),
        "total": sum(one.counts),
        "has_fixed": one.has_fixed,
        "mentions": [{"keyword": number, "start": start, "end": end} for number, start, end in one.mentions],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSearch:
    """Describe a search by another retriever than PES2."""

    query: str
    retriever: WeiseRetriever
    namespaces: tuple[str, ...] = ()
    k: int = 10
    where: Restriction = OPEN


class Library(Passages, Protocol):
    """Search the namespaces that one request may read."""

    async def rank(self, search: KeywordSearch) -> KeywordsRanked:
        """Rank passages by PES2.

        Raises:
            RetrievalError: a namespace has no index of words, or the search failed.
        """
        ...

    async def search(self, search: TextSearch) -> Gathered:
        """Search by vectors, words or both.

        Raises:
            RetrievalError: the search failed.
            ModelError: the encoder failed.
        """
        ...

    async def suggest(self, question: str, namespaces: Sequence[str]) -> tuple[Keyword, ...]:
        """Return keywords of a question, chosen by names that are known and the counts of the namespaces' words."""
        ...


class LibrarySource(Protocol):
    """Open the namespaces that a request may read."""

    def open(self, ask: AnswerRequest) -> Library: ...
