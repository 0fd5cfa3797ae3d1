"""Ask a served model a fixed list of questions of ten kinds, and tell which answers can be relied on.

    python scripts/evals/answers.py --base-url http://127.0.0.1:8000/v1 --model NAME --out runs/answers

The questions and what is expected are scripts/evals/questions/answers.jsonl. MedRAG and i-MedRAG read the notes beside
it, from a namespace that is made for the run and removed afterwards. The same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of, target_of
from scripts.evals.harness.errors import DatasetInvalid, EvalError
from scripts.evals.harness.records import Question, Record, digest_of
from scripts.evals.harness.run_file import last_records
from scripts.evals.harness.tables import print_plain
from scripts.evals.outcomes.items import FILE, KINDS, NOTES, PASSAGE_METHODS, Item, load
from scripts.evals.outcomes.judging import judge
from scripts.evals.outcomes.notes import temporary_namespace
from scripts.evals.outcomes.summary import Judged, failure_lines, failures, json_summary, summarise, table_of
from server.methods.base import METHOD_NAMES

TIMEOUT_S: Final = 25.0
_ENDED_EARLY: Final = (1, 130)


def chosen(items: Sequence[Item], method: str, kinds: Sequence[str], limit: int | None) -> list[Item]:
    """The method's items of these kinds, all where none are named; at most ``limit`` of each kind, the first ones."""
    taken: Counter[str] = Counter()
    picked = []
    for item in items:
        if method in item.methods and (not kinds or item.kind in kinds) and (not limit or taken[item.kind] < limit):
            taken[item.kind] += 1
            picked.append(item)
    return picked


def ask(args: argparse.Namespace, items: Sequence[Item], console: Console) -> int:
    """Ask each method's questions in turn. Raises EvalError."""
    code = 0
    needs_notes = not PASSAGE_METHODS.isdisjoint(args.method)
    with temporary_namespace(target_of(args), args.notes) if needs_notes else nullcontext("") as namespace:
        for method in args.method:
            questions = _questions(items, method, namespace)
            wanted = {item.id for item in chosen(items, method, args.kind, args.limit)}
            evaluation = Evaluation(
                name="answers",
                dataset=digest_of(questions),
                questions=[question for question in questions if question.id in wanted],
                score=_Scorer(items),
            )
            own = argparse.Namespace(**{**vars(args), "model": f"{args.model}:{method}", "out": _path(args, method)})
            code = max(code, execute(plan_of(own, evaluation), console, method))
            if code:
                break
    return code


def _questions(items: Sequence[Item], method: str, namespace: str) -> list[Question]:
    return [item.question(namespace, method in PASSAGE_METHODS) for item in items if method in item.methods]


def _path(args: argparse.Namespace, method: str) -> Path:
    folder: Path = args.out
    return folder / f"{method}.jsonl"


class _Scorer:
    """1 for a right answer, for the progress line alone."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = {item.id: item for item in items}

    def __call__(self, record: Record) -> float:
        return float(judge(self._items[record.question.id], record.reply).is_right)


def judged_of(args: argparse.Namespace, items: Sequence[Item]) -> list[Judged]:
    """All records of the chosen questions. Raises EvalError."""
    judged: list[Judged] = []
    for method in args.method:
        if not (path := _path(args, method)).exists():
            continue
        wanted = {item.id: item for item in chosen(items, method, args.kind, args.limit)}
        found = ((wanted.get(record.question.id), record.reply) for record in last_records(path))
        judged.extend(Judged(method, item, reply, judge(item, reply)) for item, reply in found if item)
    return judged


def show(judged: Sequence[Judged], args: argparse.Namespace, console: Console) -> None:
    for method, rows in summarise(judged).items():
        counted = ", ".join(f"{name} {number}" for name, number in sorted(rows["all"].outcomes.items()))
        print_plain(console, f"\n{method} ({counted})\n\n{table_of(rows)}")
    worst = failures(judged)
    if args.failures and worst:
        print_plain(console, f"\n{len(worst)} answers with failures, the worst first:")
        for one in worst[: args.failures]:
            print_plain(console, failure_lines(one))
    if args.json:
        args.json.write_text(json.dumps(json_summary(judged), indent=1, ensure_ascii=False) + "\n")


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_endpoint_arguments(parser, model="arrowhead-small", out=Path("runs/answers"))
    # One question at a time: the times are those of an idle server, and the slowest of them are told.
    parser.set_defaults(concurrency=1, timeout=TIMEOUT_S, retries=1, max_failures=10_000)
    parser.add_argument("--method", action="append", choices=METHOD_NAMES, help="by default all four")
    parser.add_argument("--kind", action="append", choices=KINDS, help="by default all ten")
    parser.add_argument("--limit", type=int, help="questions of each kind and method")
    parser.add_argument("--questions", type=Path, default=FILE)
    parser.add_argument("--notes", type=Path, default=NOTES, help="folder of the notes that MedRAG reads")
    parser.add_argument("--failures", type=int, default=20, metavar="N", help="show the N worst answers")
    parser.add_argument("--score-only", action="store_true", help="judge the records that are there, ask nothing")
    parser.add_argument("--json", type=Path, help="also write the counts and all failures here")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args, console = parser_of().parse_args(argv), Console()
    args.method, args.kind = args.method or list(METHOD_NAMES), args.kind or []
    try:
        items = load(args.questions)
        if not any(chosen(items, method, args.kind, args.limit) for method in args.method):
            raise DatasetInvalid("no question matches")
        code = 0 if args.score_only else ask(args, items, console)
        if code and code not in _ENDED_EARLY:
            return code
        judged = judged_of(args, items)
    except EvalError as error:
        print_plain(console, f"{error.message}. {error.hint}" if error.hint else error.message, "red")
        return 2
    if judged:
        show(judged, args, console)
    return code


if __name__ == "__main__":
    sys.exit(main())
