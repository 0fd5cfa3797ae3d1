"""Read KG-RAG's question sets and build their messages.

Each set is a JSON Lines file NAME.jsonl, NAME_dev.jsonl or NAME_test.jsonl with the columns of the published tables.
dataset_for_entity_retrieval_accuracy_analysis contains no questions; scripts/evals/kg/linking.py measures it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from scripts.evals.graph_files import Row, rows_of
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Message, Question

# method: form and choices as options of KG-RAG; plain: in the text alone; direct: with an instruction for a bare model.
Form = Literal["method", "plain", "direct"]
FORMS: Final[tuple[Form, ...]] = ("method", "plain", "direct")
_INSTRUCTIONS: Final[Mapping[str, str]] = {
    "multiple_choice": (
        "Answer the biomedical question with exactly one item of the list that it gives, and write nothing else. "
        'If no item is right or you cannot know, write "none of these".'
    ),
    "true_false": 'Is the biomedical statement true? Write only True or False, or "unknown" if you cannot know.',
    "p_value": "Answer the biomedical question in one sentence that names the gene and gives the GWAS p-value.",
    "nodes": "Answer the biomedical question with a list of names, separated by commas, and nothing else.",
}


def load(folder: Path, form: Form) -> dict[str, tuple[list[Row], list[Question]]]:
    """By set: the rows of its file and the questions that they ask.

    Raises:
        DatasetInvalid: no set in the folder, or a row that is not of its set.
    """
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        name = re.sub(r"_(dev|test)$", "", path.stem)
        if name not in _READERS:
            continue
        try:
            rows = list(rows_of(path))
            questions = [question for place, row in enumerate(rows) for question in _READERS[name](place, row, form)]
        except (OSError, KeyError, ValueError, SyntaxError, TypeError) as error:
            raise DatasetInvalid(f"{path}: {error!r}") from error
        found[name] = (rows, questions)
    if not found:
        raise DatasetInvalid(f"{folder}: none of {', '.join(_READERS)}")
    return found


def limited(questions: Iterable[Question], rows: int | None) -> list[Question]:
    """Those of the first ``rows`` rows."""
    return [question for question in questions if rows is None or question.meta["row"] < rows]


def _multiple_choice(place: int, row: Row, form: Form) -> Iterator[Question]:
    key = str(row["correct_node"]).strip()
    # Published lists repeat a choice now and then.
    choices = list(dict.fromkeys(part.strip() for part in row["options_combined"].split(",") if part.strip()))
    if key not in choices:
        raise ValueError(f"row {place}: the key {key!r} is none of the choices")
    yield Question(
        id=f"mcq_questions/{place:04d}",
        group="mcq_questions",
        text=row["text"],
        key=key,
        options={choice: choice for choice in choices},
        messages=_messages(row["text"], "multiple_choice", form),
        arrowhead={"form": "multiple_choice", "choices": choices} if form == "method" else {},
        meta={"row": place, "kind": "multiple_choice"},
    )


def _true_false(place: int, row: Row, form: Form) -> Iterator[Question]:
    key = str(row["label"]).strip().capitalize()
    if key not in ("True", "False"):
        raise ValueError(f"row {place}: the label {key!r}")
    text = row["text"] if form == "method" else f"{row['text'].rstrip('.')}. True or false?"
    yield Question(
        id=f"true_false_questions/{place:04d}",
        group="true_false_questions",
        text=row["text"],
        key=key,
        options={"True": "True", "False": "False"},
        messages=_messages(text, "true_false", form),
        arrowhead={"form": "true_false"} if form == "method" else {},
        meta={"row": place, "kind": "true_false"},
    )


def _p_value(place: int, row: Row, form: Form) -> Iterator[Question]:
    float(row["gwas_pvalue"])
    for version, column in (("original", "question"), ("perturbed", "question_perturbed")):
        yield Question(
            id=f"rag_comparison_data/{version}/{place:04d}",
            group=f"rag_comparison_data, {version}",
            text=row[column],
            key={"gene": row["gene_name"], "p_value": row["gwas_pvalue"]},
            messages=_messages(row[column], "p_value", form),
            arrowhead={"form": "general"} if form == "method" else {},
            meta={"row": place, "kind": "p_value", "version": version},
        )


def _one_disease(place: int, row: Row, form: Form) -> Iterator[Question]:
    key = {column: _items(row[column]) for column in ("Compounds", "Diseases")}
    yield _nodes(place, "single_disease_entity_prompts", row["text"], key, form)


def _two_diseases(place: int, row: Row, form: Form) -> Iterator[Question]:
    match = re.match(r"What are the (\w+)", row["text"])
    kind = match[1] if match else "nodes"
    yield _nodes(place, "two_disease_entity_prompts", row["text"], {kind: _items(row["central_nodes"])}, form)


def _nodes(place: int, name: str, text: str, key: Mapping[str, Sequence[str]], form: Form) -> Question:
    return Question(
        id=f"{name}/{place:04d}",
        group=name,
        text=text,
        key=dict(key),
        messages=_messages(text, "nodes", form),
        arrowhead={"form": "general"} if form == "method" else {},
        meta={"row": place, "kind": "nodes"},
    )


def _messages(text: str, kind: str, form: Form) -> tuple[Message, ...]:
    system = ({"role": "system", "content": _INSTRUCTIONS[kind]},) if form == "direct" else ()
    return (*system, {"role": "user", "content": text})


def _items(text: str) -> list[str]:
    """A list as Python prints it."""
    value: Any = ast.literal_eval(text)
    if not isinstance(value, list):
        raise ValueError(f"{text[:40]!r} is no list")
    return list(dict.fromkeys(str(item) for item in value))


_READERS: Final[dict[str, Callable[[int, Row, Form], Iterator[Question]]]] = {
    "mcq_questions": _multiple_choice,
    "true_false_questions": _true_false,
    "rag_comparison_data": _p_value,
    "single_disease_entity_prompts": _one_disease,
    "two_disease_entity_prompts": _two_diseases,
}
SETS: Final = tuple(_READERS)
