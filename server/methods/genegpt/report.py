"""Build GeneGPT's events beside the model's text: what is withheld, the outcome and the references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from models.decoding.types import CallFinished, LoopDone
from server.methods.base import Done, Event, Evidence, TextDelta
from server.methods.genegpt.outcomes import YES_NO, Lookup, Transcript, judge
from server.methods.shared.call_lines import collect, render
from server.methods.shared.outcomes import notice

# Long enough to see whether an answer begins with yes or no.
_OPENING_CHARS: Final = 12


class Ledger:
    """Record the look-ups of one answer, withhold its text while they may not bear it, and write its end."""

    def __init__(self, question: str, *, only_reads: bool) -> None:
        self._question = question
        self._only_reads = only_reads
        self._lookups: list[Lookup] = []
        self._records: list[Mapping[str, Any]] = []
        self._read = ""
        self._withheld: list[TextDelta] = []
        self._is_open = False
        self._num_chars = 0

    def add(self, step: CallFinished) -> None:
        self._lookups.append(Lookup.of(step))
        if step.reply.status in ("ok", "empty"):
            self._records.append(step.reply.record)
            self._read += f"\n{step.injected}"

    def held(self, event: Event) -> list[Event]:
        """Return the events that can be shown now.

        The text of a model that can only copy is withheld to its end, a yes or no as well, other text for a few words.
        """
        if not isinstance(event, TextDelta) or event.channel != "answer":
            return [event]
        self._withheld.append(event)
        text = "".join(delta.text for delta in self._withheld).strip()
        if not self._is_open:
            settled = len(text) > _OPENING_CHARS and not YES_NO.match(text)
            self._is_open = settled and not self._only_reads and any(one.num_records for one in self._lookups)
        return self._released() if self._is_open else []

    def ending(self, step: LoopDone, answer: str, options: Mapping[str, Any], *, with_references: bool) -> list[Event]:
        """Return the events that follow the model's text."""
        verdict = judge(answer, step.finish_reason, self._transcript)
        is_shown = verdict.is_shown or self._is_open
        events: list[Event] = [*self._released()] if is_shown else []
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
        return [
            *events,
            Done(
                answer=answer,
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

    def _released(self) -> list[Event]:
        released: list[Event] = [*self._withheld]
        self._num_chars += sum(len(delta.text) for delta in self._withheld)
        self._withheld = []
        return released
