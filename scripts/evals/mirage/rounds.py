"""Measure i-MedRAG's accuracy over rounds of follow-up queries, one line for each number of queries in a round.

    python scripts/evals/mirage/rounds.py benchmark.json --model NAME:i-medrag --rounds 1,2,3,4 --queries 1,2,3 \
        --datasets medqa,mmlu --limit 100 --options '{"stop": "fixed"}' --folder runs/rounds

The grid of Xiong et al. 2024 (i-MedRAG), figure 3. Each cell is a run of its own in the folder, with the options
"rounds" and "queries"; without "stop": "fixed" a question may end after fewer. The same command resumes after a kill.
Then it writes rounds.json and rounds.png. Intervals: Wilson, 95 %. All cells ask the same questions, so compare two of
them with compare_runs.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.evals.harness.command import add_endpoint_arguments, execute, plan_of, with_options
from scripts.evals.harness.errors import EvalError
from scripts.evals.harness.tables import print_plain
from scripts.evals.mirage.data import FORMS
from scripts.evals.mirage.run import evaluation_of, form_of, print_summary, records_of_run
from scripts.evals.mirage.scoring import summarise


@dataclass(frozen=True, slots=True)
class Cell:
    rounds: int
    queries: int
    summary: dict[str, Any]


def points(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """One row for each set and cell, sets of a dataset together: what the figure shows."""
    rows = [
        {
            "set": row["set"],
            "rounds": cell.rounds,
            "queries": cell.queries,
            "accuracy": row["strict"],
            "low": row["strict_95"][0],
            "high": row["strict_95"][1],
            "replies": row["replies"],
            "failed": row["failed"],
        }
        for cell in cells
        for row in cell.summary["sets"]
        if row["replies"]
    ]
    return sorted(rows, key=lambda row: (row["set"], row["queries"], row["rounds"]))


def plot(rows: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    sets = list(dict.fromkeys(row["set"] for row in rows))
    figure, panels = pyplot.subplots(1, len(sets), figsize=(1 + 4 * len(sets), 3.6), squeeze=False)
    for axes, name in zip(panels[0], sets, strict=True):
        own = [row for row in rows if row["set"] == name]
        for place, queries in enumerate(dict.fromkeys(row["queries"] for row in own)):
            line = [row for row in own if row["queries"] == queries]
            low = [row["accuracy"] - row["low"] for row in line]
            high = [row["high"] - row["accuracy"] for row in line]
            # Bars beside each other, not one over the other.
            places, values = [row["rounds"] + 0.04 * place for row in line], [row["accuracy"] for row in line]
            label = f"{queries} quer{'y' if queries == 1 else 'ies'} a round"
            axes.errorbar(places, values, yerr=[low, high], marker="o", capsize=3, label=label)
        axes.set_title(f"{name} ({max(row['replies'] for row in own)} questions)")
        axes.set_xlabel("rounds")
        axes.set_ylabel("accuracy")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(fontsize="small")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--rounds", type=_numbers, default=[1, 2, 3, 4])
    parser.add_argument("--queries", type=_numbers, default=[1, 2, 3])
    parser.add_argument("--datasets", type=lambda text: text.split(","), default=["medqa", "mmlu"])
    parser.add_argument("--limit", type=int, help="questions of each set")
    parser.add_argument("--ask", choices=FORMS)
    parser.add_argument("--folder", type=Path, default=Path("runs/rounds"), help="instead of --out")
    add_endpoint_arguments(parser, model="arrowhead-small:i-medrag", out=Path())
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args, console = parser_of().parse_args(argv), Console()
    try:
        evaluation = evaluation_of(args.questions, args.datasets, args.limit, form_of(args.ask, args.model))
        plan, cells, ending = plan_of(args, evaluation), [], 0
        for queries in args.queries:
            for rounds in args.rounds:
                path = args.folder / f"rounds{rounds}_queries{queries}.jsonl"
                label = f"{rounds} rounds, {queries} queries"
                code = execute(with_options(plan, path, rounds=rounds, queries=queries), console, label)
                ending = ending or code
                if code == 2 or not path.exists():
                    return ending
                cells.append(Cell(rounds, queries, summarise(records_of_run(path, evaluation.questions))))
                print_plain(console, label)
                print_summary(cells[-1].summary, console)
                if code:
                    return _report(cells, args, console, ending)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2
    return _report(cells, args, console, ending)


def _report(cells: Sequence[Cell], args: argparse.Namespace, console: Console, ending: int) -> int:
    """Also of a grid that ended early."""
    rows = points(cells)
    if not rows:
        print_plain(console, "no replies, no figure", "red")
        return ending or 1
    about = {"model": args.model, "options": args.options, "interval": "Wilson, 95 %"}
    data = json.dumps({**about, "points": rows}, indent=1) + "\n"
    (args.folder / "rounds.json").write_text(data, encoding="utf-8")
    plot(rows, args.folder / "rounds.png", args.model)
    print_plain(console, f"wrote {args.folder / 'rounds.json'} and {args.folder / 'rounds.png'}")
    return ending


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
