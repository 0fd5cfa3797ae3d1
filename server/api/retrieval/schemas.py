"""Define the request bodies of searches and namespaces.

Unknown fields are refused; every list and text is bounded.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from retrieval.corpus.search.ranking import MAX_K, Retriever, rankers_of
from retrieval.errors import NamespaceInvalid
from server.api.openai.schemas import MAX_TEXT
from server.types import EgressMode

MAX_COUNTED: Final = 64
# Texts of one request.
MAX_INPUTS: Final = 2048
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x01-\x1f\x7f-\x9f]")
_DAY: Final = re.compile(r"(\d{4})(?:-?(\d\d)-?(\d\d))", re.ASCII)
_PART_OF_DAY: Final = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)
_WORD: Final = re.compile(r"\w")


def _text(value: str) -> str:
    if _NO_TEXT.search(value):
        raise ValueError("there are characters in it that are none: NUL, or half of a surrogate pair")
    return value


def _title(value: str) -> str:
    return " ".join(_CONTROL.sub(" ", _text(value)).split())


def words(value: str) -> str:
    if not _WORD.search(value):
        raise ValueError("there are no words in it")
    return _text(value)


def day_number(value: str) -> int:
    """Return "2020-01-31" or "20200131" as the number yyyymmdd.

    Raises:
        ValueError: the text has another form, or there is no such day.
    """
    found = _DAY.fullmatch(value)
    if found is None:
        raise ValueError("a day as 2020-01-31 or 20200131 is needed")
    day = date(int(found[1]), int(found[2]), int(found[3]))  # its own ValueError says what is out of range
    return day.year * 10_000 + day.month * 100 + day.day


def _day(value: str) -> str:
    day_number(value)
    return value


def _day_or_part(value: str) -> str:
    found = _PART_OF_DAY.fullmatch(value)
    if found is None:
        return _day(value)
    date(int(found[1]), int(found[2] or 1), 1)
    return value


def _link(value: str) -> str:
    if value and not value.startswith(("https://", "http://")):
        raise ValueError("an address begins with https:// or http://")
    return _text(value)


def _own_id(value: str) -> str:
    if value != value.strip() or not value.isprintable():
        raise ValueError("an id has no blanks at its ends and no control characters")
    if value.startswith("sha256:"):
        raise ValueError("ids that begin with sha256: are those of files")
    return value


def _retriever(value: str) -> str:
    try:
        rankers_of(value)
    except NamespaceInvalid as error:
        raise ValueError(error.message) from error
    return value


Query = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(words)]
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_text)]
Line = Annotated[str, Field(max_length=2000), AfterValidator(_text)]
Title = Annotated[str, Field(max_length=200), AfterValidator(_title)]
Day = Annotated[str, AfterValidator(_day)]
Keyword = Annotated[str, Field(max_length=200), AfterValidator(words)]
DocumentId = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_text)]
Types = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_text)]], Field(max_length=100)
]
Lines = Annotated[list[Line], Field(max_length=10_000)]


class Body(BaseModel):
    """Refuse unknown fields and type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class FilterBody(Body):
    """Restrict a search to documents with these properties.

    Days are inclusive; a document without a date fails where one is given.
    """

    date_from: Day | None = None
    date_to: Day | None = None
    types: Types = []
    without_types: Types = []
    documents: Annotated[list[DocumentId], Field(max_length=10_000)] | None = None


class SearchBody(Body):
    """Search namespaces with one query or several.

    ``retriever`` is a name, or a list of rankers such as "bm25+dense:medcpt". ``late`` is the number of best passages
    that late interaction orders by token vectors, ``rerank`` the number that the cross-encoder judges after it.
    ``expand``: names of genes and diseases are also searched for by their synonyms, where words are ranked.
    ``namespaces`` None, or "all", means all of them. ``count`` are keywords to count in each hit, None for those by
    which PES2 ranks.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "asthma"}]})
    query: Query | None = None
    queries: Annotated[list[Query], Field(min_length=1)] | None = None
    namespaces: Literal["all"] | Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    k: int = Field(default=10, ge=1)
    retriever: Annotated[Retriever, AfterValidator(_retriever)] | None = None
    late: int | None = Field(default=None, ge=0, le=MAX_K)
    rerank: int = Field(default=0, ge=0, le=MAX_K)
    expand: bool = False
    filter: FilterBody = FilterBody()
    include_text: bool = True
    count: Annotated[list[Keyword], Field(min_length=1, max_length=MAX_COUNTED)] | None = None


class TitleBody(Body):
    """Give a namespace another title, "" for none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Trials of 2026"}]})
    title: Title


class NamespaceBody(Body):
    """Create a namespace.

    ``name`` None is made from the title, which may be in any script.
    ``encoder`` None is the server's first encoder; "none" creates no vectors. ``tokens``: token vectors, for late
    interaction.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "mine"}, {"title": "Trials of 2026"}]})
    name: str | None = None
    title: Title = ""
    encoder: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    words: Literal["tantivy", "none"] = "tantivy"
    tokens: bool = True
    chunk_size: int = 2000
    chunk_overlap: int = 0
    by_section: bool = True


class DocumentBody(Body):
    """Add one document; ``date`` is a day, a month (2020-01) or a year."""

    id: Annotated[DocumentId, AfterValidator(_own_id)]
    title: Line = ""
    text: Text = ""
    date: Annotated[str, AfterValidator(_day_or_part)] = ""
    types: Types = []
    url: Annotated[str, Field(max_length=2000), AfterValidator(_link)] = ""
    source: Line = ""
    authors: Lines = []
    journal: Line = ""
    licence: Line = ""
    retracted_by: Lines = []
    corrected_by: Lines = []

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not _WORD.search(self.title + self.text):
            raise ValueError("neither title nor text has words")
        return self


class DocumentsBody(Body):
    """Add documents."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"documents": [{"id": "1", "text": "PSMB10 is a gene."}]}]}
    )
    documents: Annotated[list[DocumentBody], Field(min_length=1)]


class RemoveBody(Body):
    """Remove documents by their ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["1"]}]})
    ids: Annotated[list[DocumentId], Field(min_length=1, max_length=100_000)]


class AnswerOptions(Body):
    """Set options of a change; ``egress`` None is the mode of the key."""

    egress: EgressMode | None = None


class UpdateBody(Body):
    """Repeat the namespace's stored queries."""

    arrowhead: AnswerOptions = AnswerOptions()


class QueryBody(UpdateBody):
    """Add the results of a PubMed query.

    Either ``term``, in PubMed's syntax, or ``keywords``, all of which title or abstract have; names with "/" between
    them are alternatives. ``with_reviews`` False leaves out reviews. Days are days of publication. ``limit`` 0 means
    all results, else the newest. ``full_text`` adds PMC's full texts where they are open access.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"term": "asthma"}]})
    term: Annotated[str, Field(max_length=100_000), AfterValidator(words)] | None = None
    keywords: Annotated[list[Annotated[str, Field(max_length=500), AfterValidator(words)]], Field(max_length=50)] = []
    with_reviews: bool = True
    date_from: Day | None = None
    date_to: Day | None = None
    limit: int = Field(default=0, ge=0)
    full_text: bool = False

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if (self.term is None) == (not self.keywords):
            raise ValueError("either term or keywords is needed")
        return self


class NoBody(Body):
    """Send ``{}`` where no fields are needed.

    A JSON body is required all the same, since no web form of another site can send one.
    """


def ncbi_day(value: str | None) -> str:
    """Return the day in NCBI's form, 2020/01/31, "" for None."""
    if value is None:
        return ""
    number = day_number(value)
    return f"{number // 10_000:04}/{number // 100 % 100:02}/{number % 100:02}"


def shown_day(number: int) -> str | None:
    """Return the date in ISO 8601, as precise as it is known; None for 0."""
    year, month, day = number // 10_000, number // 100 % 100, number % 100
    parts = [f"{year:04}", *([f"{month:02}"] if month else []), *([f"{day:02}"] if month and day else [])]
    return "-".join(parts) if year else None
