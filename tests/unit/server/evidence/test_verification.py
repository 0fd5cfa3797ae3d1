"""What pieces of evidence say: the sentence that decides, its place, and the verdict of all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_verifier import LexicalVerifier

from models.verifiers.base import Judgement, OperatingPoints, Pair
from server.errors import RequestError
from server.evidence.verification import MAX_SENTENCES, sentences_of, verify

CLAIM = "Aspirin lowers the risk of stroke."
YES = "Aspirin lowers the risk of stroke"
NO = "Aspirin never lowers the risk of stroke"


class Lexical:
    """Judge at once, and note what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def points(self) -> OperatingPoints:
        return LexicalVerifier.points

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        self.asked += [pair.evidence for pair in pairs]
        return LexicalVerifier().judge(pairs)


async def test_the_sentence_that_decides_is_a_slice_of_its_piece() -> None:
    """Of each piece one, in the order of the request; the verdict is that of the surest."""
    pieces = ["The heart pumps blood.", f"The trial was large.\n\n{YES}. It was stopped early."]
    found = await verify(Lexical(), CLAIM, pieces)

    assert [pieces[i][one.sentence.start : one.sentence.end] for i, one in enumerate(found.results)] == [
        one.sentence.text for one in found.results
    ]
    assert (found.verdict, found.index, found.deciding.sentence.text) == ("supported", 1, f"{YES}.")


async def test_evidence_against_a_claim_is_a_contradiction() -> None:
    found = await verify(Lexical(), CLAIM, ["The heart pumps blood.", f"{NO}."])
    assert (found.verdict, found.index) == ("contradicted", 1)
    assert found.deciding.judgement.contradicts == 1.0


async def test_evidence_beside_the_point_tells_nothing() -> None:
    """The nearest piece is named."""
    found = await verify(Lexical(), CLAIM, ["The heart pumps blood.", "Aspirin is one of the drugs."])
    assert (found.verdict, found.index) == ("not_told", 1)


async def test_a_sentence_without_its_subject_is_read_with_those_before_it() -> None:
    """Only where none alone decides; two in a row if they do, and not three."""
    asked = Lexical()
    piece = "Age was 60. Aspirin was given daily. It lowers the risk of stroke."
    found = await verify(asked, CLAIM, [piece])

    assert found.verdict == "supported"
    assert found.deciding.sentence.text == "Aspirin was given daily. It lowers the risk of stroke."
    assert piece in asked.asked

    asked = Lexical()
    await verify(asked, CLAIM, [f"Age was 60. {YES}."])
    assert asked.asked == ["Age was 60.", f"{YES}."]


async def test_too_many_sentences_are_refused_before_any_work() -> None:
    asked = Lexical()
    with pytest.raises(RequestError, match="evidence: 1001 sentences, at most 1000") as refused:
        await verify(asked, CLAIM, ["It is so. " * (MAX_SENTENCES + 1)])
    assert (refused.value.param, asked.asked) == ("evidence", [])


@given(st.text(alphabet=st.sampled_from("ab .?!\n\t5é\u3000"), max_size=60))
def test_every_text_has_sentences_that_are_its_slices(text: str) -> None:
    """A number or a single word too, which are no sentence elsewhere."""
    found = sentences_of(text)
    assert found
    assert all(text[one.start : one.end] == one.text for one in found)
