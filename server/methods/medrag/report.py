"""Build MedRAG's events beside the model's text: steps, abstention, references and the trace record. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.types import REPETITION
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, Retrieved, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.context import Context, Numbered, numbers_in, passage_record, render, supporting_sentence
from server.methods.medrag.options import MedRagOptions
from server.methods.medrag.question import ParsedQuestion
from server.methods.shared.outcomes import notice, why_cut
from server.methods.shared.passages import Gathered

NO_USAGE: Final = LoopUsage()
_MAX_TITLES: Final = 3
_NO_TEXT: Final = "The model wrote no answer."
_NO_CHOICE: Final = "What the model wrote is none of the choices, so this is no answer."


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold the state before generation; ``gathered`` is None where the request disables retrieval."""

    question: ParsedQuestion
    options: MedRagOptions
    gathered: Gathered | None
    context: Context

    @property
    def must_abstain(self) -> bool:
        return self.lack != "" and self.options.without_passages == "abstain"

    @property
    def lack(self) -> str:
        """Return the reason why there is no passage to answer from, "" where there is one or none is requested."""
        if self.gathered is None or self.context.passages:
            return ""
        return why_none(self.gathered, self.context)

    @property
    def outcome_of_lack(self) -> AnswerOutcome:
        """Return ``not_found`` where the search itself found nothing."""
        searched = self.gathered is not None and bool(self.gathered.namespaces)
        return "not_found" if searched and not (self.context.too_long or self.context.left_out) else "abstained"

    @property
    def numbered(self) -> dict[int, RankedPassage]:
        return dict(enumerate(self.context.passages, 1))


def retrieved(queries: Sequence[str], passages: Sequence[RankedPassage]) -> Retrieved:
    """Return the event that lists the addresses of the passages that are read."""
    return Retrieved(tuple(queries), tuple(dict.fromkeys(one.document.url for one in passages if one.document.url)))


@dataclass(frozen=True, slots=True)
class Ballot:
    """Hold one vote for each chain, "" for a chain without an answer."""

    votes: tuple[str, ...]

    @property
    def winner(self) -> str:
        """Return the letter with the most votes, the earliest chain's among equals, "" where there are no votes."""
        counts = Counter(vote for vote in self.votes if vote)
        return max(counts, key=lambda letter: (counts[letter], -self.votes.index(letter)), default="")

    @property
    def record(self) -> dict[str, Any]:
        return {"votes": list(self.votes), "counts": dict(Counter(vote for vote in self.votes if vote))}


def why_none(gathered: Gathered, context: Context) -> str:
    if not gathered.namespaces:
        return "There is no namespace on this server that this request may read."
    where = listed(gathered.namespaces)
    if context.too_long or context.left_out:
        number = counted(context.too_long + context.left_out, "passage")
        return f"The model has no room to read any of the {number} found in {where}."
    return f"Nothing was found in {where}."


def searched(gathered: Gathered, place: int = 0) -> str:
    if not gathered.namespaces:
        return "no namespace to search"
    found = gathered.lists[place]
    titles = [_marked_title(one) for one in found[:_MAX_TITLES]]
    best = f": {'; '.join(titles)}{' …' if len(found) > _MAX_TITLES else ''}" if titles else ""
    return f"{counted(len(found), 'passage')} in {listed(gathered.namespaces)} by {gathered.retriever}{best}"


def _marked_title(found: RankedPassage) -> str:
    title = " ".join((found.document.title or found.document.document_id).split())
    return f"{title} (RETRACTED)" if found.document.is_retracted else title


def read(context: Context) -> str:
    line = f"{counted(len(context.passages), 'passage')} to read, {context.tokens} tokens"
    if context.left_out or context.too_long:
        line += f"; {context.left_out + context.too_long} left out for want of room"
    return line


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def abstention(
    reason: str, details: Mapping[str, Any], usage: LoopUsage = NO_USAGE, outcome: AnswerOutcome = "abstained"
) -> Iterator[Event]:
    """Yield the whole answer where there is no passage or none that answers; the model is not called for it."""
    yield TranscriptDelta(reason, "injected")
    yield notice(reason, "")
    record = {**details, "abstained": True, "reason": reason}
    yield Done(answer=reason, finish_reason="stop", stop_reason=None, usage=usage, details=record, outcome=outcome)


@dataclass(frozen=True, slots=True)
class Closing:
    """Hold the data for the end of an answer.

    ``passages`` are by number. ``fallback`` lists the numbers of the passages that were read, best first. ``without``
    is the reason why the answer rests on no passage, "" where it may rest on one.
    """

    question: ParsedQuestion
    passages: Mapping[int, RankedPassage]
    fallback: Sequence[int]
    references: bool
    without: str
    details: Mapping[str, Any]


def ending(closing: Closing, chain: Chain, usage: LoopUsage) -> Iterator[Event]:
    """Yield the events that follow the model's text."""
    question = closing.question
    answer, num_chars = chain.answer.strip(), len(chain.answer)
    if question.choices:
        answer = question.shown(chain.letter) if chain.letter else answer
        num_chars = len(answer)
        yield from [TextDelta(answer)] if answer else ()
    outcome, reason = _judged(closing, chain)
    if reason:
        note = notice(reason, answer)
        num_chars += len(note.text)
        yield note
    named = numbers_in(chain.answer) or numbers_in(chain.reasoning)
    known = [number for number in named if number in closing.passages]
    sources = [Numbered(number, closing.passages[number]) for number in known or closing.fallback]
    support = {number: supporting_sentence(chain.answer, number, closing.passages[number]) for number in known}
    is_listed = closing.references and bool(answer)
    text, references = render(sources, bool(known), num_chars, support) if is_listed else ("", ())
    if references:
        yield TextDelta(text, is_ours=True)
        yield Evidence(references)
    details = {
        **closing.details,
        "abstained": outcome == "abstained",
        "reasoning": chain.reasoning,
        "citations": [passage_record(closing.passages[n], number=n, sentence=support[n]) for n in known],
        "cited": known,
        "unknown_citations": len(named) - len(known),
    }
    if question.choices:
        details["answer_letter"] = chain.letter
    yield Done(
        answer=answer or reason,
        finish_reason=chain.finish_reason,
        stop_reason=chain.stop_reason,
        usage=usage,
        details=details,
        outcome=outcome,
    )


def _judged(closing: Closing, chain: Chain) -> tuple[AnswerOutcome, str]:
    """Return the outcome of what the model wrote, and the sentence that tells it, "" for a whole answer.

    A letter is whole, whatever ended its generation.
    """
    choices = closing.question.choices
    # What is not a letter reaches the limit of a letter's tokens.
    limits = ("stop", "length") if choices else ("stop",)
    is_cut = chain.finish_reason not in limits or chain.stop_reason == REPETITION
    if is_cut and not chain.letter:
        return "cut", why_cut(chain.finish_reason, chain.stop_reason)
    if not (chain.letter if choices else chain.answer.strip()):
        return "abstained", _NO_CHOICE if choices else _NO_TEXT
    if closing.without:
        return "partial", f"Answered without passages. {closing.without}"
    return "answered", ""


def details_of(outcome: Outcome) -> dict[str, Any]:
    context, gathered = outcome.context, outcome.gathered
    return {
        "method": "medrag",
        "synthesis": "generated",
        "options": asdict(outcome.options),
        "form": outcome.question.form,
        "choices": list(outcome.question.choices),
        "namespaces": list(gathered.namespaces) if gathered else [],
        "retriever": gathered.retriever if gathered else "",
        "retrieval_s": round(gathered.seconds, 4) if gathered else 0.0,
        **context_record(context),
    }


def context_record(context: Context) -> dict[str, Any]:
    pairs = zip(context.ranks, context.passages, strict=True)
    return {
        "context": context.text,
        "context_tokens": context.tokens,
        "passages": [passage_record(one, number=n, rank=rank) for n, (rank, one) in enumerate(pairs, 1)],
        "left_out": context.left_out,
        "too_long": context.too_long,
        "repeated": context.repeated,
    }
