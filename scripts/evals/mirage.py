"""Evaluate MIRAGE through an OpenAI-compatible endpoint.

    python scripts/evals/mirage.py benchmark.json --model NAME:medrag --options '{"k": 16}' --out runs/medrag.jsonl
    python scripts/evals/mirage.py benchmark.json --model NAME --ask cot --base-url http://127.0.0.1:8000/v1

Questions: MIRAGE's benchmark.json, {dataset: {id: {"question", "options", "answer"}}}, or JSON Lines of the same with
"dataset" and "id". Every record is written to --out at once; the same command resumes after a kill.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.choices import mirage_letter, read_choice
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, evaluate
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.intervals import wilson
from scripts.evals.harness.records import Message, Question, Record, digest_of, rows_of
from scripts.evals.harness.tables import interval_cell, markdown_table, share_cell

SETS: Final = ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")
Form = Literal["plain", "direct", "cot"]
FORMS: Final[tuple[Form, ...]] = ("plain", "direct", "cot")
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
    questions = [_question(row, form) for row in _rows(path)]
    if len({question.id for question in questions}) < len(questions):
        raise DatasetInvalid(f"{path}: an identifier comes twice in a set")
    return sorted(questions, key=lambda q: (_place(q.group), q.group, q.id))


def _place(name: str) -> int:
    return SETS.index(name) if name in SETS else len(SETS)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix != ".json":
        yield from rows_of(path)
        return
    try:
        for name, questions in json.loads(path.read_text(encoding="utf-8")).items():
            yield from ({"dataset": name, "id": identifier, **row} for identifier, row in questions.items())
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error


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


def put(question: str, options: dict[str, str]) -> str:
    """The question on one line, then each choice on one of its own: a line break inside would look like a choice."""
    lines = [f"{letter}. {' '.join(text.split())}" for letter, text in options.items()]
    return "\n".join([" ".join(question.split()), *lines])


def messages(text: str, form: Form) -> tuple[Message, ...]:
    system = ({"role": "system", "content": _INSTRUCTIONS[form]},) if form in _INSTRUCTIONS else ()
    return (*system, {"role": "user", "content": text})


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
    chosen: list[Question] = []
    for name in sets or by_set:
        by_chance = sorted(by_set[name], key=lambda q: hashlib.sha256(q.id.encode()).digest())
        taken = {question.id for question in by_chance[:limit]}
        chosen += [question for question in by_set[name] if question.id in taken]
    return chosen


def letter_of(record: Record) -> str | None:
    """Of the answer that the server marks; of the reply's text where it marks none."""
    # A marked answer that says "none of these" is not overruled by its explanation.
    return read_choice(record.reply.marked_answer or record.reply.text, record.question.options)


def strict(record: Record) -> float:
    """1 where the reply says the key's letter or choice, and no other."""
    return float(letter_of(record) == record.question.key)


def lenient(record: Record) -> float:
    """As MIRAGE scores. Handed to it is the letter of an answer that the server marks, else the text as it came."""
    reply = record.reply
    is_marked = reply.marked_answer is not None and reply.marked_answer.strip() != reply.text.strip()
    marked = letter_of(record) if is_marked else None
    return float((marked or mirage_letter(reply.text)) == record.question.key)


def summarise(records: Iterable[Record]) -> list[dict[str, Any]]:
    """A row for each set, then the unweighted mean over them, MIRAGE's official score.

    ``replies`` are without failed requests, which are in no share; ``constant`` is the score of always naming the
    letter that is most often right.
    """
    by_set: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_set[record.question.group].append(record)
    rows = [_row(name, by_set[name]) for name in sorted(by_set, key=lambda name: (_place(name), name))]
    known = [row for row in rows if row["replies"]]
    totals = {name: sum(row[name] for row in rows) for name in ("replies", "failed", "unanswered")}
    shares = ("strict", "lenient", "constant")
    means = {name: fmean(row[name] for row in known) if known else 0.0 for name in shares}
    return [*rows, {"set": "macro mean", **totals, **means}]


def _row(name: str, records: Sequence[Record]) -> dict[str, Any]:
    replies = [record for record in records if not record.failed]
    right, total = sum(map(strict, replies)), max(1, len(replies))
    interval = wilson(right, len(replies))
    keys = Counter(record.question.key for record in replies)
    return {
        "set": name,
        "replies": len(replies),
        "failed": len(records) - len(replies),
        "unanswered": sum(letter_of(record) is None for record in replies),
        "strict": right / total,
        "strict_95": [interval.low, interval.high],
        "lenient": sum(map(lenient, replies)) / total,
        "constant": max(keys.values(), default=0) / total,
        "median_seconds": median(record.reply.seconds for record in replies) if replies else 0.0,
    }


def table(summary: Sequence[dict[str, Any]]) -> str:
    columns = ("set", "replies", "failed", "unanswered", "accuracy", "95 %", "MIRAGE's way", "one letter", "median s")
    rows = []
    for row in summary:
        total, is_set = row["replies"], "strict_95" in row
        shares = [share_cell(row[name], total) for name in ("strict", "lenient", "constant")]
        interval = interval_cell(row["strict_95"], total) if is_set else ""
        seconds = f"{row['median_seconds']:.1f}" if is_set else ""
        counts = (str(row[name]) for name in ("replies", "failed", "unanswered"))
        rows.append((row["set"], *counts, shares[0], interval, *shares[1:], seconds))
    return markdown_table(columns, rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--datasets", type=lambda text: text.split(","), default=[], help="medqa,mmlu; by default all")
    parser.add_argument("--limit", type=int, help="questions of each set, chosen by chance and always the same")
    parser.add_argument("--ask", choices=FORMS, help="by default plain for MODEL:METHOD and direct for a bare model")
    add_endpoint_arguments(parser, model="arrowhead-small:medrag", out=Path("runs/mirage.jsonl"))
    args = parser.parse_args(argv)
    form: Form = args.ask or ("plain" if ":" in args.model else "direct")

    def evaluation() -> Evaluation:
        everything = load(args.questions, form)
        asked = select(everything, args.datasets, args.limit)
        return Evaluation(name="mirage", dataset=digest_of(everything), questions=asked, score=strict, form=form)

    return evaluate(args, evaluation, lambda records: table(summarise(records)))


if __name__ == "__main__":
    sys.exit(main())
