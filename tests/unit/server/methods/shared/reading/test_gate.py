"""Sentences are judged by the verifier alone: which are quoted, what they say, which choice they support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lexical_verifier import lexical_gate

from models.verifiers.base import Judgement, OperatingPoints, Pair
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, quote_answers_alone, several_sources

POINTS = OperatingPoints(quote=0.5, answer=0.7, verdict=0.8, label=0.5, screen=0.3)


class Told:
    """A verifier that is told its judgements by the sentence."""

    points = POINTS

    def __init__(self, judgements: Mapping[str, Judgement]) -> None:
        self._judgements = judgements
        self.pairs: list[Pair] = []

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        self.pairs += pairs
        return [self._judgements[pair.evidence.removeprefix("Drugs. ")] for pair in pairs]


FIRST, SECOND, THIRD = "Aspirin blocks cyclooxygenase.", "Aspirin is a salicylate drug.", "Warfarin blocks VKORC1."


def judged(**shares: float) -> Judgement:
    return Judgement(shares.get("relevance", 0.0), shares.get("yes", 0.0), shares.get("no", 0.0))


async def test_sentences_are_ranked_and_quoted_above_the_bar() -> None:
    """Each is judged behind the title of its text."""
    told = Told({FIRST: judged(relevance=0.6), SECOND: judged(relevance=0.9), THIRD: judged(relevance=0.2)})
    reading = await Gate(told).read(
        "What is aspirin?", [EvidenceText("Drugs", f"{FIRST} {SECOND}"), EvidenceText("", THIRD)]
    )
    assert [one.evidence.line for one in reading.ranked] == [SECOND, FIRST, THIRD]
    assert [one.evidence.line for one in reading.quotes(3)] == [SECOND] and reading.is_answered
    assert [pair.evidence for pair in told.pairs] == [f"Drugs. {FIRST}", f"Drugs. {SECOND}", THIRD]


async def test_of_several_sources_that_are_searched_at_once_more_is_wanted() -> None:
    """Each may have what only looks like an answer, which is quoted as unsure, if at all. Pairs are judged once."""
    told = Told({FIRST: judged(relevance=0.8)})
    told.points = replace(POINTS, answer_of_several=0.9)
    gates = (Gate(told), Gate(told))
    with several_sources():
        readings = [await gate.read("What is aspirin?", [EvidenceText("", FIRST)]) for gate in gates]
        quote_answers_alone()
        assert not (await gates[0].read("What is aspirin?", [EvidenceText("", FIRST)])).quotes(3)
    alone = await Gate(told).read("What is aspirin?", [EvidenceText("", FIRST)])
    assert alone.is_answered and not any(one.is_answered for one in readings)
    assert len(readings[0].quotes(3)) == 1
    assert len(told.pairs) == 2


async def test_a_sentence_that_repeats_a_better_one_is_not_quoted() -> None:
    again = "Aspirin blocks cyclooxygenase here."
    told = Told({FIRST: judged(relevance=0.9), again: judged(relevance=0.8)})
    reading = await Gate(told).read("What does aspirin block?", [EvidenceText("", f"{FIRST} {again}")])
    assert [one.evidence.line for one in reading.quotes(3)] == [FIRST]


async def test_where_no_sentence_answers_alone_it_is_read_with_the_one_before_it() -> None:
    """Which has its subject; the quote is both, as they stand."""
    first, second = "Loop diuretics act on the kidney.", "They can cause hypokalaemia."
    told = Told(
        {first: judged(relevance=0.1), second: judged(relevance=0.2), f"{first} {second}": judged(relevance=0.8)}
    )
    reading = await Gate(told).read("Do loop diuretics cause it?", [EvidenceText("", f"{first} {second}")])
    best = reading.ranked[0].evidence
    assert (best.line, best.parts) == (f"{first} {second}", (first, second)) and reading.is_answered
    assert (best.sentence.start, best.sentence.end) == (0, len(best.line))


async def test_below_the_bar_of_answers_nothing_is_answered() -> None:
    """What reaches the bar of quotes is quoted."""
    told = Told({FIRST: judged(relevance=0.69), THIRD: judged(relevance=0.5)})
    unsure = await Gate(told).read("?", [EvidenceText("", FIRST), EvidenceText("", THIRD)])
    assert not unsure.is_answered
    assert [one.evidence.line for one in unsure.quotes(3)] == [FIRST, THIRD] and len(unsure.quotes(1)) == 1
    nothing = await Gate(told).read("What is aspirin?", [])
    assert (nothing.is_answered, nothing.quotes(3), nothing.best, nothing.verdict) == (False, [], 0.0, "")


async def test_yes_or_no_is_that_of_the_surest_sentence_that_is_relevant() -> None:
    """One that is not quoted says neither."""
    sides = {FIRST: judged(relevance=0.9, yes=0.85), SECOND: judged(relevance=0.6, no=0.95)}
    aside = {THIRD: judged(relevance=0.1, no=0.99)}
    text = EvidenceText("", f"{FIRST} {SECOND} {THIRD}")
    assert (await Gate(Told(sides | aside)).read("Is it?", [text])).verdict == "No"
    sides[SECOND] = judged(relevance=0.6, no=0.5)
    assert (await Gate(Told(sides | aside)).read("Is it?", [text])).verdict == "Yes"
    sides[FIRST] = judged(relevance=0.9, yes=0.79)
    assert (await Gate(Told(sides | aside)).read("Is it?", [text])).verdict == ""


async def test_the_choice_is_the_one_whose_statement_is_supported_most() -> None:
    """Against the others; nothing is chosen where nothing was read."""
    gate, texts = lexical_gate(), [EvidenceText("", "Which drug blocks VKORC1 is known, and it is warfarin.")]
    question, choices = "Which drug blocks VKORC1?", ("aspirin", "warfarin")
    reading = await gate.read(question, texts)
    support = await gate.choose(question, choices, reading)
    assert support is not None and support.place == 1 and 0.5 < support.probability < 1.0
    assert await gate.choose(question, choices, await gate.read(question, [])) is None
