"""Tell what GeneGPT's answer rests on: cite its records in it, and build its events beside the model's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from models.decoding.types import CallFinished, LoopDone
from server.methods.base import Done, Event, Evidence, TextDelta
from server.methods.genegpt.lookups import Lookup, Transcript, Verdict, looked_up
from server.methods.shared.call_lines import MAX_REFERENCES, collect, render, standing
from server.methods.shared.outcomes import notice, why_cut

# The title and address of a record.
Page = tuple[str, str]
_CLOSED: Final = r"[.?!]+[\"'”’)\]]*"
# Between two sentences or lines; a full stop within a number or before a small letter ends none.
_BETWEEN: Final = re.compile(rf"(?:{_CLOSED})?\s*\n\s*(?=\S)|{_CLOSED}\s+(?=[\"'“‘(\[*#-]*[A-Z0-9])")
_OPEN: Final = re.compile(rf"(?:{_CLOSED})?\s*[\"'“‘(\[*#-]*$")
_OWN: Final = "What is said above comes from the model's memory."


def told(answer: str, step: LoopDone, lookups: Sequence[Lookup]) -> Verdict:
    """Return what an answer amounts to by its look-ups; what it says is the model's, and is labelled beside it."""
    if step.finish_reason != "stop":
        return Verdict("cut", why_cut(step.finish_reason, step.stop_reason))
    if not answer.strip():
        return Verdict("abstained", f"The model wrote no answer. {looked_up(lookups)}".strip())
    if any(one.num_records for one in lookups):
        return Verdict("answered")
    if not lookups:
        return Verdict("partial", f"Nothing was looked up for this. {_OWN}")
    if failed := [one for one in lookups if one.has_failed]:
        return Verdict("call_failed", f"The look-up failed ({failed[-1].result}). {_OWN}")
    return Verdict("not_found", f"No record was found. {looked_up(lookups)} {_OWN}")


class InlineCitations:
    """Number the records of an answer in the order in which its sentences cite them.

    ``standing`` returns the title and address of the records in which a part of a text stands, best first. The result
    does not depend on where the pieces of the text are cut.
    """

    def __init__(self, standing: Callable[[str], list[Page]]) -> None:
        self._standing = standing
        self._sentence = ""
        self._held = ""
        self.cited: list[Page] = []

    def feed(self, text: str) -> str:
        """Return the text that can be shown now: what may end a sentence is held back."""
        text, self._held, shown = self._held + text, "", ""
        while found := _BETWEEN.search(text):
            shown += text[: found.start()] + self._mark(text[: found.start()]) + found[0]
            self._sentence, text = "", text[found.end() :]
        held = _OPEN.search(text)
        place = held.start() if held else len(text)
        self._sentence += text[:place]
        self._held = text[place:]
        return shown + text[:place]

    def finish(self, *, cites: bool = True) -> str:
        """Return the rest, with the mark of the last sentence where it ``cites``."""
        rest, self._held = self._held, ""
        marked = (self._mark("") if cites else "") + rest
        self._sentence = ""
        return marked

    def _mark(self, rest: str) -> str:
        sentence = (self._sentence + rest).strip()
        if not sentence:
            return ""
        for page in self._standing(sentence):
            if page not in self.cited and len(self.cited) < MAX_REFERENCES:
                self.cited.append(page)
        numbers = [self.cited.index(page) + 1 for page in self._standing(sentence) if page in self.cited]
        return f" [{', '.join(map(str, sorted(numbers)))}]" if numbers else ""


@dataclass(frozen=True, slots=True)
class Ended:
    """Hold what the end of an answer is built from; ``more`` goes into the trace, ``list_of_records`` below the text.

    ``answer`` is what is shown of the model, "" where it is withheld.
    """

    answer: str
    verdict: Verdict
    step: LoopDone
    options: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)
    list_of_records: str = ""


class Ledger:
    """Record the look-ups of one answer, cite them in its text as it comes, and write its end."""

    def __init__(self, question: str, *, with_references: bool = True) -> None:
        self._question = question
        self._lookups: list[Lookup] = []
        self._records: list[Mapping[str, Any]] = []
        self._read = ""
        self._num_chars = 0
        self._with_references = with_references
        self._citations = InlineCitations(self.pages_of)

    def add(self, step: CallFinished) -> None:
        self._lookups.append(Lookup.of(step, self._read))
        if step.reply.status in ("ok", "empty"):
            self._records.append(step.reply.record)
            self._read += f"\n{step.injected}"

    def shown(self, event: Event) -> list[Event]:
        """Return the events that can be shown now."""
        if not isinstance(event, TextDelta) or event.channel != "answer":
            return [event]
        return self._cited([event])

    def ending(self, step: LoopDone, answer: str, options: Mapping[str, Any]) -> list[Event]:
        """Return the events that follow the model's text."""
        return self._ended(Ended(answer, told(answer, step, self._lookups), step, options))

    def _ended(self, ended: Ended) -> list[Event]:
        verdict, step = ended.verdict, ended.step
        rests = bool(ended.answer) and verdict.outcome in ("answered", "partial", "cut")
        events: list[Event] = []
        if self._with_references and (ended.answer or verdict.is_shown):
            events += self._counted([TextDelta(self._citations.finish(cites=rests))])
        cited = self._citations.cited
        if rests and self._with_references and not cited:
            cited = collect(self._records, ended.answer)
        if verdict.reason:
            note = notice(verdict.reason, ended.answer)
            self._num_chars += len(note.text)
            events.append(note)
        text, listed = render(cited, self._num_chars)
        events += [TextDelta(text, is_ours=True), Evidence(listed)] if listed else []
        events += [TextDelta(ended.list_of_records, is_ours=True)] if ended.list_of_records else []
        details: dict[str, Any] = {"method": "genegpt", "options": ended.options}
        details |= {"reason": verdict.reason} if verdict.reason else {}
        done = Done(
            answer=ended.answer or verdict.reason,
            finish_reason=step.finish_reason,
            stop_reason=step.stop_reason,
            usage=step.usage,
            details={**details, **ended.more},
            outcome=verdict.outcome,
        )
        return [*events, done]

    @property
    def _transcript(self) -> Transcript:
        return Transcript(self._question, self._lookups, self._read)

    def pages_of(self, sentence: str) -> list[Page]:
        """Return the records in which a part of a sentence stands, best first."""
        return standing(self._records, self._about(sentence), self._question)

    def _about(self, sentence: str) -> str:
        """Return the text whose parts are looked up in the records that a sentence cites."""
        return sentence

    def _cited(self, deltas: Sequence[TextDelta]) -> list[Event]:
        """Return the model's text with its marks; nothing is cited from a model's answer without a record."""
        if self._with_references:
            deltas = [replace(delta, text=self._citations.feed(delta.text)) for delta in deltas]
        return self._counted(deltas)

    def _counted(self, deltas: Sequence[TextDelta]) -> list[Event]:
        self._num_chars += sum(len(delta.text) for delta in deltas)
        return [delta for delta in deltas if delta.text]
