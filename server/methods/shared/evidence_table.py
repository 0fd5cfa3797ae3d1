"""Define what a literature review found, as dataclasses for its method and as plain data for its trace. Pure.

A method puts ``Review.details`` into ``Done.details``; an export reads it back with ``review_of``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

from pydantic import TypeAdapter

from server.methods.base import AnswerRequest

# The keys of Done.details, and so of a choice's ``details`` in a trace.
TABLE: Final = "evidence_table"
REVIEW: Final = "review"


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one cell of the table: what is told, and the verbatim quote that it rests on.

    ``section`` is the label of the quote's section ("RESULTS"), "" where there is none. An unknown value is "" and has
    no quote.
    """

    value: str = ""
    quote: str = ""
    section: str = ""


# The cells of a row, in the order of columns, with their headings.
FINDINGS: Final[Mapping[str, str]] = {
    "population": "Population",
    "design": "Design",
    "sample_size": "Sample size",
    "result": "Result",
    "risk_of_bias": "Risk of bias",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """Hold one article that was kept as evidence.

    ``number`` is its ``[n]``, 0 where the answer does not cite it. ``uid`` is its PMID, or an address of a document of
    a namespace. ``item`` is its CSL-JSON item (retrieval.references.csl). ``level`` is the kind of its evidence
    ("systematic review", "trial", "cohort", "case", …), ``score`` what screening gave it. ``notices`` tells what is
    known against it ("retracted", "expression of concern", "preprint"). ``columns`` are further cells by the names of
    their columns, ``excluded`` is why a reader has excluded the article by hand, "" for one that counts.
    """

    number: int = 0
    uid: str = ""
    title: str = ""
    url: str = ""
    item: Mapping[str, Any] = field(default_factory=dict)
    level: str = ""
    score: float | None = None
    found_by: tuple[str, ...] = ()
    source: str = "abstract"
    notices: tuple[str, ...] = ()
    population: Finding = Finding()
    design: Finding = Finding()
    sample_size: Finding = Finding()
    result: Finding = Finding()
    risk_of_bias: Finding = Finding()
    columns: Mapping[str, Finding] = field(default_factory=dict)
    excluded: str = ""

    @property
    def findings(self) -> dict[str, Finding]:
        """Return the cells by name, in the order of columns."""
        return {name: getattr(self, name) for name in FINDINGS} | dict(self.columns)


def headings_of(rows: Iterable[EvidenceRow]) -> dict[str, str]:
    """Return the headings of a table's cells by their names, in the order of columns."""
    return dict(FINDINGS) | {name: name for row in rows for name in row.columns}


class CellReading(Protocol):
    """Read single cells of articles for one request; a cell without support is an empty ``Finding``."""

    @property
    def sampled_tokens(self) -> int: ...

    async def read(self, column: str, title: str, text: str) -> Finding:
        """Return what an article states on what ``column`` asks.

        Raises:
            ModelError: the model or the verifier failed.
        """
        ...


class CellSource(Protocol):
    """Open the reading of cells."""

    def open(self, ask: AnswerRequest) -> CellReading:
        """Return what reads cells for one request.

        Raises:
            ModelError: there is no model now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Hold one article that was not kept: at which ``stage`` ("duplicate", "screening", "retracted"), and why."""

    uid: str
    title: str
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Query:
    """Hold one query of the review.

    ``source`` is where it was asked ("pubmed", "gateway", a namespace), ``hits`` how many records it has there, None
    where that is unknown; ``fault`` is why it was not used, "" for one that was.
    """

    text: str
    source: str
    hits: int | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Hold one sentence of the report with the numbers that it cites; ``supported`` None means it was not checked."""

    text: str
    cites: tuple[int, ...] = ()
    supported: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Hold what a review searched, found, kept and says.

    ``counts`` are those of a PRISMA flow in its order: found, duplicates, screened, excluded, included, cited.
    """

    question: str = ""
    queries: tuple[Query, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    excluded: tuple[Exclusion, ...] = ()
    rows: tuple[EvidenceRow, ...] = ()
    tldr: str = ""
    sentences: tuple[Sentence, ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def details(self) -> dict[str, Any]:
        """Return the JSON-able entries for ``Done.details``: the rows under ``TABLE``, the rest under ``REVIEW``."""
        record = asdict(self)
        rows = record.pop("rows")
        return {TABLE: list(rows), REVIEW: record}


def review_of(details: Mapping[str, Any]) -> Review | None:
    """Return the review of a trace's ``details``, None where there is none."""
    record = details.get(REVIEW)
    return _adapter().validate_python({**record, "rows": details[TABLE]}) if record else None


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Review]:
    return TypeAdapter(Review)
