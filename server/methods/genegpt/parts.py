"""Put the answers of a question together that is a list of questions, each looked up by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.decoding.types import CallFinished, CallStarted, LoopDone, LoopEvent
from server.methods.base import Event, TextDelta
from server.methods.genegpt.fields import is_on
from server.methods.genegpt.judging import ReadingLedger
from server.methods.genegpt.lookups import Verdict
from server.methods.genegpt.questions import ParsedQuestion
from server.methods.genegpt.report import Ended, Ledger, Page


def numbered(step: LoopEvent, before: int) -> LoopEvent:
    """Return a step of one part, whose call is numbered behind the ``before`` calls of earlier parts."""
    if not isinstance(step, CallStarted | CallFinished):
        return step
    return replace(step, call=replace(step.call, ordinal=step.call.ordinal + before))


class PartsLedger(Ledger):
    """Keep the ledger of all parts: their answers stand below each other, each with its subject and its records.

    What is on the chromosome that a question names stands first. Of parts without an answer the reason is said.
    """

    def __init__(self, parsed: ParsedQuestion, *, with_references: bool = True) -> None:
        super().__init__(parsed.text, with_references=with_references)
        self._parsed = parsed
        # Each line with the ledger of its part, whose records it cites.
        self._lines: list[tuple[str, ReadingLedger]] = []
        self._reasons: list[str] = []
        self._verdicts: list[Verdict] = []

    @property
    def num_calls(self) -> int:
        return len(self._lookups)

    def take(self, ledger: ReadingLedger, answer: str, verdict: Verdict) -> None:
        """Take what one part came to, of which ``ledger`` has the records."""
        subject = ledger.subject
        self._verdicts.append(verdict)
        if verdict.is_shown and answer:
            self._lines.append((f"{subject}: {answer}", ledger))
        if verdict.reason:
            self._reasons.append(f"{subject}: {verdict.reason}")

    def joined(self, step: LoopDone, options: Mapping[str, Any]) -> list[Event]:
        """Return the events of the whole answer."""
        lines = sorted((line for line, _ in self._lines), key=lambda line: not is_on(self._parsed.chromosome, line))
        text = "\n".join(lines)
        outcomes = list(dict.fromkeys(one.outcome for one in self._verdicts))
        outcome = outcomes[0] if len(outcomes) == 1 else "partial" if lines else "abstained"
        verdict = Verdict(outcome, "\n".join(self._reasons), is_shown=bool(lines))
        return [*self._cited([TextDelta(text)]), *self._ended(Ended(text, verdict, step, options))]

    def pages_of(self, sentence: str) -> list[Page]:
        # HBA1 has A1 in it: a line is found by its beginning, and a further sentence of it by what it has.
        begun = [ledger for line, ledger in self._lines if line.startswith(sentence)]
        ledger = next(iter(begun or [ledger for line, ledger in self._lines if sentence in line]), None)
        return ledger.pages_of(sentence.removeprefix(f"{ledger.subject}: ")) if ledger else []
