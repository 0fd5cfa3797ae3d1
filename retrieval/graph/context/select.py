"""Select the statements about a question's entities that become the model's context, as pure functions.

There are two pruning rules. ``budget``, this project's own, ranks all statements and takes the first that fit a number
of tokens. It ranks by:

1. whether the question names the statement's other end (the options of a multiple-choice question, the gene of "is A
   associated with B");
2. with several entities, how many of them reach the statement's node, if more than one does;
3. whether the question names the statement's relation (``relations``);
4. for a node that several entities reach, how many sources assert its statements, then the cosine of its nearest
   statement, so that the statements of a node stand together;
5. the cosine of the question's and the statement's vectors.

Each criterion only breaks ties of the ones before. There is no percentile: all three statements of a node with three
may be needed.

``paper`` reproduces, for comparison, the selection of the published program of Soman et al. (Bioinformatics 40(9),
2024): of each entity, the statements nearer than the 75th percentile of that entity's statements and nearer than 0.5,
both strictly, nearest first, and of these the first ``volume`` divided by the number of entities.

``context_text`` renders the selected statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.graph.context.relations import fitting, relations_of
from retrieval.graph.context.render import Fitted, RenderInput, fitting_text, render_context
from retrieval.graph.types import Mention, Neighbourhood, Node, Statement

# Gene symbols that are words of nearly every question: they match only in the graph's own letter case.
_WORDS: Final = (
    "a an and are as at be by can for from has have how if in is it its list long not of on or out rest set that the"
    " this to was what which who with type gene genes disease drug variant"
)
_ENGLISH: Final = frozenset(_WORDS.split())
_APOSTROPHES: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "′": "'", "‐": "-", "‑": "-"})
_GAP: Final = "\n"


class QuestionNames:
    """Match node names in the parts of a question that linking left unlinked.

    A span that linking resolved is not matched again: "disease" is not named in "Parkinson's disease".
    """

    def __init__(self, question: str, mentions: Sequence[Mention]) -> None:
        self._ids = {mention.node.node_id for mention in mentions}
        remaining = list(question)
        for mention in mentions:
            if mention.method in ("exact", "synonym", "spelling"):
                remaining[mention.start : mention.end] = _GAP * (mention.end - mention.start)
        self.rest = "".join(remaining)
        self._as_written = self.rest.translate(_APOSTROPHES)
        self._folded = self._as_written.casefold()

    def has(self, node: Node) -> bool:
        """Return True if the question has the node's name or a synonym as whole words, ignoring letter case."""
        return node.node_id in self._ids or self._says(node.name) or any(self._says(name) for name in node.synonyms)

    def _says(self, name: str) -> bool:
        if not name.isascii():
            name = name.translate(_APOSTROPHES)
        folded = name.casefold()
        # Most names do not occur, and a substring search is the cheapest test.
        if folded not in self._folded or len(folded) < 2:
            return False
        text, term = (self._as_written, name) if folded in _ENGLISH else (self._folded, folded)
        return re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text) is not None


Pruning = Literal["budget", "paper"]
TokenCount = Callable[[str], int]
DEFAULT_TOKENS: Final = 800
# Limits on the number of statements in the paper's scripts: for questions, and for true-or-false statements.
PAPER_VOLUME: Final = 150
PAPER_VOLUME_TRUE_FALSE: Final = 100
_PAPER_PERCENTILE: Final = 75.0
_PAPER_SIMILARITY: Final = 0.5


class Vectors(NamedTuple):
    """Hold the vectors of a question and its candidate statements.

    ``question``: float32 [dim]; ``statements``: float32 [n, dim], in the order of ``Gathered.statements``.
    """

    question: Floats
    statements: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Configure the selection of statements.

    ``tokens`` bounds the text; None means no bound. ``volume`` applies to ``paper`` only.
    """

    pruning: Pruning = "budget"
    tokens: int | None = DEFAULT_TOKENS
    evidence: bool = False
    volume: int = PAPER_VOLUME


@dataclass(frozen=True, slots=True)
class ContextCandidates:
    """Hold the candidates for a context: each entity once, each statement once.

    ``members``: for each entity, the indices of its statements in ``statements``. ``stand_ins``: by the id of an entity
    without statements, the broader entity, also listed, whose statements are used instead.
    """

    question: str
    mentions: tuple[Mention, ...]
    entities: tuple[Node, ...]
    statements: tuple[Statement, ...]
    members: tuple[tuple[int, ...], ...]
    stand_ins: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """Hold the selected statements and their text.

    ``statements`` are in rank order, ``similarities`` parallel to them. ``left_out``: number of the entities'
    statements that are not in ``text``. ``tokens``: length of ``text``. ``named``: how many of the first statements
    have an other end that the question names. ``empty``: there is no statement, which ``text`` states.
    """

    statements: tuple[Statement, ...]
    similarities: tuple[float, ...]
    text: str
    tokens: int
    left_out: int
    entities: tuple[Node, ...]
    named: int = 0

    @property
    def empty(self) -> bool:
        return not self.statements


def gather(
    question: str,
    mentions: Sequence[Mention],
    found: Sequence[Neighbourhood],
    stand_ins: Mapping[str, Node] | None = None,
) -> ContextCandidates:
    """Collect entities in the order given, with duplicate statements merged into one."""
    entities: dict[str, Node] = {}
    by_edge: dict[tuple[str, str, str], list[int]] = {}
    statements: list[Statement] = []
    members: dict[str, list[int]] = {}
    for around in found:
        entities.setdefault(around.node.node_id, around.node)
        indices = members.setdefault(around.node.node_id, [])
        for statement in around.statements:
            edge = statement.edge
            same_edge = by_edge.setdefault((edge.source_id, edge.kind, edge.target_id), [])
            indices.append(_statement_index(statement, statements, same_edge))
    return ContextCandidates(
        question=question,
        mentions=tuple(mentions),
        entities=tuple(entities.values()),
        statements=tuple(statements),
        members=tuple(tuple(dict.fromkeys(indices)) for indices in members.values()),
        stand_ins=stand_ins or {},
    )


def build_context(
    gathered: ContextCandidates, vectors: Vectors, count: TokenCount, options: ContextOptions | None = None
) -> Context:
    """Select statements and render their text.

    Raises:
        ValueError: vectors and statements differ in number.
    """
    options = options or ContextOptions()
    near = similarities(vectors, len(gathered.statements))
    named = 0
    if options.pruning == "paper":
        order = paper_order(gathered, near, options.volume)
    else:
        order, named = budget_order(gathered, near)
    inputs = RenderInput(
        gathered.entities,
        [gathered.statements[i] for i in order],
        len(gathered.statements),
        options.evidence,
        gathered.stand_ins,
    )
    if options.tokens is None:
        text = render_context(inputs, len(order))
        fitted = Fitted(text, len(order), count(text))
    else:
        fitted = fitting_text(inputs, options.tokens, count)
    return Context(
        statements=tuple(inputs.statements[: fitted.number]),
        similarities=tuple(round(float(near[i]), 4) for i in order[: fitted.number]),
        text=fitted.text,
        tokens=fitted.tokens,
        left_out=len(gathered.statements) - fitted.number,
        entities=gathered.entities,
        named=min(named, fitted.number),
    )


def similarities(vectors: Vectors, expected: int) -> Floats:
    """Return the cosines [n] of the statements with the question, as one matrix-vector product.

    Raises:
        ValueError: there are not ``expected`` statement vectors.
    """
    matrix, question = vectors.statements, vectors.question
    if len(matrix) != expected:
        raise ValueError(f"{len(matrix)} vectors for {expected} statements")
    if not expected:
        return np.zeros(0, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * float(np.linalg.norm(question))
    cosines: Floats = (matrix @ question) / np.maximum(lengths, np.float32(1e-12))
    return cosines


def support(statements: Sequence[Statement]) -> Floats:
    """Return how many sources assert each statement, [n]: those named, their curators, and a tenth for each article."""
    edges = [one.edge for one in statements]
    counts = [len(edge.provenance) + _curators(edge.evidence) + len(edge.pmids) / 10 for edge in edges]
    return np.array(counts, np.float32)


def _curators(evidence: Mapping[str, Any]) -> int:
    found = evidence.get("curated_by")
    return len(found) if isinstance(found, list | tuple) else 0


def budget_order(gathered: ContextCandidates, near: Floats) -> tuple[list[int], int]:
    """Return the indices of all statements, best first, and how many of the first ones the question names.

    ``near`` orders statements that are equal by the rules: their similarity or support.
    """
    size = len(gathered.statements)
    reached = _reached(gathered) if len(gathered.entities) > 1 else {}
    names = QuestionNames(gathered.question, gathered.mentions)
    relations = relations_of(names.rest)
    fits: dict[tuple[str, str], int] = {}
    ids = {entity.node_id for entity in gathered.entities}
    others: list[str] = []
    is_named, shared, related = (np.zeros(size, np.int32) for _ in range(3))
    for index, statement in enumerate(gathered.statements):
        other = statement.target if statement.edge.source_id in ids else statement.source
        # An edge between two entities: the question is about both ends.
        is_named[index] = other.node_id in ids or names.has(other)
        kinds = (statement.edge.kind, other.kind)
        if kinds not in fits:
            fits[kinds] = fitting(relations, *kinds)
        related[index] = fits[kinds]
        if reached:
            shared[index] = reached.get(other.node_id, 0)
            others.append(other.node_id)
    shared[shared < 2] = 0
    sources, nearest = _of_shared_nodes(gathered, near, others, shared)
    order = np.lexsort((-near, -nearest, -sources, -related, -shared, -is_named))
    return order.tolist(), int(is_named.sum())


def _of_shared_nodes(
    gathered: ContextCandidates, near: Floats, others: Sequence[str], shared: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Floats]:
    """Return, for the statements of each shared node, the number of their sources and their greatest cosine, else 0."""
    sources, nearest = np.zeros(len(near), np.int32), np.zeros(len(near), np.float32)
    by_node: dict[str, list[int]] = {}
    for index in np.nonzero(shared)[0].tolist():
        by_node.setdefault(others[index], []).append(index)
    for indices in by_node.values():
        sources[indices] = sum(len(gathered.statements[index].edge.provenance) for index in indices)
        nearest[indices] = near[indices].max()
    return sources, nearest


def paper_order(gathered: ContextCandidates, near: Floats, volume: int) -> list[int]:
    """Return the indices of the statements that the published program selects, by entity, nearest first within each."""
    chosen: dict[int, None] = {}
    share = volume // max(1, len(gathered.entities) - len(gathered.stand_ins))
    for indices in gathered.members:
        if not indices:
            continue
        values: NDArray[np.float64] = near[list(indices)].astype(np.float64)
        edge = np.percentile(values, _PAPER_PERCENTILE)
        best = np.argsort(-values, kind="stable")
        nearest = [indices[i] for i in best if values[i] > edge and values[i] > _PAPER_SIMILARITY]
        chosen |= dict.fromkeys(nearest[:share])
    return list(chosen)


def _statement_index(statement: Statement, statements: list[Statement], same_edge: list[int]) -> int:
    """Return the index of a statement, appending it if it is new.

    Edges that differ in their sources are distinct statements.
    """
    for index in same_edge:
        if statements[index].edge == statement.edge:
            return index
    same_edge.append(len(statements))
    statements.append(statement)
    return len(statements) - 1


def _reached(gathered: ContextCandidates) -> dict[str, int]:
    """Return, for every node, how many entities have a statement about it."""
    reached: dict[str, int] = {}
    for entity, indices in zip(gathered.entities, gathered.members, strict=True):
        nodes: set[str] = set()
        for index in indices:
            edge = gathered.statements[index].edge
            nodes.add(edge.target_id if edge.source_id == entity.node_id else edge.source_id)
        for node in nodes:
            reached[node] = reached.get(node, 0) + 1
    return reached
