"""An answer in any form has its sentences, and a line that says what is not supported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.methods.base import Mismatch, SentenceSupport, Source, Support
from server.methods.shared.support.labels import AnswerLabels, line_on, outcome_of, rests_on_nothing, sentence_spans
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units
from server.methods.shared.support.verifier import ClaimVerification

READER = QuantityReader(Units())


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ("PSMB10", ["PSMB10"]),
        ("Yes. It does [1]. [2] It helps.[3]", ["Yes.", "It does [1]. [2]", "It helps.[3]"]),
        ("- Aspirin [1]\n- Warfarin [2]", ["- Aspirin [1]", "Warfarin [2]"]),
        ("It is (see e.g. Fig. 2) so. And more.", ["It is (see e.g. Fig. 2) so.", "And more."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_keep_their_marks(answer: str, sentences: list[str]) -> None:
    """Fragments too; a mark behind the full stop belongs to the sentence before it."""
    assert [answer[span.start : span.end] for span in sentence_spans(answer)] == sentences


@given(st.text(alphabet="Ab1. [](),\n-", max_size=80))
def test_spans_of_any_text_are_in_order_and_do_not_overlap(answer: str) -> None:
    ends = [0]
    for span in sentence_spans(answer):
        assert ends[-1] <= span.start < span.end <= len(answer)
        ends.append(span.end)


def test_marks_are_no_citations_where_no_source_has_a_number() -> None:
    """They are the server's, behind the sentences of GeneGPT."""
    (one,) = AnswerLabels("BRCA1 lies on chr17 [1].", [Source("BRCA1 (human) chr17")], "Where?", READER).sentences
    assert (one.verdict, one.citations) == ("unchecked", ())


def test_nothing_is_looked_up_without_a_source() -> None:
    """So that no name counts as found."""
    (one,) = AnswerLabels("It is LAMP10 at 5 mg.", [], "Which gene?", READER).sentences
    assert (one.verdict, one.num_checked) == ("unchecked", 0)


def test_a_claim_for_a_verifier_is_a_sentence_that_cites_and_corresponds() -> None:
    sources = [Source("Aspirin helps.", 1, "Aspirin"), Source("Warfarin too.", 2)]
    labels = AnswerLabels("Aspirin helps [1, 2]. It is PMID 12345678 [1]. So it is.", sources, "", READER)
    ((place, claim),) = labels.claims()
    assert (place, claim.sentence) == (0, "Aspirin helps.")
    assert claim.evidence == "Aspirin\nAspirin helps.\n\nWarfarin too."
    verdicts = [one.verdict for one in labels.verified([0], ClaimVerification((0.3,), 0.25))]
    assert verdicts == ["supported", "unsupported", "unchecked"]
    assert labels.verified([0], ClaimVerification((0.2,), 0.25))[0].verdict == "unsupported"
    against = labels.verified([0], ClaimVerification((0.1,), 0.25, frozenset({0})))
    assert against[0].verdict == "contradicted"


def label(**more: object) -> SentenceSupport:
    return SentenceSupport(**{"start": 0, "end": 9, "verdict": "unchecked", **more})  # type: ignore[arg-type]


def test_the_line_names_each_mismatch_once() -> None:
    found = [Mismatch("number", f"{n} mg", 0, 4, f"{n} mg stands nowhere") for n in (1, 1, 2, 3, 4)]
    support = Support(tuple(label(verdict="unsupported", mismatches=(one,)) for one in found))
    assert line_on("x", support, is_uncited=False) == (
        "Not supported by what was read: 1 mg stands nowhere; 2 mg stands nowhere; 3 mg stands nowhere; and 1 more."
    )
    doubted = Support((label(verdict="unsupported", end=12),))
    assert line_on("It helps [1].", doubted, is_uncited=False).endswith("“It helps” is not stated there.")
    assert line_on("x", Support((label(),)), is_uncited=False) == ""


def test_the_outcome_follows_from_the_labels() -> None:
    good, bad = Support((label(),)), Support((label(verdict="unsupported"),))
    assert outcome_of("answered", good, is_uncited=False) == "answered"
    assert outcome_of("answered", good, is_uncited=True) == outcome_of("answered", bad, is_uncited=False) == "partial"
    assert outcome_of("not_found", bad, is_uncited=True) == "not_found"


def test_an_answer_rests_on_a_citation_or_on_what_could_be_looked_up() -> None:
    assert rests_on_nothing([label()]) and not rests_on_nothing([])
    for one in (label(citations=(1,)), label(num_checked=1), label(probability=0.5)):
        assert not rests_on_nothing([label(), one])


def test_the_record_counts_and_lists() -> None:
    mismatch = Mismatch("citation", "[9]", 0, 3, "no source has the number 9")
    support = Support((label(probability=0.98765), label(verdict="unsupported", mismatches=(mismatch,))))
    record = support.record
    assert (record["supported"], record["unchecked"], record["unsupported"]) == (0, 1, 1)
    assert record["sentences"][0]["probability"] == 0.9877 and "dropped" not in record
    assert record["sentences"][1]["mismatches"][0]["kind"] == "citation"
    assert Support(dropped=("x",)).record["dropped"] == ["x"]


KNOWN = (
    Source("The Orla line was first grown in 1950. The line carries virus 18 and is kept as follows: at 37 °C.", 1),
    Source("It is fed daily.", 2),
)


@pytest.mark.parametrize(
    "answer",
    [
        "The line carries virus 18 [1]. It was first grown in 1951.",
        "The line carries virus 18 [1]. It was first grown in 1951. It is kept at 37 °C [1].",
        "The line carries virus 18 [1].\n\nNote that it was first grown in 1951 and has XYZ7B.",
    ],
)
def test_knowledge_beside_what_is_cited_is_a_note(answer: str) -> None:
    """Nothing that was read speaks against it, and nothing in it counts as checked."""
    labels = AnswerLabels(answer, KNOWN, "", READER).sentences
    found = next(one for one in labels if one.mismatches)
    assert (found.verdict, found.num_checked) == ("unchecked", 0)
    assert not Support(labels).unsupported
    assert Support(AnswerLabels(answer, KNOWN, "", READER, is_strict=True).sentences).unsupported


@pytest.mark.parametrize(
    "answer",
    [
        "The line was first grown in 1951. It carries virus 18 [1].",
        "It is kept as follows [1]:\n- the line carries virus 19\n- fed daily",
        "It is kept as follows [1].\n\n| carried |\n| --- |\n| the line carries virus 19 |",
        "It carries virus 18 [1].\n\nIt was first grown in 1951. It is fed daily [2].",
        "It was first grown in 1951.",
        "It carries virus 18 [1]. It was first grown in 1951 [9].",
        "It carries virus 18 [1]. It was first grown in 1951 [1].",
    ],
)
def test_what_a_citation_covers_is_no_knowledge_beside_it(answer: str) -> None:
    """A citation covers the text before it in its paragraph, and the list or the table behind it."""
    assert Support(AnswerLabels(answer, KNOWN, "", READER).sentences).unsupported


def test_a_verifier_gets_the_texts_with_their_titles() -> None:
    sources = (Source("It is fed daily.", 1, "Orla line"),)
    ((_, claim),) = AnswerLabels("The Orla line is fed daily, for 12 days [1].", sources, "12 days?", READER).claims()
    assert [(one.title, one.text) for one in claim.texts] == [("Orla line", "It is fed daily.")]
    assert claim.num_checked == 1
