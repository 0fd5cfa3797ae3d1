"""Ask a served model a fixed list of questions of ten kinds, and tell which answers can be relied on.

    python scripts/evals/answers.py --base-url http://127.0.0.1:8000/v1 --model NAME --out runs/answers

The questions and what is expected are scripts/evals/questions/answers.jsonl. MedRAG and i-MedRAG read the notes beside
it, from a namespace that is made for the run and removed afterwards. The same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of, records_of, target_of
from scripts.evals.harness.errors import DatasetInvalid, EvalError
from scripts.evals.harness.records import Record, Reply, digest_of
from scripts.evals.harness.tables import markdown_table, print_plain, share_cell
from scripts.evals.outcomes.items import (
    FILE,
    KINDS,
    NO_REPLY,
    NOTES,
    PASSAGE_METHODS,
    Item,
    documents_in,
    load,
    temporary_namespace,
)
from scripts.evals.outcomes.judging import Verdict, judge
from server.methods.base import METHOD_NAMES

TIMEOUT_S: Final = 25.0
_ENDED_EARLY: Final = (1, 130)
_SHOWN_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Judged:
    """One question, asked of one method."""

    method: str
    item: Item
    reply: Reply
    verdict: Verdict

    @property
    def gravity(self) -> int:
        """0 for an answer that is right and has nothing made up in it."""
        verdict = self.verdict
        made_up = 20 * len(verdict.unmarked) + 10 * len(verdict.false_quotes) + 5 * len(verdict.wrong_citations)
        return 100 * verdict.confidently_wrong + made_up + 2 * (not verdict.is_right) + verdict.is_empty


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
    by_id = {item.id: item for item in items}

    def is_right(record: Record) -> float:
        return float(judge(by_id[record.question.id], record.reply).is_right)

    code = 0
    needs_notes = not PASSAGE_METHODS.isdisjoint(args.method)
    notes = temporary_namespace(target_of(args), documents_in(args.notes)) if needs_notes else nullcontext("")
    with notes as namespace:
        for method in args.method:
            reads = method in PASSAGE_METHODS
            questions = [item.question(namespace, reads) for item in items if method in item.methods]
            wanted = {item.id for item in chosen(items, method, args.kind, args.limit)}
            asked = [question for question in questions if question.id in wanted]
            evaluation = Evaluation(name="answers", dataset=digest_of(questions), questions=asked, score=is_right)
            own = vars(args) | {"model": f"{args.model}:{method}", "out": args.out / f"{method}.jsonl"}
            code = max(code, execute(plan_of(argparse.Namespace(**own), evaluation), console))
            if code:
                break
    return code


def judged_of(args: argparse.Namespace, items: Sequence[Item]) -> list[Judged]:
    """All records of the chosen questions. Raises EvalError."""
    judged: list[Judged] = []
    for method in args.method:
        path = args.out / f"{method}.jsonl"
        wanted = {item.id: item for item in chosen(items, method, args.kind, args.limit)}
        records = records_of(path, [item.question("", False) for item in wanted.values()]) if path.exists() else []
        for record in records:
            item = wanted[record.question.id]
            judged.append(Judged(method, item, record.reply, judge(item, record.reply)))
    return judged


def row_of(judged: Sequence[Judged]) -> dict[str, Any]:
    """Counts over at least one answer; ``unsupported`` and ``unmarked`` are of identifiers."""
    verdicts = [one.verdict for one in judged]
    seconds = sorted(one.reply.seconds for one in judged)
    return {
        "n": len(judged),
        "outcome expected": sum(verdict.outcome_expected for verdict in verdicts),
        "right": sum(verdict.is_right for verdict in verdicts),
        "confident wrong": sum(verdict.confidently_wrong for verdict in verdicts),
        "unsupported": sum(len(verdict.unsupported) for verdict in verdicts),
        "unmarked": sum(len(verdict.unmarked) for verdict in verdicts),
        "citations": sum(verdict.citations for verdict in verdicts),
        "wrong citations": sum(len(verdict.wrong_citations) for verdict in verdicts),
        "quotes": sum(verdict.quotes for verdict in verdicts),
        "false quotes": sum(len(verdict.false_quotes) for verdict in verdicts),
        "empty": sum(verdict.is_empty for verdict in verdicts),
        "no reply": sum(verdict.outcome == NO_REPLY for verdict in verdicts),
        "median s": quantile(seconds, 0.5),
        "p95 s": quantile(seconds, 0.95),
        "max s": seconds[-1],
        "outcomes": dict(Counter(verdict.outcome for verdict in verdicts)),
    }


def quantile(ordered: Sequence[float], share: float) -> float:
    """The least value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(judged: Sequence[Judged]) -> dict[str, dict[str, dict[str, Any]]]:
    """By method, then by kind, with a row for all kinds; ``all`` is also a method where there are several."""
    methods = list(dict.fromkeys(one.method for one in judged))
    groups = {method: [one for one in judged if one.method == method] for method in methods}
    groups |= {"all": list(judged)} if len(methods) > 1 else {}
    return {
        method: {
            kind: row_of(ones)
            for kind in (*KINDS, "all")
            if (ones := [one for one in of_method if kind in ("all", one.item.kind)])
        }
        for method, of_method in groups.items()
    }


def table_of(rows: dict[str, dict[str, Any]]) -> str:
    counts = ("confident wrong", "unsupported", "unmarked", "wrong citations", "false quotes", "empty", "no reply")
    columns = ("kind", "n", "outcome expected", "right", *counts, "median s", "p95 s", "max s")
    lines = []
    for kind, row in rows.items():
        shares = (share_cell(row[name] / row["n"], row["n"]) for name in ("outcome expected", "right"))
        of = {"wrong citations": f"/{row['citations']}", "false quotes": f"/{row['quotes']}"}
        cells = (f"{row[name]}{of.get(name, '')}" for name in counts)
        lines.append((kind, str(row["n"]), *shares, *cells, *(f"{row[name]:.1f}" for name in columns[-3:])))
    return markdown_table(columns, lines)


def failure_lines(one: Judged) -> str:
    """A few lines for a person: what was asked, expected and told."""
    verdict = one.verdict
    named = {"unmarked": verdict.unmarked, "wrong citations": verdict.wrong_citations, "quotes": verdict.false_quotes}
    head = f"{one.method} {one.item.id}: {verdict.outcome}, expected {' or '.join(sorted(one.item.expected))}"
    marks = [head + (" - CONFIDENTLY WRONG" if verdict.confidently_wrong else ""), f"{one.reply.seconds:.1f} s"]
    marks += [f"{name}: {', '.join(values)}" for name, values in named.items() if values]
    told = one.reply.text or str((one.reply.error or {}).get("message", ""))
    return f"{'; '.join(marks)}\n  Q: {_short(one.item.text)}\n  A: {_short(told)}"


def _short(text: str) -> str:
    """Its end where it is long, where the last question stands."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS // 2]} … {line[-_SHOWN_CHARS // 2 :]}"


def show(judged: Sequence[Judged], args: argparse.Namespace, console: Console) -> None:
    summary = summarise(judged)
    for method, rows in summary.items():
        counted = ", ".join(f"{name} {number}" for name, number in sorted(rows["all"]["outcomes"].items()))
        print_plain(console, f"\n{method} ({counted})\n\n{table_of(rows)}")
    worst = sorted((one for one in judged if one.gravity), key=lambda one: -one.gravity)
    if args.failures and worst:
        print_plain(console, f"\n{len(worst)} answers with failures, the worst first:")
        for one in worst[: args.failures]:
            print_plain(console, failure_lines(one))
    if args.json:
        failures = [
            {"method": one.method, "id": one.item.id, "text": one.reply.text} | asdict(one.verdict) for one in worst
        ]
        told = {"methods": summary, "failures": failures}
        args.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_endpoint_arguments(parser, model="arrowhead-small", out=Path("runs/answers"))
    # One question at a time: the times are those of an idle server, and the slowest of them are told.
    parser.set_defaults(concurrency=1, timeout=TIMEOUT_S, retries=1, max_failures=10_000)
    parser.add_argument("--method", action="append", choices=METHOD_NAMES, help="by default all that have questions")
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
        args.method = [method for method in args.method if chosen(items, method, args.kind, args.limit)]
        if not args.method:
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
