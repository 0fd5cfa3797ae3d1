"""Sentences of answers and what they rest on."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.methods.base import Mismatch, Source
from server.methods.shared.support.correspondence import Correspondence, Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())
SOURCES = (
    Source("Doxycycline 100 mg twice daily is given for 14 days. GLUT1 deficiency is rare.", 1, "Q fever"),
    Source("Tranexamic acid 1 g over 10 minutes was used in 312 horses by variants of ACX1.", 2, "Bleeding"),
    Source("Velotrapine lowered the rate from 40 to 5 percent.", 3, "A trial", status="retracted"),
    Source("Glucose of 7.8 mmol/L was diagnostic.", 4, "Old criteria", status="superseded"),
)
EVIDENCE = Evidence(SOURCES, "Is 75 mg of GLX5 enough?", READER)


def named(found: Correspondence) -> list[Mismatch]:
    """Return what stands nowhere, whether it speaks against the sentence or is a note."""
    return [*found.mismatches, *found.notes]


@pytest.mark.parametrize(
    ("sentence", "kind", "text"),
    [
        ("It is given for 21 days [1].", "number", "21 days"),
        ("It is given for 14 days [2].", "number", "14 days"),
        ("A trial (NCT01658124) showed it.", "identifier", "NCT01658124"),
        ("It is given for 14 days [97].", "citation", "[97]"),
        ("It is given for 14 days [1, 9].", "citation", "[1, 9]"),
        ("The rate fell from 40% to 5% [3].", "retracted", "[3]"),
        ("The rate fell to 5%.", "retracted", "5%"),
        ("Glucose of 7.8 mmol/L is diagnostic [4].", "superseded", "[4]"),
    ],
)
def test_what_does_not_correspond_is_named_with_its_place(sentence: str, kind: str, text: str) -> None:
    """Each kind of mismatch points at its part of the sentence."""
    found = [one for one in EVIDENCE.check(sentence).mismatches if one.kind == kind]

    assert [one.text for one in found] == [text]
    assert sentence[found[0].start : found[0].end] == text


@pytest.mark.parametrize(
    "sentence",
    [
        "It is given for two weeks [1].",
        "Das Mittel wird zweimal täglich zu 100 mg gegeben [1].",
        "TXA 1000 mg over ten min was used in 312 horses [2].",
        "ACX1 (also called ABC9) is involved [2].",
        "75 mg of GLX5 are not enough.",
        "[1] [2]",
        "Hello, how can I help?",
        "1. **First step**: give it [1].",
        "",
    ],
)
def test_what_corresponds_or_says_nothing_passes(sentence: str) -> None:
    """Other units, languages and abbreviations of the same, the question's own values, and small talk."""
    assert EVIDENCE.check(sentence).mismatches == ()


def test_a_value_of_another_source_is_said_to_stand_there() -> None:
    """The reader is told where the number stands."""
    assert EVIDENCE.check("It is given for 14 days [2].").mismatches[0].detail == "14 days stands in [1], not in [2]"


@pytest.mark.parametrize("text", ["RRT is needed.", "T2D is rare.", "It is given in CKD."])
def test_an_abbreviation_in_no_place_of_a_symbol_is_not_looked_up(text: str) -> None:
    """Letters alone may stand for anything."""
    assert EVIDENCE.check(text).mismatches == ()


def test_a_symbol_in_the_place_of_the_sources_speaks_against_a_sentence() -> None:
    """Beside the source's own symbol, or where the source says something else, it is a note."""
    evidence = Evidence([Source("Orla disease is caused by variants of ORL1A.", 1)], "", READER)
    against = evidence.check("Orla disease is caused by variants of KLF1A [1].")
    beside = evidence.check("Orla disease is caused by variants of ORL1A, which KLF1A binds [1].")

    assert [one.text for one in against.mismatches] == ["KLF1A"]
    assert beside.mismatches == () and [one.text for one in beside.notes] == ["KLF1A"]
    assert evidence.check("Orla disease (OD), by variants of ORL1A, leads to RRT [1].").notes == ()


def test_another_name_in_parentheses_is_not_looked_up() -> None:
    """A symbol behind a name of a source is that name's; behind another word it has to stand somewhere."""
    evidence = Evidence([Source("Compound Levothyroxine treats Disease hypothyroidism with variants")], "", READER)

    assert evidence.check("It is treated with levothyroxine (T4).").mismatches == ()
    assert [one.text for one in evidence.check("It has variants (TBG4).").mismatches] == ["TBG4"]


def test_a_source_that_the_sentence_names_need_not_be_cited() -> None:
    """A title in full is as good as a citation; a value of an unnamed source is not."""
    sources = (Source("10 mg a day is given.", 1, "Alkaptonuria"), Source("1 mg/kg a day is given.", 2, "Tyrosinaemia"))
    evidence = Evidence(sources, "", READER)

    assert evidence.check("Alkaptonuria: 10 mg a day; tyrosinaemia: 1 mg/kg a day [2].").mismatches == ()
    assert [one.text for one in named(evidence.check("Give 10 mg a day [2]."))] == ["10 mg a day"]


def test_without_sources_only_citations_are_wrong() -> None:
    """Nothing was read, so nothing can be missing from it."""
    evidence = Evidence((), "", READER)

    assert [one.kind for one in evidence.check("Variants of COL7A1 at 5 mg [1].").mismatches] == ["citation"]


def test_results_may_follow_from_numbers_of_two_sources() -> None:
    """What the answer names from two sources it may compare."""
    sources = (Source("Its half-life is 20 minutes.", 1, "A"), Source("Its half-life is 90 minutes.", 2, "B"))
    evidence = Evidence(sources, "", READER)
    context = "A has 20 minutes [1], B 90 minutes [2]."

    assert named(evidence.check("That is 4.5 times as long.", context)) == []
    assert [one.kind for one in evidence.check("That is 5.5 times as long.", context).notes] == ["number"]


TOKENS = st.sampled_from([
    "10", "10^999", "9e999", "×", "10⁶", "e5", "-", "–", ",", ".", "½", "mg/kg", "%", "°C", "one", "hundred",
    "million", "twice", "a", "day", "every", "q12h", "BID", "per", "kg", "of", "and", "(", ")", "[1]", "[1,", "4]",
    "[2-99]", ";", "\n", "ACX1", "id", "5699", "16q22.1", "chr7:1-2", "p", "<", "0.05", "2014-09-11", "rs12", "²",
    "٣", "0", "00", "1,234", "1.234,5", "half", "an", "hour", "|", "**", "1e99", "PMID",
])  # fmt: skip


@example([("10^999", " "), ("9e999", "")])
@given(st.lists(st.tuples(TOKENS, st.sampled_from(["", " "])), max_size=14))
def test_any_text_can_be_compared(tokens: list[tuple[str, str]]) -> None:
    """No form of numbers makes the comparison fail, and places are those of the sentence."""
    sentence = "".join(token + space for token, space in tokens)
    evidence = Evidence([Source(sentence, 1), Source(f"{sentence} ACX1", records=(sentence, "ACX1"))], sentence, READER)

    found = (*evidence.check(sentence).mismatches, *EVIDENCE.check(sentence, sentence).mismatches)

    assert all(0 <= one.start < one.end <= len(sentence) for one in found)


@pytest.mark.parametrize(
    ("question", "sentence", "text"),
    [
        ("", "It falls to 30 mg/dL (0.78 mmol/L) [1].", "The concentration falls to 30 mg/dL."),
        ("", "It is 135 mmol/L (135 mEq/L) [1].", "The concentration is 135 mmol/L."),
        ("BP 120/80: high?", "At 120/80 mmHg it is not [1].", "The limit is 140 mmHg."),
        ("", "| eGFR (mL/min/1.73 m²) | dose |", "It is given at an eGFR of 30 mL/min."),
        ("", "That is 0.04 per 1,000 [1].", "It happens in 4 of 100,000."),
        ("", "The rate rose from 19.2 to 24.0 per 100,000 [1].", "4,120 and 6,180 cases among 21.5 and 25.8 million."),
        ("", "119 patients (9.3%) and about 1,134 (89%) [1].", "There were 1,274. 89 percent were new, 119 were ill."),
        ("", "It improved ppFEV1 [1].", "FEV1 rose with velotrapine."),
        ("", "It uses CRISPR-Cas9 to edit ORL1A [1].", "Velotrapine edits ORL1A."),
        ("", "It is due to rs334 of ORL1A (p.Glu7Val) [1].", "The variant rs334 of ORL1A causes it."),
    ],
)
def test_what_a_capable_model_adds_of_its_own_passes(question: str, sentence: str, text: str) -> None:
    """Conversions, rates, shares and further names of what is cited."""
    assert Evidence((Source(text, 1),), question, READER).check(sentence).mismatches == ()


@pytest.mark.parametrize(
    ("question", "sentence", "text"),
    [
        ("", "It falls to 0.78 mmol/L [1].", "The concentration falls to 30 mg/dL."),
        ("", "It falls to 40 mg/dL (0.78 mmol/L) [1].", "The concentration falls to 30 mg/dL."),
        ("BP 120/80: high?", "At 120/85 mmHg it is not [1].", "The limit is 140 mmHg."),
        ("", "That is 0.4 per 1,000 [1].", "It happens in 4 of 100,000."),
        ("", "119 patients (12.3%) [1].", "There were 1,274. 89 percent were new, 119 were ill."),
        ("", "It edits KLF1A [1].", "Velotrapine edits ORL1A."),
        ("", "It is due to p.Glu7Val [1].", "The variant p.Glu9Val of ORL1A causes it."),
        ("", "It is due to ORL1A (p.Glu7Val) [1].", "The variant p.Glu9Val of ORL1A causes it."),
    ],
)
def test_what_does_not_follow_is_still_named(question: str, sentence: str, text: str) -> None:
    assert named(Evidence((Source(text, 1),), question, READER).check(sentence))


def test_what_a_sentence_computes_is_used_in_the_next() -> None:
    """ "lowered by 25 to 50 percent" is of the dose that the sentence before has worked out."""
    evidence = Evidence(
        (Source("Orlamine 30 mg equals wennamine 20 mg. The dose is then lowered by 25 to 50 percent.", 1),),
        "What are 120 mg of orlamine?",
        READER,
    )
    first = "By the ratio 30 mg : 20 mg, 120 mg of orlamine are 80 mg of wennamine [1]."
    second = "Lowered by 25–50%, that is 40–60 mg [1]."
    answer = f"{first} {second}"
    assert not named(evidence.check(first, answer)) and not named(evidence.check(second, answer))
    assert named(evidence.check("Lowered by 25–50%, that is 33–71 mg [1].", answer))


def test_a_number_that_stands_nowhere_speaks_against_a_sentence_in_place_of_another() -> None:
    """What stands beside the source's own number is computed, converted or known."""
    evidence = Evidence(
        (Source("Orlamine is given at 5 mg a day for 3 weeks.", 1), Source("Wennamine is given at 8 mg a day.", 2)),
        "",
        READER,
    )
    against = evidence.check("Orlamine is given at 7 mg a day [1].")
    beside = evidence.check("Orlamine is given at 5 mg a day, which is 19 nmol [1].")
    elsewhere = evidence.check("Wennamine is given at 8 mg a day [1].")
    assert [one.text for one in against.mismatches] == ["7 mg a day"] and against.notes == ()
    assert beside.mismatches == () and [one.text for one in beside.notes] == ["19 nmol"]
    assert elsewhere.mismatches[0].detail == "8 mg a day stands in [2], not in [1]"
