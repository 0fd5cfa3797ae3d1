"""Run every evaluation whose data is there against one server, and print one table (scripts/evals/run_all).

Each evaluation is its own command with records of its own, so that an interrupted run goes on where it was; what is
there of an unfinished one is in the table too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from scripts.evals import bioasq, geneturing, kg_rag, mirage
from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.harness.records import Record
from scripts.evals.harness.run_file import last_records
from scripts.evals.harness.tables import interval_cell, markdown_table

_QUESTIONS: Final = Path(__file__).parent / "questions"
_COLUMNS: Final = ("evaluation", "model", "questions", "failed", "score", "95 %", "median s", "state")


@dataclass(frozen=True, slots=True)
class Part:
    """An evaluation of one method over questions.

    ``source`` is its file or folder below the data, a pattern, ``options`` further arguments.
    """

    name: str
    method: str
    source: str
    score: Callable[[Record], float]
    script: str
    options: tuple[str, ...] = ()


PARTS: Final = (
    Part("geneturing", "genegpt", "geneturing.jsonl", geneturing.scored, "geneturing"),
    Part("genehop", "genegpt", "genehop.jsonl", geneturing.scored, "geneturing"),
    Part("mirage", "medrag", "benchmark.json*", mirage.strict, "mirage"),
    Part("bioasq", "medrag", "bioasq", bioasq.score, "bioasq", ("--options", '{"namespaces": ["bioasq"]}')),
    Part("kg-rag", "kg-rag", "kg_rag", kg_rag.score, "kg_rag"),
)
NAMES: Final = (*(part.name for part in PARTS), "natural", "capable")


def commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each evaluation whose data is there, without the interpreter."""
    url, limit = f"{args.url.rstrip('/')}/v1", ["--limit", str(args.limit)] if args.limit else []
    found = {}
    for part in PARTS:
        source = next(iter(sorted(args.data.glob(part.source))), None)
        if source is not None:
            where = [
                "--base-url",
                url,
                "--model",
                f"{args.model}:{part.method}",
                "--out",
                str(_records(args.out, part)),
            ]
            command = [f"scripts.evals.{part.script}", str(source), *where, *part.options, *limit]
            found[part.name] = [*command, "--concurrency", str(args.concurrency)]
    questions, passages = sorted((args.data / "natural").glob("questions*.jsonl")), args.data / "natural/passages.jsonl"
    where = ["--base-url", url, "--model", args.model, "--json", str(args.out / "natural.json")]
    files = ["--questions", *map(str, questions), "--passages", str(passages)]
    found["natural"] = ["scripts.evals.natural", *where, *(files if questions and passages.is_file() else ())]
    answers = [str(_QUESTIONS / f"capable_{half}.jsonl") for half in ("seen", "unseen")]
    found["capable"] = ["scripts.evals.capable", "--answers", *answers]
    found["capable"] += ["--passages", str(_QUESTIONS / "capable_passages.jsonl")]
    found["capable"] += ["--json", str(args.out / "capable.json")]
    return found


def is_done(name: str, out: Path) -> bool:
    """Whether an evaluation that writes its result at its end has one; the others go on by their records."""
    return (out / f"{name}.json").is_file()


def run(name: str, command: Sequence[str], out: Path) -> str:
    """Run one evaluation, its output into a file; return what came of it."""
    if is_done(name, out):
        return "done before"
    with (out / f"{name}.log").open("w", encoding="utf-8") as log:
        code = subprocess.run([sys.executable, "-m", *command], stdout=log, stderr=subprocess.STDOUT).returncode
    return {0: "done", 1: "ended early", 130: "interrupted"}.get(code, f"refused ({name}.log)")


def row(part: Part, model: str, out: Path, state: str) -> tuple[str, ...]:
    """The scores of what is recorded; failures are in no share."""
    file = _records(out, part)
    records = list(last_records(file)) if file.is_file() else []
    answered = [record for record in records if not record.failed]
    name = f"{model}:{part.method}"
    if not answered:
        return (part.name, name, str(len(records)), str(len(records)), "–", "–", "–", state)
    values = [part.score(record) for record in answered]
    seconds = f"{median(record.reply.seconds for record in answered):.1f}"
    found = bootstrap_mean(values)
    interval = interval_cell((found.low, found.high), len(values))
    failed = str(len(records) - len(answered))
    return (part.name, name, str(len(records)), failed, f"{fmean(values):.3f}", interval, seconds, state)


def natural_row(model: str, out: Path, state: str) -> tuple[str, ...]:
    """Right or rightly refused."""
    if not is_done("natural", out):
        return ("natural", model, "–", "–", "–", "–", "–", state)
    told = json.loads((out / "natural.json").read_text(encoding="utf-8"))["summary"]["all"]
    cells = (str(told["questions"]), str(told.get("failed", 0)), f"{told['good']:.3f}", "–", str(told["median_s"]))
    return ("natural", model, *cells, state)


def capable_row(out: Path, state: str) -> tuple[str, ...]:
    """Of played answers: right ones that ended without a label against a sentence, and wrong ones with one."""
    if not is_done("capable", out):
        return ("capable", "played answers", "–", "–", "–", "–", "–", state)
    played: list[dict[str, Any]] = json.loads((out / "capable.json").read_text(encoding="utf-8"))
    lowered = [one["outcome"] != "answered" or bool(one["labels"]) for one in played]
    right = [not low for one, low in zip(played, lowered, strict=True) if one["right"]]
    wrong = [low for one, low in zip(played, lowered, strict=True) if not one["right"]]
    score = f"right kept {sum(right)}/{len(right)}, wrong labelled {sum(wrong)}/{len(wrong)}"
    return ("capable", "played answers", str(len(played)), "0", score, "–", "–", state)


def table(args: argparse.Namespace, states: dict[str, str]) -> str:
    missing = "no data"
    rows = [row(part, args.model, args.out, states.get(part.name, missing)) for part in PARTS]
    rows.append(natural_row(args.model, args.out, states.get("natural", missing)))
    rows.append(capable_row(args.out, states.get("capable", missing)))
    return markdown_table(_COLUMNS, rows)


def _records(out: Path, part: Part) -> Path:
    return out / f"{part.name}.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run_all", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server's address")
    parser.add_argument("--model", default="arrowhead-small", help="the served model, without a method")
    parser.add_argument("--data", type=Path, default=Path("runs/data"), help="folder with the sets (docs/evals.md)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/all"), help="folder of records; where it is, the run goes on"
    )
    parser.add_argument("--limit", type=int, help="questions of each set")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--only", help=f"of {', '.join(NAMES)}, separated by commas")
    args = parser.parse_args(argv)
    only = args.only.split(",") if args.only else list(NAMES)
    if unknown := sorted(set(only) - set(NAMES)):
        parser.error(f"no evaluation is called {', '.join(unknown)}: there are {', '.join(NAMES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    states = dict.fromkeys(set(NAMES) - set(only), "not asked for")
    for name, command in commands(args).items():
        if name in only:
            print(f"{name} …", file=sys.stderr, flush=True)
            states[name] = run(name, command, args.out)
    text = table(args, states)
    (args.out / "table.md").write_text(f"{text}\n", encoding="utf-8")
    print(text)
    return 0 if all(state in ("done", "done before", "not asked for") for state in states.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
