"""Build GeneGPT's events beside the model's text: what is withheld, the outcome and the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.decoding.types import CallFinished, LoopDone
from server.methods.base import Done, Event, Evidence, TextDelta
from server.methods.genegpt.citations import InlineCitations
from server.methods.genegpt.outcomes import Lookup, Transcript, Verdict, judge
from server.methods.genegpt.phrasing import Asked, field_of
from server.methods.shared.call_lines import collect, render, standing
from server.methods.shared.outcomes import YES_NO, OpeningGate, notice


class Ledger:
    """Record the look-ups of one answer, withhold its text while they may not bear it, cite them, and write its end."""

    def __init__(self, asked: Asked, *, only_reads: bool, with_references: bool = True) -> None:
        self._asked = asked
        self._question = asked.text
        self._only_reads = only_reads
        self._lookups: list[Lookup] = []
        self._records: list[Mapping[str, Any]] = []
        self._read = ""
        self._gate = OpeningGate(is_closed=True)
        self._num_chars = 0
        self._with_references = with_references
        self._citations = InlineCitations(self._standing)

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

    def ending(self, step: LoopDone, answer: str, options: Mapping[str, Any]) -> list[Event]:
        """Return the events that follow the model's text."""
        written, answer = answer, self._completed(answer) if self._only_reads else answer
        verdict = judge(answer, step.finish_reason, self._transcript, stop_reason=step.stop_reason)
        if self._only_reads and verdict.outcome == "answered":
            verdict = _unless_misread(verdict, self._asked)
        is_shown = verdict.is_shown or self._gate.is_open
        rests = bool(answer) and is_shown and verdict.outcome in ("answered", "partial", "cut")
        released = self._gate.released() if written == answer else [TextDelta(answer)]
        events: list[Event] = self._counted(released) if is_shown else []
        if is_shown and self._with_references:
            events += self._shown([TextDelta(self._citations.finish(cites=rests))])
        found = self._citations.cited
        if rests and self._with_references and not found:
            found = collect(self._records, answer)
        if verdict.reason:
            told = notice(verdict.reason, answer if is_shown else "")
            self._num_chars += len(told.text)
            events.append(told)
        text, listed = render(found, self._num_chars)
        events += [TextDelta(text, is_ours=True), Evidence(listed)] if listed else []
        details: dict[str, Any] = {"method": "genegpt", "options": options}
        details |= {"reason": verdict.reason} if verdict.reason else {}
        details |= {} if is_shown else {"withheld": written}
        details |= {"written": written} if is_shown and written != answer else {}
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

    def _completed(self, answer: str) -> str:
        return field_of(self._asked, answer, self._read)

    def _standing(self, sentence: str) -> list[tuple[str, str]]:
        # A yes or no says what the question asks.
        about = f"{sentence}, {self._question}" if YES_NO.match(sentence) else sentence
        return standing(self._records, about, self._question)

    def _counted(self, deltas: Sequence[TextDelta]) -> list[Event]:
        """Return the model's text with its marks; nothing is cited from a model's answer without a record."""
        if self._with_references:
            deltas = [replace(delta, text=self._citations.feed(delta.text)) for delta in deltas]
        return self._shown(deltas)

    def _shown(self, deltas: Sequence[TextDelta]) -> list[Event]:
        self._num_chars += sum(len(delta.text) for delta in deltas)
        return [delta for delta in deltas if delta.text]


def _unless_misread(verdict: Verdict, asked: Asked) -> Verdict:
    """Return the verdict on an answer, another where a model for look-ups cannot have read the whole question."""
    if asked.unread:
        words = ", ".join(f"“{word}”" for word in asked.unread[:3])
        told = (
            "This model was trained to look up symbols, aliases, places, functions and types of genes and variants; it "
            f"does not read {words}, so what it wrote may answer another question and is not shown."
        )
        return Verdict("abstained", told, is_shown=False)
    if asked.num_asked > 1:
        return Verdict("partial", f"One of {asked.num_asked} questions is answered; ask them one by one.")
    return verdict
