"""Identifiers that stand in nothing that was read are marked, counted and told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.decoding.types import LoopUsage
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Message,
    OptionInvalid,
    Reference,
    TextDelta,
    TranscriptDelta,
)
from server.methods.shared.generation import FirstAnswer, SecondAnswer
from server.methods.shared.grounding import MARK, AnswerMarker, GroundedMethod
from server.methods.shared.identifiers import EvidenceIndex

QUESTION = AnswerRequest(request_id="r", messages=(Message("user", "Which gene is LMP10?"),))
DONE = Done(answer="", finish_reason="stop", stop_reason=None, usage=LoopUsage(), outcome="answered")


class Recited:
    """A method that yields given events."""

    name = "recited"
    description = "recites"

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def check(self, ask: AnswerRequest) -> None: ...

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        for event in self._events:
            yield event


async def checked(*events: Event) -> list[Event]:
    return [event async for event in GroundedMethod(Recited([*events, DONE])).answer(QUESTION)]


def shown(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.channel == "answer")


def done(events: Sequence[Event]) -> Done:
    last = events[-1]
    assert isinstance(last, Done)
    return last


async def test_what_was_read_or_asked_passes_unchanged() -> None:
    """From a reply, from the method's context and from the question."""
    events = await checked(
        TranscriptDelta("[1 gene record\n1. PSMB10 chr16]", "injected"),
        EvidenceRead(("MECL1 is an alias",)),
        TextDelta("LMP10 is PSMB10, also MECL1."),
    )

    assert shown(events) == "LMP10 is PSMB10, also MECL1."
    grounding = done(events).grounding
    assert grounding is not None
    assert (grounding.checked, grounding.supported, grounding.unsupported) == (3, 3, ())
    assert done(events).outcome == "answered"


async def test_an_invented_identifier_is_marked_told_and_makes_the_answer_partial() -> None:
    """What the model sampled itself is no evidence for it."""
    events = await checked(
        EvidenceRead(("LMP10 is PSMB10.",)), TranscriptDelta("TP53 at 5 mg"), TextDelta("PSMB10 and TP53 at 5 mg.")
    )

    assert shown(events).startswith(f"PSMB10 and TP53{MARK} at 5 mg{MARK}.\n\n(Not verified: TP53, 5 mg stand neither")
    grounding = done(events).grounding
    assert grounding is not None
    assert grounding.unsupported == ("TP53", "5 mg")
    assert done(events).outcome == "partial"


async def test_an_earlier_answer_of_the_model_is_no_evidence() -> None:
    """A made-up name must not become true by being repeated in the next turn."""
    ask = AnswerRequest(
        request_id="r",
        messages=(Message("user", "Which?"), Message("assistant", "It is ABC9."), Message("user", "Sure?")),
    )
    method = GroundedMethod(Recited([TextDelta("ABC9"), DONE]))

    assert MARK in shown([event async for event in method.answer(ask)])


async def test_the_servers_own_text_is_not_checked_and_references_follow_the_marks() -> None:
    """The list of sources has ids of its own; its markers move by what was inserted before them."""
    answer, listing = "It is TP53.", "\n\nReferences:\n[1] [NCBI Gene 7157](https://x)"
    start = len(answer) + listing.index("[1]")
    events = await checked(
        TextDelta(answer), TextDelta(listing, is_ours=True), Evidence((Reference(1, "t", "u", start, start + 3),))
    )

    text = shown(events)
    reference = next(event for event in events if isinstance(event, Evidence)).references[0]
    assert text[reference.start : reference.end] == "[1]"
    assert "7157" not in str(done(events).grounding)
    assert text.index("Not verified") < text.index("References:")


async def test_the_address_of_a_link_is_marked_behind_the_link() -> None:
    """Within the brackets the mark would be a part of the address."""
    assert shown(await checked(TextDelta("See [a](https://x.example/b) there."))).startswith(
        f"See [a](https://x.example/b){MARK} there."
    )


async def test_other_outcomes_stay() -> None:
    """A cut answer with an invented name is still a cut one."""
    method = GroundedMethod(Recited([TextDelta("TP53"), replace(DONE, outcome="cut")]))

    assert done([event async for event in method.answer(QUESTION)]).outcome == "cut"


async def strictly(*events: Event) -> list[Event]:
    ask = replace(QUESTION, options={"grounded": "strict"})
    return [event async for event in GroundedMethod(Recited([*events, DONE])).answer(ask)]


async def test_a_strictly_grounded_answer_with_an_invented_identifier_is_withheld() -> None:
    """Nothing of it is shown, nor its sources; the record has it."""
    reference = Evidence((Reference(1, "t", "u", 5, 8),))
    events = await strictly(TextDelta("It is TP53."), TextDelta("\n[1] x", is_ours=True), reference)

    assert shown(events).startswith("The answer is withheld")
    assert "It is" not in shown(events)
    assert not any(isinstance(event, Evidence) for event in events)
    assert (done(events).outcome, done(events).answer) == ("abstained", shown(events))


async def test_a_strictly_grounded_answer_that_stands_is_shown_whole() -> None:
    """With its sources, at its end."""
    events = await strictly(EvidenceRead(("PSMB10",)), TextDelta("It is PSMB10."), Evidence((Reference(1, "t", "u"),)))

    assert shown(events) == "It is PSMB10."
    assert any(isinstance(event, Evidence) for event in events)
    assert done(events).outcome == "answered"


class Second:
    """A rewriter with a given second answer, which keeps what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[FirstAnswer] = []

    async def rewritten(self, ask: AnswerRequest, first: FirstAnswer) -> SecondAnswer:
        self.asked.append(first)
        return SecondAnswer(self.text, LoopUsage(sampled_tokens=7, segments=1))


async def again(second: Second, *events: Event) -> list[Event]:
    ask = replace(QUESTION, options={"grounded": "strict"})
    return [event async for event in GroundedMethod(Recited(events), second).answer(ask)]


LISTING = "\n\nReferences:\n[2] x"
FIRST = (
    EvidenceRead(("PSMB10 is a gene",)),
    TranscriptDelta("[a reply]", "injected"),
    TextDelta("It is TP53 [2]"),
    TextDelta(" at 5 mg."),
    TextDelta(LISTING, is_ours=True),
    Evidence(
        (Reference(2, "t", "u", len("It is TP53 [2] at 5 mg.\n\nReferences:\n"), len("It is TP53 [2] at 5 mg.") + 17),)
    ),
    replace(DONE, answer="It is TP53 at 5 mg."),
)


async def test_a_strictly_grounded_answer_is_written_once_more() -> None:
    """The second answer replaces the first, says so, and keeps the sources, whose markers move; both are counted."""
    second = Second("It is PSMB10 [2].")
    events = await again(second, *FIRST)
    (first,) = second.asked
    assert first == FirstAnswer("It is TP53 [2] at 5 mg.", ("TP53", "5 mg"), ["PSMB10 is a gene", "[a reply]"])
    assert shown(events).startswith("It is PSMB10 [2].\n\n(Written a second time, as the first answer had identifiers")
    assert shown(events).endswith(LISTING) and "TP53" not in shown(events)
    (reference,) = next(event for event in events if isinstance(event, Evidence)).references
    assert shown(events)[reference.start : reference.end] == "[2]" and reference.start > 50
    last = done(events)
    assert (last.answer, last.outcome, last.usage.sampled_tokens) == ("It is PSMB10.", "partial", 7)
    assert last.grounding is not None and (last.grounding.checked, last.grounding.unsupported) == (1, ())
    assert last.details["first_unsupported"] == ["TP53", "5 mg"]


@pytest.mark.parametrize("text", ["", "It is TP53.", "It is ABC9 and PSMB10."])
async def test_a_second_answer_that_does_not_stand_is_withheld_too(text: str) -> None:
    second = Second(text)
    events = await again(second, *FIRST)
    assert len(second.asked) == 1 and shown(events).startswith("The answer is withheld")
    assert not any(isinstance(event, Evidence) for event in events)
    assert (done(events).outcome, done(events).usage.sampled_tokens) == ("abstained", 7)


@pytest.mark.parametrize("outcome", ["cut", "call_failed"])
async def test_an_answer_that_is_not_whole_is_not_written_again(outcome: str) -> None:
    second = Second("It is PSMB10.")
    events = await again(second, TextDelta("It is TP53"), replace(DONE, outcome=outcome))  # type: ignore[arg-type]
    assert second.asked == [] and done(events).outcome == "abstained"


async def test_a_standing_answer_is_not_written_again() -> None:
    second = Second("no")
    events = await again(second, EvidenceRead(("TP53",)), TextDelta("It is TP53."), DONE)
    assert (second.asked, shown(events), done(events).outcome) == ([], "It is TP53.", "answered")


def test_an_unknown_mode_is_refused_by_name() -> None:
    """The method itself never sees the option."""
    with pytest.raises(OptionInvalid) as refused:
        GroundedMethod(Recited([])).check(replace(QUESTION, options={"grounded": "yes"}))

    assert refused.value.param == "arrowhead.grounded"


WORDS = (
    "TP53",
    "PSMB10",
    "5",
    "mg",
    "p",
    "=",
    "0.03",
    "and",
    "\n1.",
    "chr17:1-2",
    "[1]",
    "1,234",
    "PMID:",
    "99999",
    ".",
)


@given(st.lists(st.sampled_from(WORDS), max_size=20), st.lists(st.integers(1, 9), max_size=40))
def test_the_marks_do_not_depend_on_where_the_text_is_cut(words: list[str], sizes: list[int]) -> None:
    """The engine may deliver letters or whole sentences."""
    text = " ".join(words)
    evidence = EvidenceIndex()
    evidence.add("PSMB10 5 mg")
    whole, cut = AnswerMarker(evidence), AnswerMarker(evidence)
    expected = whole.feed(text) + whole.flush()

    pieces, rest = [], text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    marked = "".join(map(cut.feed, [*pieces, rest])) + cut.flush()

    assert marked == expected
    assert cut.grounding == whole.grounding
    assert marked.replace(MARK, "") == text
