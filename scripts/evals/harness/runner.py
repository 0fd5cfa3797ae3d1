"""Asks many questions at once and writes each record as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.evals.harness.client import Asker, Target, http_client
from scripts.evals.harness.errors import EndpointGone
from scripts.evals.harness.progress import Watch
from scripts.evals.harness.records import Question, Record
from scripts.evals.harness.run_file import Run, RunFile, last_records

MAX_FAILURES_IN_A_ROW: Final = 16
Scorer = Callable[[Record], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``score``: 0 to 1 for a reply, shown while it runs. ``retry_failed``: ask again what failed in an earlier run.
    ``max_failures``: the run ends after so many failures in a row.
    """

    run: Run
    target: Target
    questions: Sequence[Question]
    path: Path
    score: Scorer
    concurrency: int = 8
    retry_failed: bool = False
    max_failures: int = MAX_FAILURES_IN_A_ROW


@dataclass(slots=True)
class _Failures:
    """Failures since the last reply."""

    most: int
    in_a_row: int = 0
    last: str = ""

    def count(self, record: Record) -> None:
        """Raises EndpointGone."""
        error = record.reply.error
        self.in_a_row = self.in_a_row + 1 if error else 0
        if error:
            self.last = f"{error['kind']}: {error['message']}"
        if self.in_a_row >= self.most:
            raise EndpointGone(f"{self.in_a_row} requests failed one after the other; the last: {self.last}")


async def run_plan(plan: Plan, watch: Watch) -> None:
    """Ask what has no record yet. Cancelled, it leaves the questions in flight without one.

    Raises:
        EvalError: the record file is not for this run, or the endpoint makes going on useless.
    """
    with RunFile(plan.path, plan.run) as file:
        todo = _left_to_ask(plan, watch)
        if not todo:
            return
        async with http_client(plan.target, plan.concurrency) as http:
            asker, failures = Asker(plan.target, http), _Failures(plan.max_failures)
            waiting = iter(todo)
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(min(plan.concurrency, len(todo))):
                        tasks.create_task(_ask_on(waiting, asker, file, plan, watch, failures))
            except ExceptionGroup as group:
                raise _first(group) from None


def _left_to_ask(plan: Plan, watch: Watch) -> list[Question]:
    """Tells the watch of those that have a record."""
    wanted = {question.id for question in plan.questions}
    done: set[str] = set()
    for record in last_records(plan.path):
        if record.question.id not in wanted or (record.failed and plan.retry_failed):
            continue
        done.add(record.question.id)
        watch.found(None if record.failed else plan.score(record))
    return [question for question in plan.questions if question.id not in done]


async def _ask_on(
    waiting: Iterator[Question], asker: Asker, file: RunFile, plan: Plan, watch: Watch, failures: _Failures
) -> None:
    for question in waiting:
        record = Record(question, await asker.ask(question))
        file.append(record)
        watch.done(None if record.failed else plan.score(record))
        failures.count(record)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
