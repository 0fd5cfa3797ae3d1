"""Evaluate GeneTuring and GeneHop through an OpenAI-compatible endpoint.

    python scripts/evals/geneturing/run.py QUESTIONS.jsonl --base-url http://127.0.0.1:8000/v1 --model NAME:genegpt

Each line of the questions file: {"set", "task", "question", "answer"}. Prints a table per task with the normalised and
the strict score, and writes every question, answer and trace to --out (one JSON line each; an interrupted run resumes).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.evals.geneturing.records import TaskScore, load, normalised, summarise
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of
from scripts.evals.harness.errors import DatasetInvalid, EvalError
from scripts.evals.harness.records import Record, digest_of
from scripts.evals.harness.run_file import last_records


def evaluation_of(path: Path, tasks: Sequence[str]) -> Evaluation:
    """Raises DatasetInvalid."""
    everything = load(path)
    chosen = [question for question in everything if not tasks or question.group in tasks]
    if not chosen:
        raise DatasetInvalid("no question matches")
    return Evaluation(name="geneturing", dataset=digest_of(everything), questions=chosen, score=normalised)


def print_table(summary: dict[str, dict[str, TaskScore]], records: Sequence[Record], console: Console) -> None:
    for name, tasks in summary.items():
        table = Table("task", "n", "normalised", "strict", title=name)
        for task, row in tasks.items():
            table.add_row(task, str(row.number), f"{row.normalised:.3f}", f"{row.strict:.3f}")
        rows = list(tasks.values())
        table.add_row(
            "macro mean",
            str(sum(row.number for row in rows)),
            f"{sum(row.normalised for row in rows) / len(rows):.3f}",
            f"{sum(row.strict for row in rows) / len(rows):.3f}",
            style="bold",
        )
        console.print(table)
    failed = sum(record.failed for record in records)
    seconds = sorted(record.reply.seconds for record in records)
    console.print(f"{len(records)} questions, {failed} failed requests, median {seconds[len(seconds) // 2]:.2f} s each")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--task", action="append", help="only this task (may be given several times)")
    add_endpoint_arguments(parser, model="arrowhead-small:genegpt", out=Path("runs/geneturing.jsonl"))
    args, console = parser.parse_args(argv), Console()
    try:
        evaluation = evaluation_of(args.questions, args.task or ())
        code = execute(plan_of(args, evaluation), console)
        if code == 2:
            return code
        wanted = {question.id for question in evaluation.questions}
        records = [record for record in last_records(args.out) if record.question.id in wanted]
    except EvalError as error:
        console.print(str(error), style="red", markup=False)
        return 2
    if records:
        print_table(summarise(records), records, console)
    return code


if __name__ == "__main__":
    sys.exit(main())
