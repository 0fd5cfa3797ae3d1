"""Evaluate MIRAGE through an OpenAI-compatible endpoint.

    python scripts/evals/mirage/run.py benchmark.json --model NAME:medrag --options '{"k": 16}' --out runs/medrag.jsonl
    python scripts/evals/mirage/run.py benchmark.json --model NAME --ask cot --base-url http://127.0.0.1:8000/v1
    python scripts/evals/mirage/run.py benchmark.json --predictions prediction/medqa/cot/OpenAI/gpt-4 --datasets medqa

Questions: MIRAGE's benchmark.json, or JSON Lines with "dataset" and "id". Every record is written to --out at once; the
same command resumes after a kill. --predictions scores a folder of published prediction files instead of asking.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of
from scripts.evals.harness.errors import EvalError
from scripts.evals.harness.records import Question, Record, Reply, digest_of
from scripts.evals.harness.run_file import last_records
from scripts.evals.harness.tables import interval_cell, markdown_table, print_plain, share_cell
from scripts.evals.mirage.data import FORMS, Form, load, select
from scripts.evals.mirage.scoring import strict, summarise


def evaluation_of(path: Path, sets: Sequence[str], limit: int | None, form: Form) -> Evaluation:
    """Raises DatasetInvalid."""
    everything = load(path, form)
    chosen = select(everything, sets, limit)
    return Evaluation(name="mirage", dataset=digest_of(everything), questions=chosen, score=strict, form=form)


def form_of(given: Form | None, model: str) -> Form:
    """A method has prompts of its own; a bare model is told what to reply."""
    return given or ("plain" if ":" in model else "direct")


def records_of_run(path: Path, questions: Iterable[Question]) -> Iterator[Record]:
    """Those of these questions, one at a time."""
    wanted = {question.id for question in questions}
    return (record for record in last_records(path) if record.question.id in wanted)


def records_of_predictions(folder: Path, questions: Iterable[Question]) -> Iterator[Record]:
    """MIRAGE's published files, {split}_{id}.json: a list of texts that a model wrote, of which the first counts.

    A file without one, or that is cut off, is an empty reply, which is wrong, as the published evaluation counts it.
    """
    for question in questions:
        name = question.id.partition("/")[2]
        file = next((path for split in ("test", "dev") if (path := folder / f"{split}_{name}.json").exists()), None)
        if file is not None:
            yield Record(question, Reply(text=_first_text(file)))


def _first_text(file: Path) -> str:
    try:
        texts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(texts[0]) if isinstance(texts, list) and texts and texts[0] is not None else ""


def print_summary(summary: dict[str, Any], console: Console) -> None:
    columns = ("set", "replies", "failed", "unanswered", "accuracy", "95 %", "MIRAGE's way", "one letter", "median s")
    rows = []
    for row in [*summary["sets"], summary["macro"], summary["micro"]]:
        letter = f" ({row['always']})" if "always" in row else ""
        rows.append(
            (
                row["set"],
                str(row["replies"]),
                str(row["failed"]),
                str(row["unanswered"]),
                share_cell(row["strict"], row["replies"]),
                interval_cell(row["strict_95"], row["replies"]),
                share_cell(row["lenient"], row["replies"]),
                share_cell(row["always_score"], row["replies"]) + letter,
                f"{row['median_seconds']:.2f}" if "median_seconds" in row else "",
            )
        )
    print_plain(console, markdown_table(columns, rows))


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--datasets", type=lambda text: text.split(","), default=[], help="medqa,mmlu; by default all")
    parser.add_argument("--limit", type=int, help="questions of each set, chosen by chance and always the same")
    parser.add_argument(
        "--ask", choices=FORMS, help="how; by default plain for MODEL:METHOD and direct for a bare model"
    )
    parser.add_argument("--predictions", type=Path, help="score this folder of published predictions; asks nothing")
    parser.add_argument("--json", type=Path, help="write the summary there")
    add_endpoint_arguments(parser, model="arrowhead-small:medrag", out=Path("runs/mirage.jsonl"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args, console = parser_of().parse_args(argv), Console()
    try:
        evaluation = evaluation_of(args.questions, args.datasets, args.limit, form_of(args.ask, args.model))
        code = 0 if args.predictions else execute(plan_of(args, evaluation), console, "MIRAGE")
        if code == 2:
            return code
        asked = evaluation.questions
        summary = summarise(
            records_of_predictions(args.predictions, asked) if args.predictions else records_of_run(args.out, asked)
        )
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2
    print_summary(summary, console)
    have = summary["micro"]["replies"] + summary["micro"]["failed"]
    if have < len(asked):
        print_plain(console, f"{have} of {len(asked)} questions have a record", "red")
    if args.json:
        args.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
