"""Samples of one seed are the same, and say of their evidence what it says."""

from __future__ import annotations

import json
import random

import pytest

from scripts.verifier.answer_samples import EntrySamples
from scripts.verifier.edit_samples import EditSamples
from scripts.verifier.frame_samples import FrameSamples
from scripts.verifier.note_samples import TWIN_NOTES, note_samples, read_note_questions
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, UNTOLD, Sample, as_keywords, as_typed, misspelt
from scripts.verifier.sources import Entry, Trial
from scripts.verifier.study_samples import trial_claim, trial_samples
from scripts.verifier.wordings import LANGUAGES, wordings
from server.methods.shared.reading.gate import whether

TRIAL = Trial("1", "aspirin", "placebo", "mortality", "decreased", "Fewer died on aspirin.")
ENTRIES = [
    Entry("1", "Fabry disease", "symptoms", "What are the symptoms of Fabry disease ?", "Fabry disease causes pain."),
    Entry("1", "Fabry disease", "treatment", "How is it treated ?", "Enzyme replacement is given for Fabry disease."),
    Entry("2", "Menkes disease", "symptoms", "What are they ?", "Menkes disease causes kinky hair and seizures."),
]


def test_a_trial_supports_what_it_found_and_contradicts_the_rest() -> None:
    draw = random.Random(2)
    for _ in range(30):
        found, wrong = list(trial_samples([TRIAL], 1, draw))
        assert found.verdict == SUPPORTS
        assert wrong.verdict == CONTRADICTS or wrong.query.startswith(("Does ", "Do "))
        assert found.relevance == wrong.relevance == 1


def test_a_claim_names_what_was_compared() -> None:
    assert trial_claim(TRIAL, "decreased") == "Aspirin decreases mortality compared with placebo."


def test_an_answer_of_another_focus_or_kind_is_beside_the_point() -> None:
    samples = EntrySamples(ENTRIES)
    found = [one for seed in range(40) for one in samples.draw(3, random.Random(seed))]
    right = {one.verdict for one in found if one.relevance == 1}
    beside = {one.verdict for one in found if one.relevance == 0}
    assert right == {UNTOLD}
    assert beside == {NEITHER}
    assert len([one for one in found if one.relevance == 0]) > 40


@pytest.mark.parametrize("name", ["verdicts", "spoken", "facts"])
def test_random_names_are_drawn_alike_from_one_seed(name: str) -> None:
    frames = FrameSamples()
    first, second = ([*getattr(frames, name)(40, random.Random("a"))] for _ in range(2))
    assert first == second
    assert len({one.query for one in first}) > 30
    assert not any("{" in one.query or "{" in one.evidence for one in first)


def test_a_question_about_another_name_is_not_told() -> None:
    for one in FrameSamples().spoken(200, random.Random(5)):
        assert (one.relevance == 0) == (one.verdict == NEITHER)


def test_each_kind_of_question_is_worded_in_four_languages() -> None:
    for kind, forms in wordings()["kinds"].items():
        assert set(forms) == set(LANGUAGES), kind
        assert all("{focus}" in form for each in forms.values() for form in each)


def test_some_questions_are_typed_in_a_hurry_and_short_ones_never() -> None:
    draw = random.Random(3)
    typed = [as_typed("Which gene is mutated in Krabbe disease?", draw) for _ in range(400)]
    changed = [one for one in typed if one != "Which gene is mutated in Krabbe disease?"]
    assert 20 < len(changed) < 120
    assert as_typed("DKA tx?", random.Random(0)) == "DKA tx?"


def test_some_questions_are_typed_as_keywords_which_ask_for_no_verdict() -> None:
    draw = random.Random(4)
    asked = Sample("a", "Is heparin safe in pregnancy?", "It is.", 1, SUPPORTS)
    short = [one for one in (as_keywords(asked, draw) for _ in range(200)) if one != asked]
    assert 8 < len(short) < 40
    assert {frozenset(one.query.split()) for one in short} == {frozenset({"heparin", "safe", "pregnancy"})}
    assert {one.verdict for one in short} == {UNTOLD}
    claim = asked._replace(query="Heparin is safe in pregnancy.")
    assert all(as_keywords(claim, draw) == claim for _ in range(50))


def test_what_people_wrote_is_supported_and_an_edit_of_it_is_not() -> None:
    lines = [f"Variants of GENE{n} cause the rare disorder number {n} in children." for n in range(12)]
    edits = EditSamples(lines, "seed")
    found = list(edits.said_again([("GENE1 causes 1 disorder of children.", lines[1])], 1, random.Random(1)))
    assert (found[0].query, found[0].verdict) == ("GENE1 causes 1 disorder of children.", SUPPORTS)
    assert all(one.verdict in (CONTRADICTS, NEITHER) for one in found[1:])


def test_what_acts_on_what_is_asked_both_ways_round_and_told_one_way() -> None:
    lines = ["Dapsone inhibits GYPA in erythrocytes.", "Fourteen people were asked about their sleep."]
    edits = EditSamples(lines, "seed")
    said, turned = edits.roles(9, random.Random(1))
    assert (said.verdict, turned.verdict) == (SUPPORTS, NEITHER)
    assert "GYPA inhibits dapsone in erythrocytes" in turned.query


def test_a_sentence_with_the_words_of_a_question_and_not_its_name_is_beside_the_point() -> None:
    lines = ["The half-life is long.", "Bioavailability is the share of a dose that reaches the circulation."]
    found = list(FrameSamples().general(60, lines, random.Random(2)))
    assert {one.verdict for one in found} == {NEITHER}
    assert {one.relevance for one in found} == {0}
    assert {one.evidence for one in found} == set(lines)


def test_what_a_note_answers_and_what_it_only_resembles() -> None:
    """A part of the notes is left out, pair by pair; near questions have no answer, and yes or no is taught as said."""
    kept, left_out = (read_note_questions(held_out=one) for one in (False, True))
    assert 4 < len(kept) / len(left_out) < 7 and not {one.others for one in kept} & {one.others for one in left_out}
    for one in kept[::50]:
        found = list(note_samples([one], random.Random(1)))
        assert [each.verdict for each in found if each.relevance] == [one.verdict] * len(one.answers)
        assert all(each.evidence not in one.answers for each in found if not each.relevance) and len(found) >= 2


def test_a_choice_is_asked_about_before_its_stem() -> None:
    """The right one is answered with yes, a wrong one with no, by the same sentences as the stem."""
    pairs = [json.loads(line) for line in TWIN_NOTES.read_text(encoding="utf-8").splitlines()]
    notes = [pair[side] for pair in pairs for side in ("a", "b")]
    listed = [one for note in notes for one in note["questions"] if one["form"] == "choice"][:60]
    known = {one.text: one for part in (True, False) for one in read_note_questions(held_out=part)}
    for one in listed:
        told = [known.get(whether(choice, one["q"])) for choice in one["choices"]]
        right, wrong = told.pop(one["right"]), told[:2]
        assert right and right.verdict == SUPPORTS and right.answers == known[one["q"]].answers
        assert all(each and each.verdict == CONTRADICTS and each.answers == right.answers for each in wrong)
    assert listed


def test_one_letter_is_wrong_in_a_misspelt_text() -> None:
    assert misspelt("12 34", random.Random(1)) == "12 34"
    for seed in range(20):
        assert abs(len(misspelt("schizophrenia", random.Random(seed))) - 13) <= 1
