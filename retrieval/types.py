"""Records of the retrieval layer: calls, replies, what a question is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Endpoint = Literal["esearch", "esummary", "efetch", "elink", "einfo", "blast_put", "blast_get"]
SummaryPart = Literal["none", "lead", "full"]


@dataclass(frozen=True, slots=True)
class NcbiCall:
    """One checked call. ``params`` holds decoded values, without tool, email and api_key; order is as written.

    ``db`` is the E-utilities database, or BLAST's ``DATABASE`` for ``blast_put``, or "" where there is none.
    """

    endpoint: Endpoint
    db: str
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a call went. ``went_to``: "gateway", a host, or "" for nowhere; ``url`` as it may be shown.

    ``left``: its values went to another machine in this call (a reply from the cache takes nothing along). ``withheld``
    names the classes of values that kept it here; ``note`` says what else happened on the way.
    """

    mode: str
    went_to: str
    url: str = ""
    classes: tuple[str, ...] = ()
    left: bool = False
    withheld: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply as received: HTTP status, body decoded as UTF-8, where it came from."""

    status: int
    content_type: str
    body: str
    num_bytes: int
    from_cache: bool = False
    attempts: int = 1
    route: Route | None = None


@dataclass(frozen=True, slots=True)
class Focus:
    """What the answer is about, so that replies can be condensed to it.

    ``terms``: the search terms that led to the records, newest first, Entrez tags removed.
    ``organism``: the organism asked for, as NCBI's common or scientific name.
    ``summary``: how much of a gene's prose summary can matter; who asks for a name, a place or a type needs none of it,
    and ``lead``, its first sentence, is what a model with a short memory can use.
    ``places``: the question asks where genes lie, so places stand before names.
    """

    terms: tuple[str, ...] = ()
    organism: str = "human"
    summary: SummaryPart = "full"
    places: bool = False


@dataclass(frozen=True, slots=True)
class Condensed:
    """A reply as the model sees it: one bracketed text of whole records.

    ``num_records`` were in the reply, ``num_left_out`` did not fit the budget (the text says so).
    """

    text: str
    num_records: int
    num_left_out: int = 0
    empty: bool = False
    ids: tuple[str, ...] = field(default=())
