"""Build MedRAG's events beside the model's text: steps, abstention, references, their sentences, and the trace. Pure.

A choice among several rests on a sentence that names it, alone among the choices and without a denial, by the share of
the question's words that it has (``covered``, as in ``shared.extractive``), where it supports no other choice better.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.types import REPETITION
from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, Retrieved, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.context import Context, Numbered, passage_record, render, supporting_sentence
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.extractive import (
    NEGATED,
    Candidate,
    Source,
    candidates_of,
    named_stems,
    question_stems,
    stems_of,
)
from server.methods.shared.outcomes import YES_NO, notice, says_nothing, why_cut
from server.methods.shared.passages import Gathered
from server.methods.shared.sentences import numbers_in, quoted_line, split_sentences
from server.methods.shared.verdicts import SMALL_VERDICT

NO_USAGE: Final = LoopUsage()
_MAX_TITLES: Final = 3
NO_VERDICT: Final = (
    "These sentences are quoted from the passages; whether they mean yes or no is for the reader to judge."
)
_NO_TEXT: Final = "The model wrote no answer."
_NO_CHOICE: Final = "What the model wrote is none of the choices, so this is no answer."
# Set by ``scripts/evals/choice_support.py`` on one half of BioASQ's development questions (docs/evals.md).
CHOICE_BAR: Final = 0.25
# Where numbers alone tell the choices apart, or words of the question.
_BAR_OF_NUMBERS: Final = 0.5
# Words of the question that a cited passage has beside the choice.
_SHARED: Final = 2
# A case of many sentences is asked about in its last one.
_LONG_STEM: Final = 60
_ASKING: Final = 2


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
    return f"{counted(len(found), 'passage')} in {listed(gathered.namespaces)} by {gathered.way}{best}"


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
    is the reason why the answer rests on no passage, "" where it may rest on one. ``abstains``: a choice that no
    passage supports is withheld. ``relied`` are the numbers that sub-answers cite.
    """

    question: ParsedQuestion
    passages: Mapping[int, RankedPassage]
    fallback: Sequence[int]
    references: bool
    without: str
    details: Mapping[str, Any]
    abstains: bool = True
    relied: Sequence[int] = ()


async def closing_events(closing: Closing, chain: Chain, usage: LoopUsage) -> list[Event]:
    """Return the events that follow the model's text.

    Made on a thread, since a choice is compared with every sentence that was read.
    """
    return await asyncio.to_thread(lambda: list(_ending(closing, chain, usage)))


def _ending(closing: Closing, chain: Chain, usage: LoopUsage) -> Iterator[Event]:
    question = closing.question
    basis = _basis(closing, chain)
    outcome, reason = _judged(closing, chain, basis)
    answer, num_chars = chain.answer.strip(), len(chain.answer)
    if question.choices:
        is_withheld = outcome == "abstained" and chain.letter != ""
        answer = "" if is_withheld else question.shown(chain.letter) if chain.letter else answer
        num_chars = len(answer)
        yield from [TextDelta(answer)] if answer else ()
    if reason:
        note = notice(reason, answer)
        num_chars += len(note.text)
        yield note
    named = () if outcome == "abstained" else numbers_in(chain.answer) or numbers_in(chain.reasoning)
    known = [number for number in named if number in closing.passages] or ([] if outcome == "abstained" else [*basis])
    sources = [Numbered(number, closing.passages[number]) for number in known or closing.fallback]
    support = _sentences(closing, chain, basis, known)
    is_listed = closing.references and bool(answer) and outcome != "abstained"
    text, references = render(sources, bool(known), num_chars, _beside(answer, support)) if is_listed else ("", ())
    if references:
        yield TextDelta(text, is_ours=True)
        yield Evidence(references)
    details = {
        **closing.details,
        "abstained": outcome == "abstained",
        "reasoning": chain.reasoning,
        **_cited(closing, support),
        "unknown_citations": sum(number not in closing.passages for number in named),
        **({"reason": reason} if reason else {}),
        **({"answer_letter": chain.letter, "supported": bool(basis)} if question.choices else {}),
    }
    yield Done(
        answer=answer or reason,
        finish_reason=chain.finish_reason,
        stop_reason=chain.stop_reason,
        usage=usage,
        details=details,
        outcome=outcome,
    )


def _sentences(closing: Closing, chain: Chain, basis: Mapping[int, str], known: Sequence[int]) -> dict[int, str]:
    """Return the sentence that supports the answer in each passage that it cites."""
    given = {**chain.quotes, **basis}
    return {n: given.get(n) or supporting_sentence(chain.answer, n, closing.passages[n]) for n in known}


def _beside(answer: str, support: Mapping[int, str]) -> dict[int, str]:
    """Return the sentences to quote beside the references: those that the answer shown does not quote itself."""
    return {number: sentence for number, sentence in support.items() if sentence not in answer}


def _cited(closing: Closing, support: Mapping[int, str]) -> dict[str, Any]:
    """Return the fields of the trace on the passages that an answer cites; ``support``: the sentence of each."""
    records = [passage_record(closing.passages[n], number=n, sentence=text) for n, text in support.items()]
    return {"citations": records, "cited": [*support]}


def _basis(closing: Closing, chain: Chain) -> dict[int, str]:
    """Return the passages on which a letter rests, with the sentence that supports it, {} for none.

    Either a sentence supports it, or a passage that the model or a sub-answer cites names it: cases need more than one
    sentence.
    """
    question = closing.question
    if not chain.letter:
        return {}
    place = question.letters.index(chain.letter)
    if chain.quotes:
        return dict(chain.quotes)
    cited = [n for n in (*numbers_in(chain.reasoning), *closing.relied) if n in closing.passages]
    if question.verdict_letters:
        return dict.fromkeys(cited, "")
    numbers = [*closing.passages]
    sources = [Source(embedded_title(one.passage), one.passage.text) for one in closing.passages.values()]
    support = support_of(question.stem, question.choices, place, sources)
    if support.holds and support.sentence is not None:
        return {numbers[support.sentence.source]: quoted_line(support.sentence.sentence.text)}
    named = [named_stems(choice, question.stem) for choice in question.choices]
    if not _is_telling(named, place, question.stem):
        return {}
    asked = set(question_stems(asking_part(question.stem)))
    read = {n: stems_of(_whole(closing.passages[n])) for n in cited}
    return {
        n: "" for n, stems in read.items() if named[place] <= stems and len(asked & stems) >= min(_SHARED, len(asked))
    }


def _whole(found: RankedPassage) -> str:
    return f"{embedded_title(found.passage)} {found.passage.text}"


def _judged(closing: Closing, chain: Chain, basis: Mapping[int, str]) -> tuple[AnswerOutcome, str]:
    """Return the outcome of what the model wrote, and the sentence that tells it, "" for a whole answer.

    A letter is whole, whatever ended its generation; it rests on the passages of ``basis``.
    """
    choices = closing.question.choices
    # What is not a letter reaches the limit of a letter's tokens.
    limits = ("stop", "length") if choices else ("stop",)
    is_cut = chain.finish_reason not in limits or chain.stop_reason == REPETITION
    if is_cut and not chain.letter:
        return "cut", why_cut(chain.finish_reason, chain.stop_reason)
    if not (chain.letter if choices else chain.answer.strip()):
        return "abstained", _without_letter(closing, chain) if choices else _NO_TEXT
    # What is quoted speaks of its own matter, not of the passages.
    covers = "none" if choices or chain.quotes else says_nothing(chain.answer)
    if covers == "whole":
        return "abstained", closing.without or _read_in_vain(closing)
    if closing.without:
        return "partial", f"Answered without passages. {closing.without}"
    if choices and closing.passages and not basis:
        chosen = closing.question.shown(chain.letter)
        if closing.question.verdict_letters:
            return "partial", "The model cites no passage for this."
        if closing.abstains:
            return "abstained", f"No choice is given: nothing that was read supports “{chosen}”, which the model chose."
        return "partial", "Nothing that was read supports this choice."
    if chain.quotes and (choices or asks_yes_or_no(closing.question.stem)):
        if chain.undecided:
            return "partial", chain.undecided
        return "partial", SMALL_VERDICT if YES_NO.match(chain.answer) else NO_VERDICT
    # The model's own words tell what is missing.
    return ("partial" if covers == "part" else "answered"), ""


def _without_letter(closing: Closing, chain: Chain) -> str:
    """Return why a question with choices has no letter."""
    if chain.undecided:
        return chain.undecided
    return _read_in_vain(closing) if says_nothing(chain.answer) == "whole" else _NO_CHOICE


def _read_in_vain(closing: Closing) -> str:
    """Return what was read for an answer that says that nothing in it tells, "" for nothing."""
    names = closing.details.get("namespaces") or ()
    where = f" of {listed(names)}" if names else ""
    return f"Read: {counted(len(closing.passages), 'passage')}{where}." if closing.passages else ""


def details_of(outcome: Outcome, method: str) -> dict[str, Any]:
    context, gathered = outcome.context, outcome.gathered
    return {
        "method": method,
        "synthesis": "generated",
        "options": asdict(outcome.options),
        "form": outcome.question.form,
        "choices": list(outcome.question.choices),
        "namespaces": list(gathered.namespaces) if gathered else [],
        "retriever": gathered.retriever if gathered else "",
        "rankers": list(gathered.rankers) if gathered else [],
        "missing_rankers": list(gathered.missing) if gathered else [],
        "expanded": gathered.expanded_record if gathered else [],
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


@dataclass(frozen=True, slots=True)
class Support:
    """Hold the best sentence for a choice and its score from 0 to 1; None where no sentence names the choice.

    ``rival`` is the best score of another choice, ``bar`` the score that is needed.
    """

    score: float = 0.0
    sentence: Candidate | None = None
    rival: float = 0.0
    bar: float = CHOICE_BAR

    @property
    def holds(self) -> bool:
        return self.sentence is not None and self.score >= self.bar and self.score >= self.rival


def support_of(stem: str, choices: Sequence[str], place: int, sources: Sequence[Source]) -> Support:
    """Return the support of the choice at ``place``."""
    asked = asking_part(stem)
    named = [named_stems(choice, asked) for choice in choices]
    best = [Support() for _ in choices]
    for one in candidates_of(asked, sources, with_titles=True).sentences:
        found = [at for at, words in enumerate(named) if words and words <= one.stems]
        # "Type 2 diabetes" also has all words of the choice "diabetes".
        found = [at for at in found if not any(named[at] < named[other] for other in found)]
        if len(found) == 1 and not NEGATED.search(one.sentence.line) and one.covered > best[found[0]].score:
            best[found[0]] = Support(one.covered, one)
    rivals = (one.score for at, one in enumerate(best) if at != place)
    bar = CHOICE_BAR if _is_telling(named, place, asked) else _BAR_OF_NUMBERS
    return replace(best[place], rival=max(rivals, default=0.0), bar=bar)


def _is_telling(named: Sequence[frozenset[str]], place: int, asked: str) -> bool:
    """Return whether a choice has a word of its own: none that all choices have, or the question, and no number.

    Numbers stand in many passages, as "5 years" does.
    """
    words = named[place] - frozenset.intersection(*named) - frozenset(question_stems(asked))
    return any(re.search(r"[^\W\d_]", word) for word in words)


def asking_part(stem: str) -> str:
    """Return the last sentences of a long case, which ask, and a short question as it is."""
    if len(re.findall(r"\S+", stem)) <= _LONG_STEM:
        return stem
    sentences = split_sentences(stem)
    return " ".join(one.line for one in sentences[-_ASKING:]) or stem
