"""Render selected statements compactly in a prompt, every fact with its source, as pure functions.

    Disease psoriasis (DOID:8893, Disease Ontology):
    - associates Gene: HLA-B; IL23R; TNIP1 [source: GWAS Catalog]
    - Compound: Methotrexate; Calcitriol - treats it [source: DrugCentral; ChEMBL]
    Disease herpes zoster (DOID:8536, Disease Ontology):
    - associates Gene: HLA-B; IL10 [source: DISEASES]
    Common to all of these: HLA-B
    (Left out: 412 of 447 statements.)

One line holds the statements of one entity that share relation, direction, kind of the other end and sources. Nodes
that all entities reach are repeated in a line of their own, so that the model need not compare long lists. With
evidence, the attributes of a statement follow its name as JSON.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from retrieval.graph.context.relations import readable_kind
from retrieval.graph.types import Node, Statement

_MAX_TRIES: Final = 12
_CLOSE_ENOUGH: Final = 0.96
_AIM: Final = 0.985
_FIRST_GUESS_CHARS: Final = 2.5
_NOTE_CHARS: Final = 40
_MAX_NAME: Final = 200
_MAX_LISTED: Final = 5
_MAX_COMMON: Final = 20
_BESIDE: Final = ""
_NO_SOURCE: Final = "the graph names none"


@dataclass(frozen=True, slots=True)
class RenderInput:
    """Hold the statements to render, in rank order.

    ``total``: number of candidate statements. ``stand_ins``: by the id of an entity without statements, the broader
    entity whose statements are rendered instead.
    """

    entities: Sequence[Node]
    statements: Sequence[Statement]
    total: int
    evidence: bool = False
    stand_ins: Mapping[str, Node] = field(default_factory=dict)


class _Line(NamedTuple):
    """Hold what the statements of one line have in common.

    ``forward``: the entity is the statement's source. ``whole`` is the sentence of a statement that has an unusual form
    or is about no entity, and gets a line of its own.
    """

    verb: str
    forward: bool
    kind: str
    sources: tuple[str, ...]
    pmids: bool
    whole: str


def render_context(inputs: RenderInput, number: int) -> str:
    """Render the first ``number`` statements."""
    return _ContextRenderer(inputs).text(number)


class Fitted(NamedTuple):
    """Hold a text, the ``number`` of statements in it and its length in ``tokens``."""

    text: str
    number: int
    tokens: int


def fitting_text(inputs: RenderInput, budget: int, count: Callable[[str], int]) -> Fitted:
    """Render as many of the first statements as fit ``budget`` tokens.

    A search with few token counts of whole texts finds the number, because counting piecewise costs more and gives
    another sum; so a few more statements might have fitted. Returns "" if not even the entities fit.
    """
    renderer = _ContextRenderer(inputs)
    best, over = Fitted("", -1, 0), len(inputs.statements) + 1
    guess = renderer.number_within(budget * _FIRST_GUESS_CHARS)
    for tried in range(_MAX_TRIES):
        guess = min(max(guess, best.number + 1), over - 1)
        text = renderer.text(guess)
        tokens = count(text)
        if tokens > budget:
            over = guess
        else:
            best = Fitted(text, guess, tokens)
        if over - best.number <= 1 or (best.number == guess and tokens >= _CLOSE_ENOUGH * budget):
            break
        guess = renderer.number_within(_AIM * budget * renderer.chars(guess) / max(tokens, 1))
        if tried >= _MAX_TRIES // 3:
            # The text besides the statements has a fixed size, which spoils the estimate; bisection always ends.
            guess = (best.number + over) // 2
    if best.number >= 0:
        return best
    text = renderer.text(0)
    tokens = count(text)
    return Fitted(text, 0, tokens) if tokens <= budget else Fitted("", 0, 0)


class _ContextRenderer:
    """Cache the parts of a text, each rendered once for any number of attempts."""

    def __init__(self, inputs: RenderInput) -> None:
        self._inputs = inputs
        self._heads = {entity.node_id: _head(entity, inputs.stand_ins) for entity in inputs.entities}
        self._reaching = len(self._heads.keys() - inputs.stand_ins.keys())
        self._parts: list[tuple[str, _Line, str]] = []
        self._ends: list[Node] = []
        self._chars = [sum(map(len, self._heads.values())) + _NOTE_CHARS]
        self._seen: set[tuple[str, _Line]] = set()

    def number_within(self, chars: float) -> int:
        """Return how many of the first statements make a text of about this many characters."""
        while self._chars[-1] < chars and len(self._parts) < len(self._inputs.statements):
            self._add(self._inputs.statements[len(self._parts)])
        return max(0, bisect_right(self._chars, chars) - 1)

    def chars(self, number: int) -> int:
        """Return the approximate length in characters of the text of the first ``number`` statements."""
        return self._chars[number]

    def text(self, number: int) -> str:
        while len(self._parts) < number:
            self._add(self._inputs.statements[len(self._parts)])
        blocks: dict[str, dict[_Line, list[str]]] = {node_id: {} for node_id in (*self._heads, _BESIDE)}
        for node_id, line, item in self._parts[:number]:
            blocks[node_id].setdefault(line, []).append(item)
        lines = []
        for node_id, by_line in blocks.items():
            head = [self._heads[node_id]] if node_id in self._heads else ["Beside these:"] if by_line else []
            lines += [*head, *(_one(line, items) for line, items in by_line.items())]
        lines += self._common(number)
        if not number:
            lines.append("The graph has no statement about this that fits the question.")
        elif number < self._inputs.total:
            lines.append(f"(Left out: {self._inputs.total - number} of {self._inputs.total} statements.)")
        return "\n".join(lines)

    def _common(self, number: int) -> list[str]:
        """Return the line of nodes that each entity reaches within the first ``number`` statements, or no line."""
        if self._reaching < 2:
            return []
        reached: dict[str, set[str]] = {}
        names: dict[str, str] = {}
        for (heading, _, _), end in zip(self._parts[:number], self._ends, strict=False):
            reached.setdefault(end.node_id, set()).add(heading)
            names[end.node_id] = _quoted(end.name)
        common = [
            names[node_id] for node_id, headings in reached.items() if len(headings - {_BESIDE}) == self._reaching
        ]
        more = len(common) - _MAX_COMMON
        listing = "; ".join(common[:_MAX_COMMON]) + (f" and {more} more" if more > 0 else "")
        return [f"Common to all of these: {listing}"] if common else []

    def _add(self, statement: Statement) -> None:
        forward = statement.edge.source_id in self._heads
        entity, other = (statement.source, statement.target) if forward else (statement.target, statement.source)
        # A source may also send edges between two neighbours of an entity.
        heading = entity.node_id if entity.node_id in self._heads else _BESIDE
        line = _line(statement, other, forward=forward, whole=heading == _BESIDE)
        item = _item(statement, other, self._inputs.evidence)
        self._parts.append((heading, line, item))
        self._ends.append(other)
        key = (heading, line)
        extra = 2 if key in self._seen else len(_one(line, [""])) + 1
        self._seen.add(key)
        self._chars.append(self._chars[-1] + len(item) + extra)


def verb_of(statement: Statement) -> str:
    """Return the phrase between the two ends in the statement's text, "" if the text has another form."""
    head = f"{readable_kind(statement.source.kind)} {statement.source.name} "
    tail = f" {readable_kind(statement.target.kind)} {statement.target.name}"
    text = statement.text
    if len(head) + len(tail) < len(text) and text.startswith(head) and text.endswith(tail):
        return text[len(head) : -len(tail)]
    return ""


def one_line(text: str) -> str:
    """Collapse white space and truncate, so that a line break in a name cannot imitate the prompt's own lines."""
    text = " ".join(text.split())
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"


def evidence_json(statement: Statement) -> str:
    """Return the attributes and articles of an edge as one line of JSON, "" if there are none.

    Long lists are cut and end with the number of further items; long texts are cut.
    """
    attributes: dict[str, Any] = {key: _shortened(value) for key, value in statement.edge.evidence.items()}
    if statement.edge.pmids:
        attributes["pmids"] = _shortened(list(statement.edge.pmids))
    return json.dumps(attributes, ensure_ascii=False, separators=(",", ":"), default=str) if attributes else ""


def _line(statement: Statement, other: Node, *, forward: bool, whole: bool) -> _Line:
    verb = "" if whole else verb_of(statement)
    sources = tuple(one_line(source) for source in statement.edge.provenance)
    return _Line(
        verb=one_line(verb),
        forward=forward,
        kind=one_line(readable_kind(other.kind)),
        sources=sources,
        pmids=not sources and bool(statement.edge.pmids),
        whole="" if verb else one_line(statement.text),
    )


def _item(statement: Statement, other: Node, evidence: bool) -> str:
    name = _quoted(other.name)
    pmids = statement.edge.pmids
    if not statement.edge.provenance and pmids and not evidence:
        name += f" (PMID {', '.join(pmids[:_MAX_LISTED])}{' and more' if len(pmids) > _MAX_LISTED else ''})"
    attributes = evidence_json(statement) if evidence else ""
    return f"{name} {attributes}" if attributes else name


def _quoted(name: str) -> str:
    name = one_line(name)
    return json.dumps(name, ensure_ascii=False) if ";" in name else name


def _head(entity: Node, stand_ins: Mapping[str, Node]) -> str:
    where = ", ".join(one_line(part) for part in (entity.identifier, entity.source) if part)
    name = f"{one_line(readable_kind(entity.kind))} {one_line(entity.name)}{f' ({where})' if where else ''}"
    return f"{name}:{_stand_in_note(stand_ins.get(entity.node_id))}"


def _stand_in_note(broader: Node | None) -> str:
    if broader is None:
        return ""
    name = f"{one_line(readable_kind(broader.kind))} {one_line(broader.name)}"
    return f"\n- The graph says nothing of this itself; what it says of the broader {name} is used."


def _one(line: _Line, items: Sequence[str]) -> str:
    listed = f"{line.kind}: {'; '.join(items)}"
    if line.whole:
        sentence = f"{line.whole} ({listed})"
    elif line.forward:
        sentence = f"{line.verb} {listed}"
    else:
        sentence = f"{listed} - {line.verb} it"
    source = "PubMed" if line.pmids else "; ".join(line.sources) or _NO_SOURCE
    return f"- {sentence} [source: {source}]"


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        rest = len(value) - _MAX_LISTED
        head = [_shortened(part) for part in value[:_MAX_LISTED]]
        return [*head, f"{rest} more"] if rest > 0 else head
    if isinstance(value, str) and len(value) > _MAX_NAME:
        return value[: _MAX_NAME - 1] + "…"
    # JSON has neither infinities nor NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value
