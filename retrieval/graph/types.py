"""Define nodes, edges, the interfaces of graphs, and the options and results of linking a question to nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from models.encoders.base import Floats

_MAX_VALUES: Final = 1000
# "Given list is: A, B", "Options: ...", or answers lettered A, B.
_CHOICES_HEADING: Final = re.compile(
    r"\b(?:given list is|given list|options(?: are)?|choices(?: are)?|choose (?:one )?(?:of|from)(?: the following)?"
    r"|select (?:one )?(?:of|from)(?: the following)?|answer choices)\s*:",
    re.IGNORECASE,
)
_FIRST_CHOICE: Final = re.compile(r"(?:^|(?<=\s))(?:\(A\)|A[.):])\s")
_SECOND_CHOICE: Final = re.compile(r"\s(?:\(B\)|B[.):])\s")
Method = Literal["dictionary", "model", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Represent a node.

    ``node_id`` is "Kind::identifier" (Disease::DOID:1612) and stable over releases. ``kind`` is the graph's own node
    type. ``source`` is the authority of the identifier (Disease Ontology, Entrez Gene).
    """

    node_id: str
    kind: str
    name: str
    identifier: str
    synonyms: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Represent one typed edge.

    ``kind`` is the graph's own edge type (TREATS_CtD); ``relations`` puts it into words. ``provenance``: every source
    that asserts the edge, in the order given. ``pmids``: articles. ``evidence``: the edge's attributes as the graph has
    them (scores, p-values, phase), JSON values. ``licence`` is "" if not stated. ``retracted``: those of ``pmids`` that
    are known to be retracted; no graph says so itself.
    """

    source_id: str
    target_id: str
    kind: str
    provenance: tuple[str, ...] = ()
    pmids: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""
    retracted: tuple[str, ...] = ()

    @property
    def edge_id(self) -> str:
        return f"{self.source_id}|{self.kind}|{self.target_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Represent an edge with its ends and as a sentence, the unit that is embedded, selected and cited.

    ``text``: "Compound Levodopa treats Disease Parkinson's disease", without provenance and full stop. ``row`` is the
    index of its vector in the store, -1 for an edge from elsewhere without a vector.
    """

    edge: Edge
    source: Node
    target: Node
    text: str
    row: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Hold all statements of a graph about one node.

    ``complete`` is False if the source truncated them. ``release`` is that of the graph.
    """

    node: Node
    statements: tuple[Statement, ...]
    graph: str
    release: str
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Represent a span of a question that names a node; ``start`` and ``end`` are its characters.

    ``method``: exact, synonym, spelling or model. ``score``: 1.0, or the share of unchanged letters for spelling;
    ``margin``: 0.0 where several nodes have the name.
    """

    node: Node
    start: int
    end: int
    method: str
    score: float = 1.0
    margin: float = 1.0


def merged(edges: Iterable[Edge]) -> Edge:
    """Merge edges with the same ends and type.

    Attributes that differ become lists under their names, in their order.
    """
    found = list(edges)
    first = found[0]
    if all(edge == first for edge in found[1:]):
        return first
    return Edge(
        source_id=first.source_id,
        target_id=first.target_id,
        kind=first.kind,
        provenance=tuple(dict.fromkeys(name for edge in found for name in edge.provenance)),
        pmids=tuple(dict.fromkeys(name for edge in found for name in edge.pmids)),
        evidence=_evidence([edge.evidence for edge in found]),
        licence="; ".join(dict.fromkeys(edge.licence for edge in found if edge.licence)),
    )


def _evidence(all_of: list[Mapping[str, Any]]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for evidence in all_of:
        for key, value in evidence.items():
            entries = values.setdefault(key, [])
            if value not in entries and len(entries) < _MAX_VALUES:
                entries.append(value)
    return {key: entries[0] if len(entries) == 1 else entries for key, entries in values.items()}


class NameOf(NamedTuple):
    """Hold one name of a node; ``is_synonym`` is False for the name that the graph itself uses."""

    name: str
    node_id: str
    kind: str
    is_synonym: bool


class GraphLoader(Protocol):
    """Read one downloaded graph with constant memory.

    All ``nodes`` are consumed before ``edges``; both may read the files again. A node may be yielded twice. An edge's
    ends are node ids, or identifiers that only one node has. Malformed records are skipped and reported.

    Raises:
        GraphError: while iterating.
    """

    @property
    def place(self) -> str:
        """Return "file:line" of the last yielded record."""
        ...

    def nodes(self) -> Iterator[Node]: ...

    def edges(self) -> Iterator[Edge]: ...


class GraphStore(Protocol):
    """Read a graph on this machine, from any thread; every call is short."""

    @property
    def release(self) -> str: ...

    @property
    def graph(self) -> str: ...

    def names(self) -> Iterator[NameOf]: ...

    def node(self, node_id: str) -> Node | None: ...

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        """Return all edges of a node, in either direction, by row."""
        ...

    def vectors(self, rows: Sequence[int]) -> Floats:
        """Return the passage embeddings of the statements' texts by the graph's encoder, float32 [n, dim]."""
        ...


def choices_start(question: str) -> int:
    """Return the character at which the answer options begin, or the question's length without options."""
    headed, lettered = _CHOICES_HEADING.search(question), _FIRST_CHOICE.search(question)
    if lettered and not _SECOND_CHOICE.search(question, lettered.end()):
        lettered = None
    return min((match.start() for match in (headed, lettered) if match), default=len(question))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Represent characters ``start`` up to ``end`` of a question."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Configure linking.

    ``kinds``: only nodes of these types. ``max_entities``: limit on the nodes of the question's own words, and again on
    those of its answer options. ``auto``: the dictionary, then the model if nothing was found and the linker has one.
    ``model_timeout_s`` bounds the one call of a model.
    """

    kinds: frozenset[str] | None = None
    max_entities: int = 8
    method: Method = "auto"
    model_timeout_s: float = 20.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_entities <= 64:
            raise ValueError(f"max_entities must be in 1..64, not {self.max_entities}")
        if self.model_timeout_s <= 0:
            raise ValueError(f"model_timeout_s must be above 0, not {self.model_timeout_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """Hold the result of linking.

    ``mentions``: each node once, in the question's order, without the nodes of the answer options, which are in
    ``options``. ``classes``: nodes of classes, as the genetic diseases, beside another disease; what is asked is asked
    of that one, and a class may be the other end of its statements. ``concepts``: diseases, phenotypes and drugs that
    are named and of which the graph has no node. ``unlinked``: spans of words that English has not and that name no
    node of the graph. ``notes``: omissions, ambiguities and failures, for people.
    """

    mentions: tuple[Mention, ...]
    options: tuple[Mention, ...] = ()
    classes: tuple[Mention, ...] = ()
    concepts: tuple[Mention, ...] = ()
    unlinked: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
