"""Share the arguments, the run and the exit of all evaluation commands."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console

from scripts.evals.harness.client import Asker, Target, http_client
from scripts.evals.harness.errors import EndpointGone, EvalError
from scripts.evals.harness.records import Question, Record
from scripts.evals.harness.run_file import Run, RunFile, last_records
from scripts.evals.harness.tables import print_plain

MAX_FAILURES_IN_A_ROW: Final = 16
_LINE_EVERY_S: Final = 30.0
Scorer = Callable[[Record], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. ``score``: 0 to 1 for a reply, shown while it runs. ``retry_failed``: ask again what failed in an
    earlier run. ``max_failures``: it ends after so many failures in a row.
    """

    run: Run
    target: Target
    questions: Sequence[Question]
    path: Path
    score: Scorer
    concurrency: int = 8
    retry_failed: bool = False
    max_failures: int = MAX_FAILURES_IN_A_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """``dataset``: digest of all questions of the dataset; ``questions``: those that are asked."""

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


@dataclass(slots=True)
class _Session:
    """Asks from one list of questions, by several tasks at once, and tells every half a minute how it goes on."""

    plan: Plan
    console: Console
    begun: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    scores: list[float] = field(default_factory=list)
    failed: int = 0
    in_a_row: int = 0

    @property
    def count(self) -> int:
        return len(self.scores) + self.failed

    async def run(self) -> None:
        """Ask what has no record yet. Raises EvalError."""
        with RunFile(self.plan.path, self.plan.run) as file:
            waiting = iter(todo := self._left_to_ask())
            if not todo:
                return
            async with http_client(self.plan.target, self.plan.concurrency) as http:
                asker = Asker(self.plan.target, http)
                await asker.knock()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for _ in range(min(self.plan.concurrency, len(todo))):
                            tasks.create_task(self._ask_on(asker, waiting, file))
                except ExceptionGroup as group:
                    raise group.exceptions[0] from None

    async def _ask_on(self, asker: Asker, waiting: Iterator[Question], file: RunFile) -> None:
        for question in waiting:
            record = Record(question, await asker.ask(question))
            file.append(record)
            self._count(record)
            self.in_a_row = self.in_a_row + 1 if record.failed else 0
            if self.in_a_row >= self.plan.max_failures and (error := record.reply.error):
                last = f"{error['kind']}: {error['message']}"
                raise EndpointGone(f"{self.in_a_row} requests failed one after the other; the last: {last}")
            if time.monotonic() - self.told >= _LINE_EVERY_S:
                self.told = time.monotonic()
                mean = sum(self.scores) / max(1, len(self.scores))
                said = f"{self.count}/{len(self.plan.questions)}  {self.told - self.begun:.0f} s  score {mean:.3f}"
                print_plain(self.console, f"{said}  {self.failed} failed")

    def _left_to_ask(self) -> list[Question]:
        wanted = {question.id for question in self.plan.questions}
        done: set[str] = set()
        for record in last_records(self.plan.path):
            if record.question.id in wanted and not (record.failed and self.plan.retry_failed):
                done.add(record.question.id)
                self._count(record)
        return [question for question in self.plan.questions if question.id not in done]

    def _count(self, record: Record) -> None:
        if record.failed:
            self.failed += 1
        else:
            self.scores.append(self.plan.score(record))


def execute(plan: Plan, console: Console) -> int:
    """Runs it and says how it ended: 0 done, 1 ended early, 2 refused, 130 interrupted. The records are in its file."""
    session, code, notes = _Session(plan, console), 0, []
    try:
        asyncio.run(session.run())
    except KeyboardInterrupt:
        code, notes = 130, ["interrupted; the same command goes on from here"]
    except EvalError as error:
        code = 1 if error.retryable else 2
        notes = [f"{error.message}. {error.hint}" if error.hint else error.message]
    if session.failed:
        notes.append(f"{session.failed} of {session.count} requests FAILED; --retry-failed asks them again")
    if session.count < len(plan.questions):
        notes.append(f"{len(plan.questions) - session.count} questions not asked yet")
    for note in notes:
        print_plain(console, note, "red")
    return code


def evaluate(args: argparse.Namespace, make: Callable[[], Evaluation], table: Callable[[list[Record]], str]) -> int:
    """Ask the questions of ``make`` that have no record yet, and print the table of all records; returns the exit code.

    ``make`` may raise EvalError.
    """
    console = Console()
    try:
        evaluation = make()
        code = execute(plan_of(args, evaluation), console)
        if code == 2:
            return code
        records = records_of(args.out, evaluation.questions)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2
    if records:
        seconds = median(record.reply.seconds for record in records)
        print_plain(console, f"{table(records)}\n\nmedian {seconds:.1f} s an answer")
    return code


def records_of(path: Path, questions: Sequence[Question]) -> list[Record]:
    """Those of these questions, each once. Raises RunFileInvalid."""
    wanted = {question.id for question in questions}
    return [record for record in last_records(path) if record.question.id in wanted]


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
