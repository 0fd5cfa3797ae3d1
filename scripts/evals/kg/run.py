"""Evaluate KG-RAG's question sets through an OpenAI-compatible endpoint, with baselines beside each score.

    python scripts/evals/kg/run.py FOLDER --model NAME:kg-rag --options '{"evidence": true}' --out runs/kg_rag.jsonl
    python scripts/evals/kg/run.py FOLDER --model NAME --sets mcq_questions,true_false_questions

FOLDER contains the sets as JSON Lines (mcq_questions, true_false_questions, rag_comparison_data,
single_disease_entity_prompts, two_disease_entity_prompts; also with _dev or _test). Every record is written to --out at
once; the same command resumes after a kill.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of
from scripts.evals.harness.errors import DatasetInvalid, EvalError
from scripts.evals.harness.records import Question, digest_of
from scripts.evals.harness.run_file import last_records
from scripts.evals.harness.tables import interval_cell, markdown_table, print_plain, share_cell
from scripts.evals.kg.baselines import Score, baselines
from scripts.evals.kg.data import FORMS, SETS, Form, limited, load
from scripts.evals.kg.scoring import score
from scripts.evals.kg.summary import SetSummary, summarise


def form_of(given: Form | None, model: str) -> Form:
    """Variants of KG-RAG take its options; other methods have prompts of their own; a bare model is told what to do."""
    method = model.rpartition(":")[2] if ":" in model else ""
    return given or ("method" if method.startswith("kg-rag") else "plain" if method else "direct")


def evaluation_of(
    folder: Path, sets: Sequence[str], limit: int | None, form: Form
) -> tuple[Evaluation, dict[str, dict[str, Score]]]:
    """And the baselines of each set over all rows of its file. Raises DatasetInvalid."""
    found = load(folder, form)
    if missing := [name for name in sets if name not in found]:
        raise DatasetInvalid(f"no such set: {', '.join(missing)}; there are {', '.join(found)}")
    everything = [question for _, questions in found.values() for question in questions]
    chosen = [name for name in SETS if name in (sets or found)]
    asked = [question for name in chosen for question in limited(found[name][1], limit)]
    floors = {name: baselines(name, found[name][0]) for name in chosen}
    evaluation = Evaluation(name="kg-rag", dataset=digest_of(everything), questions=asked, score=score, form=form)
    return evaluation, floors


def summary_of_run(path: Path, questions: Iterable[Question]) -> list[SetSummary]:
    wanted = {question.id for question in questions}
    return summarise(record for record in last_records(path) if record.question.id in wanted)


def print_summary(found: Sequence[SetSummary], floors: dict[str, dict[str, Score]], console: Console) -> None:
    columns = (
        "set",
        "replies",
        "failed",
        "score",
        "95 %",
        "answered",
        "score of these",
        "abstained",
        "unreadable",
        "s",
    )
    rows = [
        (
            row["set"],
            str(row["replies"]),
            str(row["failed"]),
            share_cell(row["score"], row["replies"]),
            interval_cell(row["score_95"], row["replies"]),
            share_cell(row["answered"], row["replies"]),
            share_cell(row["score_of_answered"], row["replies"] - row["abstained"]),
            str(row["abstained"]),
            str(row["unreadable"]),
            f"{row['median_seconds']:.2f}",
        )
        for row in (one.row() for one in found)
    ]
    print_plain(console, markdown_table(columns, rows) + "\n")
    for one in found:
        for said in one.further():
            print_plain(console, f"{one.name}: {said}")
    print_plain(console, "\nWithout model and graph, over all rows of the file:\n\n" + floor_table(floors))


def floor_table(floors: dict[str, dict[str, Score]]) -> str:
    rows = [
        (f"{name}: {rule}", f"{found.correct}/{found.total}", f"{found.correct / max(1, found.total):.3f}")
        for name, rules in floors.items()
        for rule, found in rules.items()
    ]
    return markdown_table(("rule", "right", "share"), rows)


def as_json(found: Sequence[SetSummary], floors: dict[str, dict[str, Score]]) -> dict[str, Any]:
    rules = {
        name: {rule: {"correct": one.correct, "total": one.total} for rule, one in rows.items()}
        for name, rows in floors.items()
    }
    return {"sets": [one.row() for one in found], "baselines": rules}


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=[], help="by default all")
    parser.add_argument("--limit", type=int, help="the first rows of each set")
    parser.add_argument("--ask", choices=FORMS, help="method: options of KG-RAG; plain: text alone; direct: bare model")
    parser.add_argument("--json", type=Path, help="write the summary there")
    add_endpoint_arguments(parser, model="arrowhead-small:kg-rag", out=Path("runs/kg_rag.jsonl"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args, console = parser_of().parse_args(argv), Console()
    try:
        form = form_of(args.ask, args.model)
        evaluation, floors = evaluation_of(args.folder, args.sets, args.limit, form)
        code = execute(plan_of(args, evaluation), console, "KG-RAG")
        if code == 2:
            return code
        found = summary_of_run(args.out, evaluation.questions)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2
    print_summary(found, floors, console)
    if args.json:
        args.json.write_text(json.dumps(as_json(found, floors), indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
