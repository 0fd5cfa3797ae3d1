"""Read MIRAGE's questions and build their messages.

Two formats: JSON Lines, also gzipped, of {"dataset", "id", "question", "options", "answer"}, and the published
``benchmark.json``, {dataset: {id: {"question", "options", "answer"}}}.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Message, Question

SETS: Final = ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")
Form = Literal["plain", "direct", "cot"]
FORMS: Final[tuple[Form, ...]] = ("plain", "direct", "cot")
# The letters in which the questions are put, and read back by our methods.
_INSTRUCTIONS: Final[dict[Form, str]] = {
    "direct": (
        "You are given a biomedical multiple-choice question. Reply with the letter of the best choice, nothing else."
    ),
    "cot": (
        "You are given a biomedical multiple-choice question. Think it through step by step, then end with a line of "
        'this form, with the letter of the one best choice: "The answer is (X)."'
    ),
}


def load(path: Path, form: Form = "plain") -> list[Question]:
    """All questions, sets in MIRAGE's order, each by its identifiers.

    Raises:
        DatasetInvalid: not one of the two formats, or a question without a usable key.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
        rows = list(_rows(content))
    except (OSError, ValueError, EOFError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error
    questions = [_question(row, form) for row in rows]
    if len({question.id for question in questions}) < len(questions):
        raise DatasetInvalid(f"{path}: an identifier comes twice in a set")
    order = {name: place for place, name in enumerate(SETS)}
    return sorted(questions, key=lambda q: (order.get(q.group, len(order)), q.group, q.id))


def select(questions: Iterable[Question], sets: Sequence[str] = (), limit: int | None = None) -> list[Question]:
    """``limit``: of each set, the same ones at every call, and all of a smaller limit's among those of a larger one.

    Raises:
        DatasetInvalid: a set is not there.
    """
    by_set: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        by_set[question.group].append(question)
    if missing := [name for name in sets if name not in by_set]:
        raise DatasetInvalid(f"no such set: {', '.join(missing)}; there are {', '.join(by_set)}")
    chosen = {name: _some(by_set[name], limit) for name in (sets or by_set)}
    return [question for group in chosen.values() for question in group]


def put(question: str, options: dict[str, str]) -> str:
    """The question on one line, then each choice on one of its own: a line break inside would look like a choice."""
    lines = [f"{letter}. {_one_line(text)}" for letter, text in options.items()]
    return "\n".join([_one_line(question), *lines])


def messages(text: str, form: Form) -> tuple[Message, ...]:
    system = ({"role": "system", "content": _INSTRUCTIONS[form]},) if form in _INSTRUCTIONS else ()
    return (*system, {"role": "user", "content": text})


def _rows(content: bytes) -> Iterator[dict[str, Any]]:
    try:
        whole = json.loads(content)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and "dataset" not in whole:
        for name, questions in whole.items():
            for identifier, row in questions.items():
                yield {"dataset": name, "id": identifier, **row}
        return
    for line in content.splitlines():
        if line.strip():
            yield json.loads(line)


def _question(row: dict[str, Any], form: Form) -> Question:
    try:
        options = {str(letter): str(text) for letter, text in row["options"].items()}
        if list(options) != [chr(65 + place) for place in range(len(options))] or row["answer"] not in options:
            raise DatasetInvalid(f"{row['dataset']}/{row['id']}: choices {list(options)}, key {row['answer']!r}")
        text = str(row["question"])
        return Question(
            id=f"{row['dataset']}/{row['id']}",
            group=str(row["dataset"]),
            text=text,
            key=row["answer"],
            options=options,
            messages=messages(put(text, options), form),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetInvalid(f"a question without {error}") from error


def _some(questions: list[Question], limit: int | None) -> list[Question]:
    if limit is None or limit >= len(questions):
        return questions
    by_chance = sorted(questions, key=lambda q: hashlib.sha256(q.id.encode()).digest())
    chosen = {question.id for question in by_chance[:limit]}
    return [question for question in questions if question.id in chosen]


def _one_line(text: str) -> str:
    return " ".join(text.split())
