"""Read BioASQ questions with their gold snippets, and split them by a stable hash.

BioASQ: Tsatsaronis G et al. BMC Bioinformatics 16:138, 2015; CC BY 2.5. The text is read where it lies and never stored
with the product.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from server.methods.shared.sentences import split_sentences
from server.methods.shared.word_overlap import question_stems, stems_of

FILE: Final = "questions_dev.jsonl.gz"
CORPUS: Final = "corpus.jsonl.gz"
WRITTEN: Final = "written_questions.tsv"
WRITTEN_HELD_OUT: Final = "written_questions_held_out.tsv"
HELD_OUT_SHARE: Final = 0.30
MAX_WORDS: Final = 110
_MIN_SHARED: Final = 0.3


@dataclass(frozen=True, slots=True)
class Snippet:
    pmid: str
    text: str


@dataclass(frozen=True)
class Question:
    """Hold a question. ``exact``: "yes", "no", or the items of the answer, each with its synonyms."""

    question_id: str
    form: str
    text: str
    yes_no: str
    items: tuple[tuple[str, ...], ...]
    ideal: tuple[str, ...]
    snippets: tuple[Snippet, ...]
    pmids: frozenset[str]

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(question_stems(self.text))

    def support(self) -> list[Snippet]:
        """Return the snippets that can carry the answer by themselves.

        Of a factoid or list they name an item; of any question they share words with it.
        """
        found = [one for one in self.snippets if len(one.text.split()) <= MAX_WORDS and self._fits(one.text)]
        return [one for one in found if not self.items or self.items_in([one.text])]

    def items_in(self, texts: Iterable[str]) -> list[str]:
        """Return the spelling of each item that the texts have, in the order of the answer."""
        whole = " ".join(texts)
        found = (next((name for name in item if has_phrase(whole, name)), "") for item in self.items)
        return list(dict.fromkeys(name for name in found if name))

    def sentence_of(self, text: str) -> str:
        """Return the sentence that carries the answer: it names items, then shares most words with the question."""
        sentences = [one.line for one in split_sentences(text)] or [text]
        return max(sentences, key=lambda one: (len(self.items_in([one])), len(self.stems & stems_of(one))))

    def _fits(self, text: str) -> bool:
        return len(self.stems & stems_of(text)) >= _MIN_SHARED * len(self.stems)


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """Hold a question of yes or no that was written for one text; ``answer``: "yes", "no" or "unclear"."""

    question: str
    answer: str
    text: str


def has_phrase(text: str, phrase: str) -> bool:
    """Return whether the text has the phrase as whole words, ignoring letter case."""
    return re.search(rf"(?<!\w){re.escape(phrase.casefold())}(?!\w)", text.casefold()) is not None


def is_held_out(text: str) -> bool:
    """Return whether a question is for evaluation; equal texts are always on the same side."""
    digest = hashlib.blake2b(" ".join(text.casefold().split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < HELD_OUT_SHARE


def read_questions(folder: Path, *, held_out: bool) -> list[Question]:
    """Return the questions of one side that have a snippet to be answered from, in the file's order."""
    with gzip.open(folder / FILE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    questions = [_question(row) for row in rows if is_held_out(row["question"]) == held_out]
    return [one for one in questions if one.support()]


def read_texts(folder: Path) -> list[str]:
    """Return titles and texts of the corpus, without the articles of questions that are held out.

    Empty where the folder has no corpus.
    """
    if not (folder / CORPUS).is_file():
        return []
    return [text for row in _articles(folder) for text in (row["title"], row["abstract"]) if text]


def read_written(folder: Path, *, held_out: bool) -> list[WrittenQuestion]:
    """Return the questions of one side that were written for texts of the corpus, in their file's order.

    Empty where the folder has no corpus. No text is of an article of a BioASQ question that is held out.
    """
    if not (folder / CORPUS).is_file():
        return []
    texts = {row["pmid"]: " ".join(row["abstract"].split()) for row in _articles(folder)}
    name = WRITTEN_HELD_OUT if held_out else WRITTEN
    lines = (files("scripts.training.tasks") / name).read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [WrittenQuestion(question, answer, texts[pmid]) for pmid, answer, question in rows if texts.get(pmid)]


def _articles(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the corpus, without the articles of questions that are held out."""
    held_out = frozenset().union(*(one.pmids for one in read_questions(folder, held_out=True)))
    with gzip.open(folder / CORPUS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["pmid"] not in held_out]


def _question(row: dict[str, Any]) -> Question:
    exact = row.get("exact")
    items = (
        tuple(tuple(str(name).strip() for name in item if str(name).strip()) for item in exact or [])
        if isinstance(exact, list)
        else ()
    )
    return Question(
        question_id=row["id"],
        form=row["type"],
        text=" ".join(row["question"].split()),
        yes_no=str(exact).strip().lower() if row["type"] == "yesno" else "",
        items=items,
        ideal=tuple(row.get("ideal") or ()),
        snippets=tuple(Snippet(one["pmid"], " ".join(one["text"].split())) for one in row["snippets"]),
        pmids=frozenset(row["gold_pmids"]) | {one["pmid"] for one in row["snippets"]},
    )
