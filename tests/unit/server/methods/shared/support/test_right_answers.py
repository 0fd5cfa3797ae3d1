"""Right answers in many styles, over the passages of the evaluation and gene records, and wrong twins of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from gene_records import human_genes

from retrieval.ncbi.replies.condense import line_of
from retrieval.types import Focus
from server.methods.base import Source
from server.methods.shared.sentences import split_sentences
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

HERE: Final = Path(__file__).parent
PASSAGES: Final = HERE.parents[5] / "scripts" / "evals" / "questions" / "capable_passages.jsonl"
READER: Final = QuantityReader(Units())
TITLE: Final = re.compile(r"\{T:([^}]*)\}")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def passages() -> list[dict[str, Any]]:
    return lines_of(PASSAGES)


@cache
def records() -> dict[str, str]:
    """Return the line of each human gene by its symbol."""
    return {gene.symbol: line_of(gene, Focus()) for gene in human_genes()}


def alarms(row: dict[str, Any], *, with_notes: bool = False) -> list[str]:
    """Return what is said against the sentences of an answer, or of them."""
    if row.get("genes"):
        known = tuple(records()[symbol] for symbol in row["genes"])
        sources, text = [Source("\n".join(known), records=known)], row["answer"]
    else:
        titles = list(dict.fromkeys(TITLE.findall(row["answer"])))
        found = [next(one for one in passages() if one["title"].startswith(title)) for title in titles]
        sources = [Source(one["content"], number, one["title"]) for number, one in enumerate(found, 1)]
        text = TITLE.sub(lambda mark: f"[{titles.index(mark[1]) + 1}]", row["answer"])
    evidence = Evidence(sources, row["question"], READER)
    sentences = (text[one.start : one.end] for one in split_sentences(text))
    return [
        f"{one.kind} {one.text}: {one.detail}"
        for sentence in sentences
        for found in (evidence.check(sentence, text),)
        for one in (*found.mismatches, *(found.notes if with_notes else ()))
    ]


@pytest.mark.parametrize("row", lines_of(HERE / "right_answers.jsonl"), ids=lambda row: row["question"][:40])
def test_right_answers_are_not_labelled(row: dict[str, Any]) -> None:
    """What is rounded, converted, computed, shortened or called by another name is no fault."""
    assert alarms(row) == []


@pytest.mark.parametrize("row", lines_of(HERE / "wrong_answers.jsonl"), ids=lambda row: row["answer"][:40])
def test_wrong_twins_are_labelled(row: dict[str, Any]) -> None:
    """One value or name of another is noticed."""
    assert alarms(row, with_notes=True)
