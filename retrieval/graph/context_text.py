"""How chosen statements read in a prompt: few tokens for many facts, every fact with its source. Pure.

    Disease psoriasis (DOID:8893, Disease Ontology):
    - associates Gene: HLA-B; IL23R; TNIP1 [source: GWAS Catalog]
    - Compound: Methotrexate; Calcitriol - treats it [source: DrugCentral; ChEMBL]
    (Left out: 412 of 447 statements.)

One line holds the statements of one entity that have relation, direction, kind of the other end and sources in
common. With evidence, the attributes of a statement stand behind its name as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from retrieval.graph.types import Node, Statement

_MAX_TRIES: Final = 8
_CLOSE_ENOUGH: Final = 0.98
_FIRST_GUESS_CHARS: Final = 3.2
_MAX_NAME: Final = 200
_MAX_LISTED: Final = 5
_NO_SOURCE: Final = "the graph names none"


@dataclass(frozen=True, slots=True)
class Told:
    """``statements`` in the order of choice; ``total``: how many there were to choose from."""

    entities: Sequence[Node]
    statements: Sequence[Statement]
    total: int
    evidence: bool = False


class _Line(NamedTuple):
    """What the statements of one line have in common. ``forward``: the entity is the statement's source. ``whole`` is
    the sentence of a statement whose text is not of the usual form, and which has a line to itself."""

    verb: str
    forward: bool
    kind: str
    sources: tuple[str, ...]
    pmids: bool
    whole: str


def tell(told: Told, number: int) -> str:
    """The text of the first ``number`` statements."""
    lines: dict[str, dict[_Line, list[str]]] = {entity.node_id: {} for entity in told.entities}
    for statement in told.statements[:number]:
        forward = statement.source.node_id in lines
        entity, other = (statement.source, statement.target) if forward else (statement.target, statement.source)
        line = _line(statement, other, forward=forward)
        lines.setdefault(entity.node_id, {}).setdefault(line, []).append(_item(statement, other, told.evidence))
    blocks = [_block(entity, lines[entity.node_id]) for entity in told.entities]
    left = told.total - number
    if not number:
        blocks.append("The graph has no statement about this that fits the question.")
    elif left:
        blocks.append(f"(Left out: {left} of {told.total} statements.)")
    return "\n".join(blocks)


def fitting_text(told: Told, budget: int, count: Callable[[str], int]) -> tuple[str, int]:
    """The text of as many first statements as fit ``budget`` tokens, and how many they are.

    The number is searched with a few counts of whole texts, because counting piece by piece costs more and adds up to
    something else; so a few more might have fitted. "" where not even the entities fit.
    """
    best, fits, over = tell(told, 0), 0, len(told.statements) + 1
    head = count(best)
    if head > budget:
        return "", 0
    guess = int((budget - head) * _FIRST_GUESS_CHARS / _mean_chars(told))
    for _ in range(_MAX_TRIES):
        if over - fits <= 1:
            break
        guess = min(max(guess, fits + 1), over - 1)
        text = tell(told, guess)
        tokens = count(text)
        if tokens > budget:
            over = guess
        else:
            best, fits = text, guess
            if tokens >= _CLOSE_ENOUGH * budget:
                break
        # Tokens grow nearly in step with statements.
        guess = int(guess * (budget - head) / max(tokens - head, 1))
    return best, fits


def verb_of(statement: Statement) -> str:
    """What stands between the two ends in the statement's text, "" where it does not have that form."""
    head = f"{statement.source.kind} {statement.source.name} "
    tail = f" {statement.target.kind} {statement.target.name}"
    text = statement.text
    if len(head) + len(tail) < len(text) and text.startswith(head) and text.endswith(tail):
        return text[len(head) : -len(tail)]
    return ""


def one_line(text: str) -> str:
    """Names are data: a line break in one must not look like the prompt's own."""
    text = " ".join(text.split())
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"


def evidence_json(statement: Statement) -> str:
    """The attributes and articles of an edge as one line of JSON; of long lists the beginning and how many follow."""
    attributes: dict[str, Any] = {key: _shortened(value) for key, value in statement.edge.evidence.items()}
    if statement.edge.pmids:
        attributes["pmids"] = _shortened(list(statement.edge.pmids))
    return json.dumps(attributes, ensure_ascii=False, separators=(",", ":"), default=str) if attributes else ""


def _line(statement: Statement, other: Node, *, forward: bool) -> _Line:
    verb = verb_of(statement)
    sources = tuple(one_line(source) for source in statement.edge.provenance)
    return _Line(
        verb=one_line(verb),
        forward=forward,
        kind=one_line(other.kind),
        sources=sources,
        pmids=not sources and bool(statement.edge.pmids),
        whole="" if verb else one_line(statement.text),
    )


def _item(statement: Statement, other: Node, evidence: bool) -> str:
    name = one_line(other.name)
    name = json.dumps(name, ensure_ascii=False) if ";" in name else name
    pmids = statement.edge.pmids
    if not statement.edge.provenance and pmids and not evidence:
        name += f" (PMID {', '.join(pmids[:_MAX_LISTED])}{' and more' if len(pmids) > _MAX_LISTED else ''})"
    attributes = evidence_json(statement) if evidence else ""
    return f"{name} {attributes}" if attributes else name


def _block(entity: Node, lines: Mapping[_Line, Sequence[str]]) -> str:
    where = ", ".join(one_line(part) for part in (entity.identifier, entity.source) if part)
    head = f"{one_line(entity.kind)} {one_line(entity.name)}{f' ({where})' if where else ''}:"
    return "\n".join([head, *(_one(line, items) for line, items in lines.items())])


def _one(line: _Line, items: Sequence[str]) -> str:
    listed = f"{line.kind}: {'; '.join(items)}"
    if line.whole:
        said = f"{line.whole} ({listed})"
    elif line.forward:
        said = f"{line.verb} {listed}"
    else:
        said = f"{listed} - {line.verb} it"
    source = "PubMed" if line.pmids else "; ".join(line.sources) or _NO_SOURCE
    return f"- {said} [source: {source}]"


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        rest = len(value) - _MAX_LISTED
        head = [_shortened(part) for part in value[:_MAX_LISTED]]
        return [*head, f"{rest} more"] if rest > 0 else head
    # JSON knows neither infinities nor NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean_chars(told: Told) -> float:
    """Characters that one more statement adds, about."""
    sample = told.statements[:50]
    extra = 60 if told.evidence else 3
    return sum(len(s.text) / 3 + extra for s in sample) / len(sample) if sample else 1.0
