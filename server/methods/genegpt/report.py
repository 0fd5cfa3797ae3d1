"""Build GeneGPT's events beside the model's text: what is withheld, the outcome and the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from models.decoding.types import CallFinished, LoopDone
from server.methods.base import Done, Event, Evidence, TextDelta
from server.methods.genegpt.outcomes import Lookup, Transcript, judge
from server.methods.shared.call_lines import collect, render
from server.methods.shared.outcomes import YES_NO, OpeningGate, notice


class Ledger:
    """Record the look-ups of one answer, withhold its text while they may not bear it, and write its end."""

    def __init__(self, question: str, *, only_reads: bool) -> None:
        self._question = question
        self._only_reads = only_reads
        self._lookups: list[Lookup] = []
        self._records: list[Mapping[str, Any]] = []
        self._read = ""
        self._gate = OpeningGate(is_closed=True)
        self._num_chars = 0

    def add(self, step: CallFinished) -> None:
        self._lookups.append(Lookup.of(step))
        # Before a record is read, an answer is the model's own, which has to be judged.
        self._gate.is_closed = self._only_reads or not any(one.num_records for one in self._lookups)
        if step.reply.status in ("ok", "empty"):
            self._records.append(step.reply.record)
            self._read += f"\n{step.injected}"

    def held(self, event: Event) -> list[Event]:
        """Return the events that can be shown now.

        The text of a model that can only copy is withheld to its end, a yes or no as well, other text for a few words.
        """
        if not isinstance(event, TextDelta) or event.channel != "answer":
            return [event]
        return self._counted(self._gate.feed(event))

    def ending(self, step: LoopDone, answer: str, options: Mapping[str, Any], *, with_references: bool) -> list[Event]:
        """Return the events that follow the model's text."""
        verdict = judge(answer, step.finish_reason, self._transcript, stop_reason=step.stop_reason)
        is_shown = verdict.is_shown or self._gate.is_open
        events: list[Event] = self._counted(self._gate.released()) if is_shown else []
        found: list[tuple[str, str]] = []
        if with_references and answer and is_shown and verdict.outcome in ("answered", "partial", "cut"):
            found = collect(self._records, f"{answer} {self._question}" if YES_NO.match(answer) else answer)
        if verdict.reason:
            told = notice(verdict.reason, answer if is_shown else "")
            self._num_chars += len(told.text)
            events.append(told)
        text, listed = render(found, self._num_chars)
        events += [TextDelta(text, is_ours=True), Evidence(listed)] if listed else []
        details: dict[str, Any] = {"method": "genegpt", "options": options}
        details |= {"reason": verdict.reason} if verdict.reason else {}
        details |= {} if is_shown else {"withheld": answer}
        return [
            *events,
            Done(
                answer=answer if is_shown else verdict.reason,
                finish_reason=step.finish_reason,
                stop_reason=step.stop_reason,
                usage=step.usage,
                details=details,
                outcome=verdict.outcome,
            ),
        ]

    @property
    def _transcript(self) -> Transcript:
        return Transcript(self._question, self._lookups, self._read, self._only_reads)

    def _counted(self, deltas: Sequence[TextDelta]) -> list[Event]:
        self._num_chars += sum(len(delta.text) for delta in deltas)
        return [*deltas]
