"""Check whether a context has what its question needs, and compute the shares over many questions. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple

from scripts.evals.comparators.base import Retrieved, TokenCount
from scripts.evals.comparators.questions import Question, numbers_in

Variant = Literal["original", "perturbed", "slipped"]
VARIANTS: Final[tuple[Variant, ...]] = ("original", "perturbed", "slipped")
# Those of the paper.
_PUBLISHED: Final[tuple[Variant, ...]] = ("original", "perturbed")
_Z: Final = 1.959963984540054


class Share(NamedTuple):
    """``low``, ``high``: Wilson's interval at 95 %."""

    number: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.number / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.number}/{self.total} = {self.value:.3f} ({self.low:.2f}-{self.high:.2f})"


def wilson(number: int, total: int) -> Share:
    if not total:
        return Share(0, 0, 0.0, 1.0)
    part = number / total
    middle = part + _Z**2 / (2 * total)
    spread = _Z * math.sqrt(part * (1 - part) / total + _Z**2 / (4 * total**2))
    whole = 1 + _Z**2 / total
    return Share(number, total, max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One question in one variant through one retriever. ``edge``: both names stand in one fact of the context.
    ``p_value``: the key's value stands with it. ``provenance``: one of the edge's sources does. ``disease``: the
    question was taken to be about its disease; None where nothing like that was decided. ``tokens`` of the context,
    ``prompt_tokens`` of what a model read before it."""

    set: str
    retriever: str
    variant: Variant
    question: str
    edge: bool
    p_value: bool
    provenance: bool
    disease: bool | None
    has_p_value: bool
    tokens: int
    prompt_tokens: int
    ms: float
    note: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Asked(NamedTuple):
    """``set``: name of the questions' set."""

    set: str
    retriever: str
    variant: Variant
    question: Question


def record_of(asked: Asked, found: Retrieved, ms: float, count: TokenCount) -> Record:
    """Raises ValueError for a fact that is not in the context: then the retriever counts what no model would read."""
    question = asked.question
    absent = [fact for fact in found.facts if fact.text not in found.context or fact.source not in found.context]
    if absent:
        raise ValueError(f"{asked.retriever}: not in the context: {absent[0]}")
    facts = [fact for fact in found.facts if question.names <= fact.names]
    return Record(
        set=asked.set,
        retriever=asked.retriever,
        variant=asked.variant,
        question=text_in(question, asked.variant),
        edge=bool(facts),
        p_value=any(question.p_value in numbers_in(fact.text) for fact in facts),
        provenance=any(source in fact.source for fact in facts for source in question.sources),
        disease=None if found.nodes is None else question.disease.casefold() in map(str.casefold, found.nodes),
        has_p_value=question.has_p_value,
        tokens=count(found.context) if found.context else 0,
        prompt_tokens=count(found.prompt) if found.prompt else 0,
        ms=round(ms, 3),
        note=found.note or ", ".join(found.nodes or ()),
    )


def text_in(question: Question, variant: Variant) -> str:
    """ "" where there is no such variant."""
    match variant:
        case "original":
            return question.text
        case "perturbed":
            return question.perturbed
        case "slipped":
            return question.slipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table; shares by variant, the rest of the questions as they are: nothing found costs no tokens."""

    set: str
    retriever: str
    edge: dict[Variant, Share]
    p_value: dict[Variant, Share]
    provenance: dict[Variant, Share]
    disease: dict[Variant, Share]
    tokens_mean: float
    tokens_max: int
    prompt_tokens_mean: float
    ms: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rows_of_table(records: Sequence[Record]) -> list[Row]:
    """By set and retriever, in the order of the records."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.set, record.retriever), []).append(record)
    return [_row(name, retriever, own) for (name, retriever), own in groups.items()]


def _row(name: str, retriever: str, own: Sequence[Record]) -> Row:
    with_value = [record for record in own if record.has_p_value]
    plain = [record for record in own if record.variant == "original"]
    return Row(
        set=name,
        retriever=retriever,
        edge=_shares(own, lambda record: record.edge),
        p_value=_shares(with_value, lambda record: record.p_value),
        provenance=_shares(own, lambda record: record.provenance),
        disease=_shares([r for r in own if r.disease is not None], lambda record: record.disease is True),
        tokens_mean=statistics.fmean(record.tokens for record in plain),
        tokens_max=max(record.tokens for record in plain),
        prompt_tokens_mean=statistics.fmean(record.prompt_tokens for record in plain),
        ms=statistics.median(record.ms for record in plain),
    )


def _shares(records: Sequence[Record], holds: Callable[[Record], bool]) -> dict[Variant, Share]:
    of = {variant: [record for record in records if record.variant == variant] for variant in VARIANTS}
    return {variant: wilson(sum(map(holds, own)), len(own)) for variant, own in of.items()}


def table(rows: Sequence[Row]) -> list[str]:
    """Markdown, one table for each set."""
    lines: list[str] = []
    for name in dict.fromkeys(row.set for row in rows):
        lines += ["", f"**{name}**", "", _HEAD, "|" + "---|" * _HEAD.count(" | ") + "---|"]
        lines += [_line(row) for row in rows if row.set == name]
    return lines[1:]


_HEAD: Final = (
    "| retrieval | edge | small letters | one slip | p-value | small letters | provenance | small letters "
    "| tokens, mean | max | tokens read before | ms |"
)


def disease_table(rows: Sequence[Row]) -> list[str]:
    """Markdown: how often the question's own disease was taken, of ways that take nodes."""
    lines = ["| set | retrieval | disease found | small letters | one slip |", "|---|---|---|---|---|"]
    for row in rows:
        if row.disease["original"].total:
            shares = " | ".join(str(row.disease[variant]) for variant in VARIANTS)
            lines.append(f"| {row.set} | {row.retriever} | {shares} |")
    return lines


def _line(row: Row) -> str:
    shares = [str(row.edge[variant]) for variant in VARIANTS]
    shares += [f"{share[v].number}/{share[v].total}" for share in (row.p_value, row.provenance) for v in _PUBLISHED]
    numbers = [f"{row.tokens_mean:,.0f}", f"{row.tokens_max:,}", f"{row.prompt_tokens_mean:,.0f}", f"{row.ms:.1f}"]
    return f"| {' | '.join([row.retriever, *shares, *numbers])} |"
