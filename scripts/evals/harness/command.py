"""Share the arguments, the run and the exit of all evaluation commands."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from scripts.evals.harness.client import Target
from scripts.evals.harness.errors import EvalError
from scripts.evals.harness.progress import Watch
from scripts.evals.harness.records import Question
from scripts.evals.harness.run_file import Run
from scripts.evals.harness.runner import MAX_FAILURES_IN_A_ROW, Plan, Scorer, run_plan
from scripts.evals.harness.tables import print_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """``dataset``: digest of all its questions; ``questions``: those that are asked."""

    name: str
    dataset: str
    questions: Sequence[Question]
    score: Scorer
    form: str = "plain"


def add_endpoint_arguments(parser: argparse.ArgumentParser, *, model: str, out: Path) -> None:
    group = parser.add_argument_group("endpoint")
    group.add_argument("--base-url", type=_url, default="http://127.0.0.1:8000/v1")
    group.add_argument("--model", default=model)
    group.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY", ""), help="by default $OPENAI_API_KEY")
    group.add_argument("--options", type=json_object, default={}, help="""JSON of method options: '{"k": 16}'""")
    group.add_argument("--temperature", type=float, default=0.0)
    group.add_argument("--seed", type=int)
    group.add_argument("--max-tokens", type=int)
    group.add_argument("--body", type=json_object, default={}, help="JSON of further fields; null leaves a field out")
    run = parser.add_argument_group("run")
    run.add_argument("--concurrency", type=_positive, default=8)
    run.add_argument("--timeout", type=float, default=600.0, help="seconds for one attempt at a question")
    run.add_argument("--retries", type=int, default=4, help="after 429, 503 or a lost connection")
    run.add_argument("--max-failures", type=_positive, default=MAX_FAILURES_IN_A_ROW, help="in a row, then it ends")
    run.add_argument("--retry-failed", action="store_true", help="ask again what failed in an earlier run")
    run.add_argument("--no-traces", action="store_true", help="leave the server's traces out of the records")
    run.add_argument("--out", type=Path, default=out, help="record file; where it exists, the run goes on")


def target_of(args: argparse.Namespace) -> Target:
    fields: dict[str, Any] = {"temperature": args.temperature, "seed": args.seed, "max_tokens": args.max_tokens}
    sampling = {name: value for name, value in {**fields, **args.body}.items() if value is not None}
    return Target(
        base_url=args.base_url,
        model=args.model,
        api_key=args.api_key,
        options=args.options,
        sampling=sampling,
        timeout_s=args.timeout,
        retries=max(0, args.retries),
        traces=not args.no_traces,
    )


def plan_of(args: argparse.Namespace, evaluation: Evaluation) -> Plan:
    target = target_of(args)
    run = Run(
        evaluation=evaluation.name,
        model=target.model,
        dataset=evaluation.dataset,
        form=evaluation.form,
        options=target.options,
        sampling=target.sampling,
        about={"base_url": target.base_url},
    )
    return Plan(
        run=run,
        target=target,
        questions=evaluation.questions,
        path=args.out,
        score=evaluation.score,
        concurrency=args.concurrency,
        retry_failed=args.retry_failed,
        max_failures=args.max_failures,
    )


def with_options(plan: Plan, path: Path, **options: Any) -> Plan:
    """The same plan with further method options and a record file of its own."""
    merged = {**plan.target.options, **options}
    run, target = replace(plan.run, options=merged), replace(plan.target, options=merged)
    return replace(plan, run=run, target=target, path=path)


def execute(plan: Plan, console: Console, label: str = "questions") -> int:
    """Runs it and says how it ended: 0 done, 1 ended early, 2 refused, 130 interrupted. The records are in its file."""
    with Watch(len(plan.questions), console, label) as watch:
        try:
            asyncio.run(run_plan(plan, watch))
        except KeyboardInterrupt:
            code, said = 130, "interrupted; the same command goes on from here"
        except EvalError as error:
            code, said = (
                (1 if error.retryable else 2),
                f"{error.message}. {error.hint}" if error.hint else error.message,
            )
        else:
            code, said = 0, ""
    notes = [said] if said else []
    if watch.failed:
        notes.append(f"{watch.failed} of {watch.count} requests FAILED; --retry-failed asks them again")
    if watch.count < len(plan.questions):
        notes.append(f"{len(plan.questions) - watch.count} questions not asked yet")
    for note in notes:
        print_plain(console, note, "red")
    return code


def json_object(text: str) -> dict[str, Any]:
    """For argparse."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("a JSON object is wanted")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError("begins with http:// or https://")
    return text
