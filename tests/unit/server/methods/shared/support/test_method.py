"""Labels stand beside the text; only a request for it changes the text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from passage_bench import done, shown

from models.decoding.types import LoopUsage
from server.methods.base import (
    AnswerRequest,
    CallReplied,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Message,
    OptionInvalid,
    Reference,
    Source,
    TextDelta,
    TranscriptDelta,
)
from server.methods.shared.support.method import SupportedMethod
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units
from server.methods.shared.support.verifier import Claim, ClaimVerification

ASK = AnswerRequest(request_id="r", messages=(Message("user", "How much heparin?"),))
DONE = Done(answer="x", finish_reason="stop", stop_reason=None, usage=LoopUsage(), outcome="answered")
SOURCES = EvidenceRead(
    (
        Source("Heparin is given at 5000 units twice daily.", 1, "Heparin"),
        Source("Warfarin is taken at 5 mg a day.", 2, "Warfarin"),
    )
)
READER = QuantityReader(Units())
LISTING = "\n\nReferences:\n[1] x"


class Recited:
    """A method whose events are given."""

    name = "recited"
    description = "Recites."

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self.options: list[Any] = []

    def check(self, ask: AnswerRequest) -> None:
        self.options.append(dict(ask.options))

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        for event in self._events:
            yield event


class Doubting:
    """A verifier that doubts claims with a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.claims: list[Claim] = []

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> ClaimVerification:
        self.claims += claims
        shares = tuple(0.1 if self.word in claim.sentence else 0.9 for claim in claims)
        return ClaimVerification(shares, 0.5, usage=LoopUsage(sampled_tokens=len(claims)))


async def labelled(*events: Event, mode: str = "label", **more: Any) -> list[Event]:
    method = SupportedMethod(Recited(events), READER, **more)
    return [event async for event in method.answer(replace(ASK, options={"grounded": mode}))]


async def test_an_answer_that_corresponds_is_shown_alone() -> None:
    """With a label for each sentence: its place, its source and the nearest sentence there."""
    text = "Heparin is given at 5,000 units [1]. It is given twice daily [1]."
    events = await labelled(SOURCES, TextDelta(text[:20]), TextDelta(text[20:]), DONE)
    assert shown(events) == text and done(events).outcome == "answered"
    support = done(events).support
    assert support is not None and [one.verdict for one in support.sentences] == ["unchecked", "unchecked"]
    first = support.sentences[0]
    assert text[first.start : first.end] == "Heparin is given at 5,000 units [1]."
    assert (first.citations, first.num_checked) == ((1,), 1)
    assert first.quote == "Heparin is given at 5000 units twice daily."


async def test_a_number_that_stands_nowhere_is_told_in_a_line_before_the_references() -> None:
    """The text stays, references still point at their markers, and the answer is partial."""
    text = "Heparin is given at 9000 units [1]."
    start = len(text) + LISTING.index("[1]")
    reference = Evidence((Reference(1, "t", "u", start, start + 3),))
    events = await labelled(SOURCES, TextDelta(text), TextDelta(LISTING, is_ours=True), reference, DONE)
    told = shown(events)
    assert told.startswith(f"{text}\n\n(Not supported by what was read: 9000 units stands neither in [1]")
    assert told.endswith(LISTING) and done(events).outcome == "partial"
    moved = next(event for event in events if isinstance(event, Evidence)).references[0]
    assert told[moved.start : moved.end] == "[1]" and moved.start > start


async def test_an_answer_that_cites_nothing_and_has_nothing_to_look_up_says_so() -> None:
    events = await labelled(SOURCES, TextDelta("It is safe."), DONE)
    assert "(It cites none of what was read" in shown(events) and done(events).outcome == "partial"
    uncitable = await labelled(EvidenceRead((Source("A statement."),)), TextDelta("It is safe."), DONE)
    assert shown(uncitable) == "It is safe." and done(uncitable).outcome == "answered"


async def test_other_outcomes_stay() -> None:
    events = await labelled(SOURCES, TextDelta("9000 units [1]."), replace(DONE, outcome="cut"))
    assert done(events).outcome == "cut"


async def test_records_of_a_reply_are_sources() -> None:
    """Each as one: an id of another gene's record is no id of this one."""
    records = [
        {"title": "BRCA1, human", "text": "BRCA1 (human) chr17 17q21.31; id 672"},
        {"title": "TP53, human", "text": "TP53 (human) chr17 17p13.1; id 7157"},
    ]
    read = TranscriptDelta("[2 gene records\n1. BRCA1 … id 672\n2. TP53 … id 7157]", "injected")
    reply = CallReplied("u", 0, "ok", "2 records", 0.1, 9, {"records": records})
    right = await labelled(read, reply, TextDelta("BRCA1 has the Gene ID 672 and TP53 7157."), DONE)
    assert done(right).outcome == "answered"
    swapped = await labelled(read, reply, TextDelta("BRCA1 has the Gene ID 7157 and TP53 672."), DONE)
    assert done(swapped).outcome == "partial"


async def test_a_verifier_judges_the_sentences_that_cite() -> None:
    """Of those that correspond; its tokens are counted."""
    verifier = Doubting("twice")
    text = "Heparin is given at 5000 units [1]. It is given twice [1]. Nothing is cited here. PMID 12345678 has it [2]."
    events = await labelled(SOURCES, TextDelta(text), DONE, verifier=verifier)
    support = done(events).support
    assert support is not None
    assert [one.verdict for one in support.sentences] == ["supported", "unsupported", "unchecked", "unsupported"]
    assert [claim.sentence for claim in verifier.claims] == ["Heparin is given at 5000 units.", "It is given twice."]
    assert verifier.claims[0].evidence == "Heparin\nHeparin is given at 5000 units twice daily."
    assert "“It is given twice” is not stated there" in shown(events) and done(events).usage.sampled_tokens == 2


async def test_a_strict_answer_leaves_out_what_is_unsupported() -> None:
    """The line says how many; places follow the text, and the first answer is kept."""
    text = "Heparin is given at 9000 units [1]. Heparin is given twice daily [1]."
    whole = f"{text}{LISTING}"
    reference = Evidence((Reference(1, "t", "u", whole.rindex("[1]"), whole.rindex("[1]") + 3),))
    events = await labelled(SOURCES, TextDelta(text), TextDelta(LISTING, is_ours=True), reference, DONE, mode="strict")
    told, last = shown(events), done(events)
    assert told.startswith(
        "Heparin is given twice daily [1].\n\n(Sentences that nothing which was read supports: 1 left"
    )
    assert told.endswith(LISTING) and (last.outcome, last.details["first_answer"]) == ("partial", "x")
    assert last.support is not None and last.support.dropped == ("Heparin is given at 9000 units [1].",)
    (label,) = last.support.sentences
    assert told[label.start : label.end] == "Heparin is given twice daily [1]."
    moved = next(event for event in events if isinstance(event, Evidence)).references[0]
    assert told[moved.start : moved.end] == "[1]"


async def test_a_strict_answer_without_a_supported_sentence_is_withheld() -> None:
    """With its reason, and without the sources."""
    reference = Evidence((Reference(1, "t", "u", 5, 8),))
    events = await labelled(
        SOURCES, TextDelta("9000 units [1]."), TextDelta(LISTING, is_ours=True), reference, DONE, mode="strict"
    )
    assert shown(events).startswith("The answer is withheld, as the request wants it strictly grounded")
    assert (done(events).outcome, done(events).details["abstained"]) == ("abstained", True)
    assert "9000" not in shown(events)


async def test_a_strict_answer_that_corresponds_is_shown_whole() -> None:
    events = await labelled(SOURCES, TextDelta("5000 units [1]."), DONE, mode="strict")
    assert shown(events) == "5000 units [1]." and done(events).outcome == "answered"


async def test_nothing_is_checked_where_the_request_wants_none() -> None:
    events = await labelled(SOURCES, TextDelta("9000 units [97]."), DONE, mode="off")
    assert shown(events) == "9000 units [97]." and done(events).support is None


def test_an_unknown_way_is_refused_by_name() -> None:
    """The option is the wrapper's own: the method does not see it."""
    inner = Recited([])
    method = SupportedMethod(inner, READER)
    with pytest.raises(OptionInvalid, match=r"arrowhead\.grounded: must be one of label, strict, off"):
        method.check(replace(ASK, options={"grounded": "marked"}))
    method.check(replace(ASK, options={"grounded": "strict", "k": 3}))
    assert inner.options == [{"k": 3}]
