"""Compare two runs of one evaluation question by question.

    python scripts/evals/compare_runs.py runs/direct.jsonl runs/medrag.jsonl [--json FILE]

Only questions with a reply in both files count. The interval of the difference is a paired bootstrap (10,000 samples,
fixed seed, percentiles); p is McNemar's exact test, where a question is either right or wrong. Scores are computed anew
from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.errors import EvalError, RunMismatch
from scripts.evals.harness.intervals import Paired, paired
from scripts.evals.harness.run_file import last_records, run_of
from scripts.evals.harness.tables import markdown_table, print_plain
from scripts.evals.scorers import scorer_of

SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Scored:
    """One question of one run. ``asked``: tells it from another question of the same id. ``score`` None: failed."""

    group: str
    asked: str
    score: float | None


@dataclass(slots=True)
class Comparison:
    """``groups``: by the table's row; "all" is over all questions. ``gained``, ``lost``: ids, in file order."""

    groups: dict[str, Paired] = field(default_factory=dict)
    gained: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    only_first: int = 0
    only_second: int = 0
    failed: int = 0
    other_question: int = 0


def scored(path: Path) -> dict[str, Scored]:
    """Raises EvalError."""
    score = scorer_of(run_of(path).evaluation)
    return {
        record.question.id: Scored(
            record.question.group,
            json.dumps([record.question.text, record.question.key, dict(record.question.options)], sort_keys=True),
            None if record.failed else score(record),
        )
        for record in last_records(path)
    }


def compare(first: dict[str, Scored], second: dict[str, Scored]) -> Comparison:
    found = Comparison(only_first=len(first.keys() - second.keys()), only_second=len(second.keys() - first.keys()))
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, one in first.items():
        other = second.get(name)
        if other is None:
            continue
        if other.asked != one.asked:
            found.other_question += 1
        elif one.score is None or other.score is None:
            found.failed += 1
        else:
            pairs[one.group].append((one.score, other.score))
            pairs["all"].append((one.score, other.score))
            if one.score != other.score:
                (found.gained if other.score > one.score else found.lost).append(name)
    # A single group says the same as all.
    shown = [*(group for group in pairs if group != "all" and len(pairs) > 2), *(["all"] if "all" in pairs else [])]
    found.groups = {group: paired(*(list(side) for side in zip(*pairs[group], strict=True))) for group in shown}
    return found


def read_and_compare(first: Path, second: Path) -> Comparison:
    """Raises RunMismatch where the two are of different evaluations."""
    names = run_of(first).evaluation, run_of(second).evaluation
    if names[0] != names[1]:
        raise RunMismatch(f"{first} is a run of {names[0]}, {second} of {names[1]}")
    return compare(scored(first), scored(second))


def print_comparison(found: Comparison, console: Console) -> None:
    columns = ("questions", "pairs", "first", "second", "difference", "95 %", "better", "worse", "p")
    rows = [
        (
            name,
            str(row.pairs),
            f"{row.first:.3f}",
            f"{row.second:.3f}",
            f"{row.difference:+.3f}",
            f"{row.interval.low:+.3f} to {row.interval.high:+.3f}",
            str(row.gained),
            str(row.lost),
            "" if row.p is None else f"{row.p:.4g}",
        )
        for name, row in found.groups.items()
    ]
    print_plain(console, markdown_table(columns, rows) + "\np: McNemar's exact test, two-sided\n")
    left = {
        "failed in one of the two": found.failed,
        "only in the first": found.only_first,
        "only in the second": found.only_second,
        "of one id but not the same question": found.other_question,
    }
    for said, number in left.items():
        if number:
            print_plain(console, f"left out: {number} {said}", "red")
    for said, ids in (("better in the second", found.gained), ("worse in the second", found.lost)):
        if ids:
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            print_plain(console, f"{said}: {', '.join(ids[:SHOWN])}{more}")


def as_json(found: Comparison) -> dict[str, Any]:
    return {**asdict(found), "test": "McNemar exact, two-sided", "interval": "paired bootstrap, 95 %"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--json", type=Path, help="write the comparison there, with all changed ids")
    args, console = parser.parse_args(argv), Console()
    try:
        found = read_and_compare(args.first, args.second)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2
    print_comparison(found, console)
    if args.json:
        args.json.write_text(json.dumps(as_json(found), indent=1) + "\n", encoding="utf-8")
    return 0 if found.groups else 1


if __name__ == "__main__":
    sys.exit(main())
