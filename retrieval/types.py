"""Define the records of the retrieval layer: calls, replies, the focus of a question, names from public records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

Endpoint = Literal["esearch", "esummary", "efetch", "elink", "einfo", "espell", "epost", "blast_put", "blast_get"]
SummaryPart = Literal["none", "lead", "full"]
# symbol and alias are those of human genes, other_symbol both of other species; gene_name is a gene's full name.
NameKind = Literal["symbol", "alias", "other_symbol", "gene_name", "organism", "disease", "heading"]
NAME_KINDS: Final[tuple[NameKind, ...]] = get_args(NameKind)
# The longest names of controlled vocabularies are near this; longer text is not looked up.
MAX_NAME_CHARS: Final = 120


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Identify who makes a call, for the audit log of an egress service; NCBI never gets it.

    ``key_id`` is "" on a server without keys.
    """

    request_id: str = ""
    key_id: str = ""


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


@dataclass(frozen=True, slots=True)
class KnownName:
    """Hold a name in its stored spelling."""

    spelling: str
    kind: NameKind


class KnownNames(Protocol):
    """Look up names that records of public vocabularies have, from any thread."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterable[KnownName]:
        """Yield the names of these kinds that equal the whole of ``name`` but for letter case, as they are found.

        Punctuation counts. A name can have several kinds.
        """
        ...


@dataclass(frozen=True, slots=True)
class NameInText:
    """Hold a name as a text has it, with other names of the same thing, the usual ones first."""

    name: str
    synonyms: tuple[str, ...]


class Synonyms(Protocol):
    """Find names of public vocabularies in texts, from any thread."""

    def named_in(self, text: str) -> tuple[NameInText, ...]:
        """Return the names that a text has and that mean one thing without doubt, in its order, each once."""
        ...


def same(written: str, stored: str) -> bool:
    """Return whether two spellings differ in letter case alone."""
    return written.casefold() == stored.casefold()
