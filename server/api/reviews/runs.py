"""Run a review, and fill the columns of its table, as the work of a job that shows how far it is.

A run is an answer of the method clinfo, in its turn among all answers; the document has the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from models.errors import ModelError
from server.api.answers.session import Answers
from server.errors import NO_SERVER, RequestError
from server.evidence.reviews.document import Column, ReviewDocument, ReviewResult, ReviewRun, RunRecord
from server.jobs.queue import Job, Outcome, Work
from server.methods.base import AnswerRequest, Event, EvidenceRead, Message, Step, TextDelta
from server.methods.shared.evidence_table import CellReading, EvidenceRow, Finding
from server.traces import TraceHead, TraceRecorder
from server.types import id_of_digest
from server.wiring.services import ServedModel, Services

RUN: Final = "review"
FILL: Final = "review_columns"
_AT_ONCE: Final = 8


@dataclass(slots=True)
class RunProgress:
    """Tell a job how far the run is; ``usual_s`` is how long the run before took, 0 where there was none.

    ``tells_text``: steps and answer too, which a queue that servers share writes down while the job runs.
    """

    job: Job
    usual_s: float
    tells_text: bool = True
    began: float = field(default_factory=time.monotonic)
    steps: list[str] = field(default_factory=list)
    text: str = ""

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def feed(self, event: Event) -> None:
        match event:
            case Step(text=text, counts=counts):
                self.steps.append(text)
                flow = (self.job.progress or {}).get("flow") or {}
                steps = list(self.steps) if self.tells_text else []
                self.job.report({"steps": steps, "flow": {**flow, **counts}})
            case TextDelta(text=text, channel="answer") if self.tells_text:
                self.text += text
                self.job.report({"text": self.text})

    async def tick(self) -> None:
        """Tell the time once a second, until it is cancelled."""
        while True:
            left = round(max(0.0, self.usual_s - self.seconds), 1) if self.usual_s else None
            self.job.report({"phase": "search", "seconds": self.seconds, "remaining_s": left})
            await asyncio.sleep(1)

    def end(self) -> None:
        """Take back what the document has: a job that is kept holds no text of the question."""
        self.job.report({"steps": [], "text": ""})


@dataclass(frozen=True, slots=True)
class ReviewWork:
    """Do the work of a review's jobs for one key; ``owner`` is its digest."""

    services: Services
    owner: str
    served: ServedModel
    document: ReviewDocument

    @property
    def run(self) -> Work:
        return lambda job: _on_loop(job, self._run(job))

    @property
    def fill(self) -> Work:
        return lambda job: _on_loop(job, self._filled(job))

    async def _run(self, job: Job) -> dict[str, Any]:
        before = await self._result()
        usual_s = before.runs[-1].seconds if before.runs else 0.0
        progress = RunProgress(job, usual_s, tells_text=not self.services.reviews.is_sealed)
        head = TraceHead(job.id.replace("job-", "review-"), self.served.id, self.owner, int(time.time()))
        ask = self._ask(head.id)
        answers = Answers(self.services, self.served, [ask], head)
        recorder, read = TraceRecorder(ask), list[str]()
        ticking = asyncio.create_task(progress.tick())
        try:
            await answers.check()
            async with aclosing(answers.events()) as events:
                async for item in events:
                    recorder.feed(item.event)
                    progress.feed(item.event)
                    if isinstance(item.event, EvidenceRead) and not read:
                        read = [source.text for source in item.event.sources]
        finally:
            ticking.cancel()
            progress.end()
        record = recorder.record(None, answers.choices[0].left)
        result = self._with_run(before, head, record, progress.seconds, read)
        await self._save(result)
        filled = await self._filled(job) if result.missing(self.document) else {}
        run = result.runs[-1]
        return {"run": run.id, "outcome": run.outcome, "counts": dict(run.counts), "changes": run.changes, **filled}

    def _with_run(
        self, before: ReviewResult, head: TraceHead, record: Mapping[str, Any], seconds: float, read: Sequence[str]
    ) -> ReviewResult:
        rows = (record.get("details") or {}).get("evidence_table") or []
        # The method tells first what it keeps, in the order of the table.
        texts = {row["uid"]: text for row, text in zip(rows, read, strict=False)}
        run = ReviewRun(
            id=head.id,
            created=head.created,
            seconds=seconds,
            question=self.document.question,
            options=self.document.options,
            outcome=str(record.get("outcome") or ""),
            counts=((record.get("details") or {}).get("review") or {}).get("counts") or {},
            changes={},
        )
        return before.with_run(run, RunRecord(head.model, record, texts), self.document.excluded)

    async def _filled(self, job: Job) -> dict[str, Any]:
        """Fill the cells that nobody has looked for yet; what was filled before a stop or a fault stays."""
        services, result = self.services, await self._result()
        missing = result.missing(self.document)
        if services.cells is None or not missing:
            return {"cells": 0, "failed_cells": 0}
        ask = replace(self._ask(job.id), salt=services.salt_for(id_of_digest(self.owner)))
        failed = 0
        async with services.admitted(self.owner):
            reading = services.cells.open(ask)
            began = time.monotonic()
            try:
                for place in range(0, len(missing), _AT_ONCE):
                    _report(job, place, len(missing), time.monotonic() - began)
                    batch = missing[place : place + _AT_ONCE]
                    found = await asyncio.gather(*(_cell(reading, one, result.texts) for one in batch))
                    for (column, row), cell in zip(batch, found, strict=True):
                        failed += cell is None
                        result = result if cell is None else result.with_cells(column.question, {row.uid: cell})
                    await self._save(result)
            finally:
                services.spend(self.owner, reading.sampled_tokens)
        _report(job, len(missing), len(missing), time.monotonic() - began)
        return {"cells": len(missing) - failed, "failed_cells": failed}

    def _ask(self, request_id: str) -> AnswerRequest:
        return AnswerRequest(
            request_id=request_id,
            messages=(Message("user", self.document.question),),
            options=self.document.search_options,
            key_id=id_of_digest(self.owner),
        )

    async def _result(self) -> ReviewResult:
        return await asyncio.to_thread(self.services.reviews.result, self.owner, self.document.id)

    async def _save(self, result: ReviewResult) -> None:
        await asyncio.to_thread(self.services.reviews.save_result, self.owner, self.document.id, result)


async def _cell(reading: CellReading, one: tuple[Column, EvidenceRow], texts: Mapping[str, str]) -> Finding | None:
    """Return a cell, None where it could not be read now."""
    column, row = one
    try:
        return await reading.read(column.question, row.title, texts[row.uid])
    except ModelError:
        return None


def _report(job: Job, done: int, total: int, seconds: float) -> None:
    rate = done / seconds if done and seconds else 0.0
    left = {"remaining_s": round((total - done) / rate, 1)} if rate else {"remaining_s": None}
    job.report({"phase": "columns", "done": done, "total": total, "per_s": round(rate, 2), **left})


def _on_loop(job: Job, work: Coroutine[Any, Any, dict[str, Any]]) -> Outcome:
    if job.loop is None:
        work.close()
        raise RequestError("a review runs on a server that serves", NO_SERVER)
    return Outcome(job.run_on(job.loop, work))
