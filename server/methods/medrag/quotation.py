"""Answer a question with verbatim quotes that the model chooses under a grammar, and a closing line.

Used by MedRAG, i-MedRAG and WeiseEule. A choice, yes or no is a line below the quotes, and never stands without one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final

from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, Step, TextDelta
from server.methods.medrag.context import Numbered, passage_record, render
from server.methods.medrag.report import abstention, counted
from server.methods.medrag.request import MARK, MedRagOptions, ParsedQuestion
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.outcomes import notice
from server.methods.shared.quoted import QuotedAnswer, QuoteTask, Quoting
from server.methods.shared.sentences import quoted_line

_NO_CHOICE: Final = f"{MARK} none of the choices"
_NOT_STATED: Final = f"{MARK} not stated"
_OPEN_LEFT: Final = {
    _NO_CHOICE: "The quoted sentences do not say which choice is right.",
    _NOT_STATED: "The quoted sentences do not say yes or no.",
}
_RETRACTED: Final = "All that was found has been retracted."


@dataclass(frozen=True, slots=True)
class Quotation:
    """Hold what is needed for one quoted answer."""

    question: ParsedQuestion
    options: MedRagOptions
    quoting: Quoting

    async def events(
        self, passages: Mapping[int, RankedPassage], details: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        """Yield the whole answer from passages by their numbers, best first."""
        usable = {number: found for number, found in passages.items() if not found.document.is_retracted}
        answer = QuotedAnswer(lack=_RETRACTED if passages else "")
        if usable:
            async with aclosing(self.quoting.events(self._task(usable))) as events:
                async for event in events:
                    if isinstance(event, QuotedAnswer):
                        answer = event
                    else:
                        yield event
        for final_event in self._ending(answer, usable, details):
            yield final_event

    def _task(self, passages: Mapping[int, RankedPassage]) -> QuoteTask:
        return QuoteTask(
            question=self.question.text.removeprefix("Question: "),
            passages=[(number, found.passage.text) for number, found in passages.items()],
            endings=tuple(self._endings),
            max_quotes=self.options.sentences,
            titles={number: embedded_title(found.passage) for number, found in passages.items()},
        )

    @property
    def _endings(self) -> dict[str, str]:
        """Return the letter, or yes or no, of each closing line; {} for an open question."""
        question = self.question
        if question.choices:
            return {f"{MARK} {quoted_line(question.shown(x))}": x for x in question.letters} | {_NO_CHOICE: ""}
        if asks_yes_or_no(question.stem):
            return {f"{MARK} yes": "yes", f"{MARK} no": "no", _NOT_STATED: ""}
        return {}

    def _ending(
        self, answer: QuotedAnswer, passages: Mapping[int, RankedPassage], details: Mapping[str, Any]
    ) -> Iterator[Event]:
        """Yield what follows the quotes: the outcome where it is not a whole answer, and the references."""
        usage = self.quoting.generations.usage
        yield Step(f"{counted(len(answer.quotes), 'quote')} from {counted(answer.num_read, 'passage')} read")
        outcome, reason = self._judged(answer)
        decided = self._endings.get(answer.ending, "")
        record = {**details, "quoted": answer.record} | ({"answer_letter": decided} if self.question.choices else {})
        if not answer.quotes:
            for event in abstention(reason, record, usage, outcome):
                yield replace(event, finish_reason=answer.finish_reason) if isinstance(event, Done) else event
            return
        shown = answer.text
        if reason:
            note = notice(reason, shown)
            shown += note.text
            yield note
        cited = list(dict.fromkeys(quote.number for quote in answer.quotes))
        if self.options.references:
            text, references = render([Numbered(n, passages[n]) for n in cited], True, len(shown))
            yield TextDelta(text, is_ours=True)
            yield Evidence(references)
        yield Done(
            answer=self._plain(answer, decided),
            finish_reason=answer.finish_reason,
            stop_reason=answer.stop_reason,
            usage=usage,
            details={**record, "abstained": False, "citations": _citations(answer, passages), "cited": cited},
            outcome=outcome,
        )

    def _judged(self, answer: QuotedAnswer) -> tuple[AnswerOutcome, str]:
        left_open = _OPEN_LEFT.get(answer.ending)
        return ("partial", left_open) if left_open else (answer.outcome, answer.reason)

    def _plain(self, answer: QuotedAnswer, decided: str) -> str:
        if self.question.choices and decided:
            return self.question.shown(decided)
        return " ".join([*([f"{decided.capitalize()}."] if decided else []), *(quote.text for quote in answer.quotes)])


def _citations(answer: QuotedAnswer, passages: Mapping[int, RankedPassage]) -> list[dict[str, Any]]:
    spans: dict[int, list[dict[str, Any]]] = {}
    for quote in answer.quotes:
        spans.setdefault(quote.number, []).append({"text": quote.text, "start": quote.start, "end": quote.end})
    return [passage_record(passages[n], number=n, sentences=found) for n, found in spans.items()]
