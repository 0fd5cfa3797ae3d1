"""Define the bodies and replies of ``/v1/reviews``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from server.api.declarations import QUESTION, Reply
from server.api.http_io import Body
from server.errors import RequestError
from server.evidence.reviews.document import Column

MAX_COLUMNS = 12
_Question = Annotated[str, Field(min_length=1, max_length=2000)]


class ColumnBody(Body):
    """Ask something of each article in a further column of the table."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    question: str | None = Field(
        default=None, max_length=300, description="what is asked of each article; by default, what the name stands for"
    )


class ExclusionBody(Body):
    """Exclude an article of the table by hand."""

    uid: str
    reason: Annotated[str, Field(min_length=1, max_length=500)]


class ReviewBody(Body):
    """Begin a review."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": QUESTION}]})
    question: _Question
    model: str | None = Field(default=None, description="a model of the method clinfo; by default the served one")
    options: dict[str, Any] = Field(default_factory=dict, description="the protocol: options of the method clinfo")
    columns: Annotated[list[ColumnBody], Field(max_length=MAX_COLUMNS, default_factory=list)]


class ReviewChange(Body):
    """Replace what is given."""

    question: _Question | None = None
    model: str | None = None
    options: dict[str, Any] | None = None
    columns: Annotated[list[ColumnBody] | None, Field(max_length=MAX_COLUMNS)] = None
    excluded: Annotated[list[ExclusionBody] | None, Field(max_length=2000)] = None


class ReviewHead(Reply):
    """Name a review."""

    id: str
    object: Literal["review"]
    question: str
    created: int
    updated: int


class ReviewReply(ReviewHead):
    """Describe a review; ``record`` is the answer of the latest run, as in a trace."""

    model: str
    options: dict[str, Any]
    columns: list[dict[str, str]]
    excluded: list[dict[str, str]]
    flow: dict[str, int]
    stale: bool
    missing_cells: int
    runs: list[dict[str, Any]]
    record: dict[str, Any] | None
    job: str | None


class ReviewDeleted(Reply):
    """Say that a review is deleted."""

    id: str
    object: Literal["review.deleted"]
    deleted: Literal[True]


def text_of(text: str, param: str) -> str:
    """Return a text on one line.

    Raises:
        RequestError: it has no words; ``param`` names the field.
    """
    found = " ".join(text.split())
    if not found:
        raise RequestError(f"{param}: has no words", param=param)
    return found


def columns_of(bodies: Sequence[ColumnBody]) -> tuple[Column, ...]:
    """Return the columns.

    Raises:
        RequestError: two have the same name, or one has none.
    """
    columns: dict[str, Column] = {}
    for place, body in enumerate(bodies):
        name = text_of(body.name, f"columns[{place}].name")
        if name.casefold() in columns:
            raise RequestError(f"columns[{place}].name: there is a column of this name", param="columns")
        asked = " ".join((body.question or "").split()) or (name if name.endswith("?") else f"What is the {name}?")
        columns[name.casefold()] = Column(name, asked)
    return tuple(columns.values())
