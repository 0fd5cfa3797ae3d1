"""Read the data of the verifier: annotated trials, PubMedQA, COVID-QA and MedQuAD, each split by source document.

None of their text is stored with the product.
"""

from __future__ import annotations

import gzip
import html
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# PubMedQA's file has no split.
_DEV_SHARE: Final = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold what a trial found of an outcome; ``label``: "increased", "decreased" or "no difference"."""

    source: str
    intervention: str
    comparator: str
    outcome: str
    label: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Article:
    """Hold a question with the conclusion that answers it; ``label``: "yes", "no" or "maybe"."""

    source: str
    question: str
    conclusion: str
    contexts: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Span:
    """Hold a question with its answer, and the text that has it."""

    source: str
    question: str
    answer: str
    context: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold a question of a kind about a focus, a disease or a drug, with the beginning of its answer."""

    source: str
    focus: str
    kind: str
    question: str
    answer: str


def read_trials(folder: Path, split: str) -> list[Trial]:
    return [
        Trial(*(html.unescape(" ".join(row[key].split())) for key in Trial.__annotations__))
        for row in _rows(folder, "trials", split)
    ]


def read_articles(folder: Path, split: str) -> list[Article]:
    return [
        Article(row["source"], row["question"], row["conclusion"], tuple(row["contexts"]), row["label"])
        for row in _rows(folder, "pubmedqa_train", None)
        if (zlib.crc32(row["source"].encode()) % 100 < _DEV_SHARE) == (split == "dev")
    ]


def read_spans(folder: Path, split: str) -> list[Span]:
    return [Span(*(row[key] for key in Span.__annotations__)) for row in _rows(folder, "covid_qa", split)]


def read_entries(folder: Path, split: str) -> list[Entry]:
    rows = _rows(folder, "medquad", split)
    return [Entry(*(row[key] for key in Entry.__annotations__)) for row in rows if row["answer"]]


def _rows(folder: Path, name: str, split: str | None) -> list[dict[str, Any]]:
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if split is None or row["split"] == split]
