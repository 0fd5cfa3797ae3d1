"""Build questions about one edge between a disease and a gene.

Each is asked unchanged, in small letters, and with a misspelt disease. Pure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from retrieval.graph.types import Statement
from scripts.evals.comparators.base import ends

# The published set's wordings, each with the names in both orders.
WORDINGS: Final = (
    "Is {} associated with {}?",
    "What is the GWAS p-value for the association between {} and {}?",
)
_P_VALUE: Final = "gwas_pvalue"
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_LONG: Final = 6
_NUMBER: Final = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``perturbed``: names in small letters. ``slipped``: two letters of the disease's name have changed places; ""
    where it has no word that is long enough. ``sources`` of the needed edge in the graph. ``has_edge``,
    ``has_p_value``: whether the graph has the edge, and the key's p-value on it."""

    text: str
    perturbed: str
    disease: str
    gene: str
    p_value: float
    slipped: str = ""
    sources: frozenset[str] = frozenset()
    has_edge: bool = False
    has_p_value: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.disease.casefold(), self.gene.casefold()))


def published(rows: Sequence[Mapping[str, Any]], statements: Sequence[Statement]) -> list[Question]:
    """Of the rows of rag_comparison_data; all of them, also those whose edge the graph does not have."""
    pairs = by_ends(statements)
    return [
        _with_edge(
            Question(
                text=row["question"],
                perturbed=row["question_perturbed"],
                slipped=slipped(row["question"], row["disease_name"]),
                disease=row["disease_name"],
                gene=row["gene_name"],
                p_value=float(row["gwas_pvalue"]),
            ),
            pairs,
        )
        for row in rows
    ]


def made(statements: Sequence[Statement], number: int, seed: int = 0) -> list[Question]:
    """Of edges of the graph that one p-value is told of, drawn with ``seed``; wordings and orders take turns."""
    pairs = by_ends(statements)
    fit = [s for s in statements if _one_p_value(s) is not None and len(pairs[ends(s)]) == 1]
    chosen = random.Random(seed).sample(fit, min(number, len(fit)))
    return [_with_edge(_made(place, statement), pairs) for place, statement in enumerate(chosen)]


def slipped(text: str, name: str) -> str:
    """In the longest word of the name's one place in the text, two letters in the middle that differ change places."""
    word = max(_LETTERS.findall(name), key=len, default="")
    places = [p for p in range(2, len(word) - 2) if word[p].casefold() != word[p + 1].casefold()]
    if len(word) < _LONG or not places or text.count(name) != 1:
        return ""
    place = min(places, key=lambda p: abs(p - len(word) // 2))
    changed = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return text.replace(name, name.replace(word, changed, 1))


def by_ends(statements: Sequence[Statement]) -> dict[frozenset[str], list[Statement]]:
    found: dict[frozenset[str], list[Statement]] = {}
    for statement in statements:
        found.setdefault(ends(statement), []).append(statement)
    return found


def numbers_in(text: str) -> frozenset[float]:
    return frozenset(float(match) for match in _NUMBER.findall(text))


def _made(place: int, statement: Statement) -> Question:
    disease, gene = statement.source.name, statement.target.name
    names = (disease, gene) if place // len(WORDINGS) % 2 == 0 else (gene, disease)
    wording = WORDINGS[place % len(WORDINGS)]
    value = _one_p_value(statement)
    return Question(
        text=wording.format(*names),
        perturbed=wording.format(*(name.lower() for name in names)),
        slipped=slipped(wording.format(*names), disease),
        disease=disease,
        gene=gene,
        p_value=float("nan") if value is None else value,
    )


def _one_p_value(statement: Statement) -> float | None:
    """None for an edge that is not between a disease and a gene, too: the wordings are about those."""
    value = statement.edge.evidence.get(_P_VALUE)
    fits = (statement.source.kind, statement.target.kind) == ("Disease", "Gene")
    return float(value) if fits and isinstance(value, int | float) and not isinstance(value, bool) else None


def _with_edge(question: Question, pairs: Mapping[frozenset[str], Sequence[Statement]]) -> Question:
    edges = pairs.get(question.names, ())
    values = {value for statement in edges for value in _numbers(statement.edge.evidence)}
    return replace(
        question,
        sources=frozenset(source for statement in edges for source in statement.edge.provenance),
        has_edge=bool(edges),
        has_p_value=question.p_value in values,
    )


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, str):
        yield from numbers_in(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
