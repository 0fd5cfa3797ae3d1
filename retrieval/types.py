"""Define the records of the retrieval layer: calls, replies and the focus of a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Endpoint = Literal["esearch", "esummary", "efetch", "elink", "einfo", "espell", "blast_put", "blast_get"]
SummaryPart = Literal["none", "lead", "full"]


@dataclass(frozen=True, slots=True)
class NcbiCall:
    """Hold one checked call.

    ``params`` has decoded values, without tool, email and api_key, in the order as written. ``db`` is the E-utilities
    database, or BLAST's ``DATABASE`` for ``blast_put``, or "" where there is none.
    """

    endpoint: Endpoint
    db: str
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Record where a call was sent.

    ``went_to``: "gateway", a host, or "" for nowhere; ``url`` in the form that may be shown. ``left``: this call sent
    its values to another machine (a reply from the cache sends nothing). ``withheld`` names the classes of values that
    kept the call on this machine; ``note`` describes other events on the way.
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
    """Hold a reply as received: HTTP status, body decoded as UTF-8, origin.

    ``rid``: the request id of the BLAST search that this call submitted, "" for any other call.
    """

    status: int
    content_type: str
    body: str
    num_bytes: int
    from_cache: bool = False
    attempts: int = 1
    route: Route | None = None
    rid: str = ""


# Returns the reply to a checked call, or raises an NcbiError.
FetchCall = Callable[[NcbiCall], Awaitable[RawReply]]


@dataclass(frozen=True, slots=True)
class Focus:
    """Describe what the answer is about, so that replies can be condensed to it.

    ``terms``: the search terms that led to the records, newest first, Entrez tags removed.
    ``organism``: the requested organism, as NCBI's common or scientific name.
    ``summary``: how much of a gene's prose summary can matter: none for a question about a name, a location or a type;
    ``lead``, the first sentence, for a model with a short context.
    ``places``: the question asks for the locations of genes, so locations come before names.
    """

    terms: tuple[str, ...] = ()
    organism: str = "human"
    summary: SummaryPart = "full"
    places: bool = False


@dataclass(frozen=True, slots=True)
class Condensed:
    """Hold a reply as the model sees it: one bracketed text of whole records.

    ``num_records`` were in the reply, ``num_left_out`` did not fit the budget (the text says so).
    """

    text: str
    num_records: int
    num_left_out: int = 0
    empty: bool = False
    ids: tuple[str, ...] = field(default=())
