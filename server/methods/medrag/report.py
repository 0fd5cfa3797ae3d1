"""Build MedRAG's events beside the model's text: steps, abstention, references with sentences, the trace. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.types import REPETITION
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, Retrieved, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.context import Context, Numbered, passage_record, render, supporting_sentence
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.empty_states import NO_COLLECTION
from server.methods.shared.outcomes import counted, listed, notice, why_cut
from server.methods.shared.passages import Gathered
from server.methods.shared.sentences import numbers_in
from server.methods.shared.synthesis import Synthesis

NO_USAGE: Final = LoopUsage()
_MAX_TITLES: Final = 3
_NO_TEXT: Final = "The model wrote no answer."
_NO_CHOICE: Final = "What the model wrote is none of the choices."


@dataclass(frozen=True, slots=True)
class Closing:
    """Hold the data for the end of an answer.

    ``passages`` are by number. ``fallback`` lists the numbers of the passages that were read, best first. ``refusal``:
    what the prompt asks the model to write where nothing answers.
    """

    question: ParsedQuestion
    passages: Mapping[int, RankedPassage]
    fallback: Sequence[int]
    references: bool
    details: Mapping[str, Any]
    refusal: str = ""


def retrieved(queries: Sequence[str], passages: Sequence[RankedPassage]) -> Retrieved:
    """Return the event that lists the addresses of the passages that are read."""
    urls = dict.fromkeys(one.document.url for one in passages if one.document.url)
    return Retrieved(tuple(queries), tuple(urls), tuple(passages))


def why_none(gathered: Gathered, context: Context) -> tuple[str, AnswerOutcome]:
    """Return why there is no passage to answer from; ``not_found`` is where the search itself found nothing."""
    if not gathered.namespaces:
        return NO_COLLECTION, "abstained"
    where = listed(gathered.namespaces)
    if context.too_long or context.left_out:
        number = counted(context.too_long + context.left_out, "passage")
        return f"The model has no room to read any of the {number} found in {where}.", "abstained"
    return f"Nothing was found in {where}.", "not_found"


def searched(gathered: Gathered, place: int = 0) -> str:
    if not gathered.namespaces:
        return "; ".join(("no collection to search", *gathered.faults))
    found = gathered.lists[place]
    titles = [_marked_title(one) for one in found[:_MAX_TITLES]]
    best = f": {'; '.join(titles)}{' …' if len(found) > _MAX_TITLES else ''}" if titles else ""
    return f"{counted(len(found), 'passage')} in {listed(gathered.namespaces)} by {gathered.way}{best}"


def _marked_title(found: RankedPassage) -> str:
    title = " ".join((found.document.title or found.document.document_id).split())
    return f"{title} (RETRACTED)" if found.document.is_retracted else title


def read(context: Context) -> str:
    line = f"{counted(len(context.passages), 'passage')} to read, {context.tokens} tokens"
    if context.left_out or context.too_long:
        line += f"; {context.left_out + context.too_long} left out for want of room"
    return line


def abstention(
    reason: str, outcome: AnswerOutcome, details: Mapping[str, Any], usage: LoopUsage = NO_USAGE
) -> Iterator[Event]:
    """Yield the whole answer where there is no passage or none that answers; the model is not called for it."""
    yield TranscriptDelta(reason, "injected")
    yield notice(reason, "")
    record = {**details, "abstained": True, "reason": reason}
    yield Done(answer=reason, usage=usage, details=record, outcome=outcome)


async def closing_events(closing: Closing, chain: Chain, usage: LoopUsage) -> list[Event]:
    """Return the events that follow the model's text; made on a thread, since they hold it against what was read."""
    return await asyncio.to_thread(lambda: list(_ending(closing, chain, usage)))


def _ending(closing: Closing, chain: Chain, usage: LoopUsage) -> Iterator[Event]:
    question = closing.question
    outcome, reason = _told(closing, chain)
    answer, num_chars = chain.answer.strip(), len(chain.answer)
    if question.choices:
        answer = question.shown(chain.letter) if chain.letter else answer
        num_chars = len(answer)
        yield from [TextDelta(answer)] if answer else ()
    if reason:
        note = notice(reason, answer)
        num_chars += len(note.text)
        yield note
    is_answer = outcome != "abstained"
    named = numbers_in(chain.answer) or numbers_in(chain.reasoning) if is_answer else ()
    known = [number for number in named if number in closing.passages]
    sources = [Numbered(number, closing.passages[number]) for number in known or closing.fallback]
    support = {n: supporting_sentence(chain.answer, n, closing.passages[n]) for n in known}
    is_listed = closing.references and bool(answer) and is_answer
    text, references = render(sources, bool(known), num_chars, _beside(answer, support)) if is_listed else ("", ())
    if references:
        yield TextDelta(text, is_ours=True)
        yield Evidence(references)
    details = {
        **closing.details,
        "abstained": not is_answer,
        "reasoning": chain.reasoning,
        **_cited(closing, support),
        "unknown_citations": sum(number not in closing.passages for number in named),
        **({"reason": reason} if reason else {}),
        **({"answer_letter": chain.letter} if question.choices else {}),
    }
    yield Done(
        answer=answer or reason,
        finish_reason=chain.finish_reason,
        stop_reason=chain.stop_reason,
        usage=usage,
        details=details,
        outcome=outcome,
    )


def _told(closing: Closing, chain: Chain) -> tuple[AnswerOutcome, str]:
    """Return what ended the model's text, with the sentence that tells it, "" for none.

    What the text says is the model's, and is labelled beside it.
    """
    if not chain.letter and _is_cut(closing, chain):
        return "cut", why_cut(chain.finish_reason, chain.stop_reason)
    if not (chain.letter or chain.answer.strip()):
        return "abstained", _NO_TEXT
    if closing.refusal and _plain(chain.answer) == _plain(closing.refusal):
        return "abstained", ""
    if closing.question.choices and not chain.letter:
        return "partial", _NO_CHOICE
    return "answered", ""


def _is_cut(closing: Closing, chain: Chain) -> bool:
    """Return whether a limit ended the text before it was an answer."""
    # What is not a letter reaches the limit of a letter's tokens.
    limits = ("stop", "length") if closing.question.choices else ("stop",)
    return chain.finish_reason not in limits or chain.stop_reason == REPETITION


def _plain(text: str) -> str:
    return text.strip().rstrip(".").replace("’", "'")


def _beside(answer: str, support: Mapping[int, str]) -> dict[int, str]:
    """Return the sentences to quote beside the references: those that the answer shown does not quote itself."""
    return {number: sentence for number, sentence in support.items() if sentence not in answer}


def _cited(closing: Closing, support: Mapping[int, str]) -> dict[str, Any]:
    """Return the fields of the trace on the passages that an answer cites; ``support``: the sentence of each."""
    records = [passage_record(closing.passages[n], number=n, sentence=text) for n, text in support.items()]
    return {"citations": records, "cited": [*support]}


def details_of(method: str, synthesis: Synthesis, question: ParsedQuestion, options: MedRagOptions) -> dict[str, Any]:
    """Return what the record of an answer begins with."""
    return {
        "method": method,
        "synthesis": synthesis,
        "options": asdict(options),
        "form": question.form,
        "choices": list(question.choices),
    }


def context_record(context: Context) -> dict[str, Any]:
    return {
        "context": context.text,
        "context_tokens": context.tokens,
        "passages": context.records,
        "left_out": context.left_out,
        "too_long": context.too_long,
        "repeated": context.repeated,
    }
