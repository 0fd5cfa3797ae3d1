"""Send many questions at once and write each record as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
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


class _Session:
    """Asks from one list of questions, by several tasks at once."""

    def __init__(self, plan: Plan, todo: Sequence[Question], file: RunFile, watch: Watch) -> None:
        self._plan = plan
        self._waiting = iter(todo)
        self._file = file
        self._watch = watch
        self._failures_in_a_row = 0

    async def ask_on(self, egress_context: Asker) -> None:
        """Until none is left. Raises EndpointGone, EndpointRefuses."""
        for question in self._waiting:
            record = Record(question, await egress_context.ask(question))
            self._file.append(record)
            self._watch.done(None if record.failed else self._plan.score(record))
            self._count(record)

    def _count(self, record: Record) -> None:
        error = record.reply.error
        self._failures_in_a_row = self._failures_in_a_row + 1 if error else 0
        if error and self._failures_in_a_row >= self._plan.max_failures:
            last = f"{error['kind']}: {error['message']}"
            raise EndpointGone(f"{self._failures_in_a_row} requests failed one after the other; the last: {last}")


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
            egress_context, session = Asker(plan.target, http), _Session(plan, todo, file, watch)
            await egress_context.knock()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(min(plan.concurrency, len(todo))):
                        tasks.create_task(session.ask_on(egress_context))
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


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
