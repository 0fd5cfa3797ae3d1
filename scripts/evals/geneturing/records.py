"""Read the questions of GeneTuring and GeneHop, and score their records. Pure except for reading the file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.evals.graph_files import rows_of
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Question, Record
from scripts.evals.scoring import normalised_score, strict_score


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Means over the questions of a task; a failed request scores 0."""

    number: int
    normalised: float
    strict: float


def load(path: Path) -> list[Question]:
    """Raises DatasetInvalid."""
    seen: Counter[tuple[str, str]] = Counter()
    questions = []
    try:
        for row in rows_of(path):
            place = (str(row["set"]), str(row["task"]))
            seen[place] += 1
            questions.append(
                Question(
                    id=f"{place[0]}/{place[1]}/{seen[place]:04d}",
                    group=place[1],
                    text=row["question"],
                    key=row["answer"],
                    messages=({"role": "user", "content": row["question"]},),
                    meta={"set": place[0], "task": place[1]},
                )
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetInvalid(f"{path}: {error!r}") from error
    return questions


def answer_of(record: Record) -> str:
    """The bare answer the server marks; else the text after the last "Answer:"; else the content."""
    marked = record.reply.marked_answer
    if marked is not None:
        return marked
    content = record.reply.text.rsplit("Answer:", 1)[-1]
    return content.strip().split("\n\n")[0].strip()


def normalised(record: Record) -> float:
    return normalised_score(record.question.meta["task"], record.question.key, answer_of(record))


def strict(record: Record) -> float:
    return strict_score(record.question.meta["task"], record.question.key, answer_of(record))


def summarise(records: Iterable[Record]) -> dict[str, dict[str, TaskScore]]:
    """By set and task, both in the order of the alphabet."""
    grouped: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        scores = (0.0, 0.0) if record.failed else (normalised(record), strict(record))
        grouped[record.question.meta["set"]][record.question.meta["task"]].append(scores)
    return {
        name: {task: _mean(rows) for task, rows in sorted(tasks.items())} for name, tasks in sorted(grouped.items())
    }


def _mean(rows: Sequence[tuple[float, float]]) -> TaskScore:
    number = len(rows)
    return TaskScore(number, sum(row[0] for row in rows) / number, sum(row[1] for row in rows) / number)
