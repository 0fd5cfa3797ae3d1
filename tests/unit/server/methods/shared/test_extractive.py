"""Choosing sentences: what counts, what is the same, what supports a choice."""

from __future__ import annotations

import pytest

from server.methods.shared.extractive import (
    CALIBRATIONS,
    MAX_COMPARED,
    ScoredSentence,
    Source,
    bar_for,
    candidates_of,
    chosen,
    completing,
    question_stems,
    scored,
    stems_of,
    supported_choice,
)
from server.methods.shared.passages import SentenceScores

HEPARIN = Source("Heparin", "Heparin activates antithrombin. Protamine sulfate reverses heparin within minutes.")
OTHER = Source("Aspirin", "Aspirin acetylates cyclooxygenase. It blocks platelets for days.")
WORDS_ONLY = SentenceScores()


def _lines(question: str, *sources: Source, most: int = 3) -> list[str]:
    ranked = scored(candidates_of(question, sources).sentences, WORDS_ONLY)
    return [one.line for one in chosen(ranked, most, bar_for(WORDS_ONLY))]


def test_the_sentence_with_the_questions_words_is_chosen() -> None:
    """The kind that is asked for ("which drug") need not stand in it; word forms are one word."""
    assert _lines("Which drug reverses heparin?", HEPARIN, OTHER) == [
        "Protamine sulfate reverses heparin within minutes."
    ]
    assert stems_of("inhibits") == stems_of("inhibitor") == stems_of("inhibition")
    assert question_stems("List the inhibitors") == ("inhibit",)


def test_a_pronoun_means_what_the_passage_is_about() -> None:
    """Where the title is a name: its words count for the sentence, and encoders get them in its place."""
    note = Source("Heparin", "Heparin activates antithrombin. Protamine sulfate reverses its effect.")
    found = candidates_of("Which substance reverses heparin?", [note, OTHER]).sentences
    meant = next(one for one in found if "Protamine" in one.sentence.text)
    assert (meant.subject, meant.compared) == ("Heparin", "Protamine sulfate reverses Heparin's effect.")
    assert meant.covered == max(one.covered for one in found)
    assert all(not one.subject for one in found if one.sentence.text.startswith(("Heparin", "Aspirin")))
    paper = Source("Effects of heparin in 30 patients with sepsis", note.text)
    assert all(not one.subject for one in candidates_of("What reverses heparin?", [paper]).sentences)


@pytest.mark.parametrize(
    "question", ["What is the mechanism of action of heparin?", "Describe the usual effect of heparin.", "Use heparin?"]
)
def test_the_noun_that_is_asked_for_need_not_stand_in_screened_sources(question: str) -> None:
    """What is described is never taken for such a noun."""
    strict = candidates_of(question, [HEPARIN]).sentences[0].covered
    wide = candidates_of(question, [HEPARIN], is_screened=True).sentences[0].covered
    assert wide > strict if " of heparin" in question else wide == strict


def test_a_question_of_other_words_is_not_answered() -> None:
    """However near the passages are."""
    assert _lines("What is the half-life of heparin in dialysis?", HEPARIN, OTHER) == []
    assert _lines("Which drug reverses heparin?") == []


def test_repetitions_are_left_out() -> None:
    """Of sentences that say the same, the best stands for all."""
    twice = Source("", "Protamine sulfate reverses heparin. Protamine sulfate reverses heparin quickly.")
    assert len(_lines("What reverses heparin?", twice)) == 1
    assert len(_lines("What reverses heparin?", HEPARIN, OTHER, most=1)) == 1


def test_a_sentence_is_completed_by_those_on_what_it_leaves_out_of_the_question() -> None:
    """Not by one that says more about the same words of it."""
    text = "Vegetans is rare. It is a marker of Crohn's disease. Vegetans has pustules. It is associated with smoking."
    question = "Is vegetans associated with Crohn's disease?"
    found = sorted(candidates_of(question, [Source("", text)]).sentences, key=lambda one: text.index(one.sentence.line))
    ranked = [ScoredSentence(one, 1.0 - place / 10, 1.0) for place, one in enumerate(found)]
    lines = [one.line for one in completing(ranked, question, 3)]
    assert lines == ["Vegetans is rare.", "It is a marker of Crohn's disease.", "It is associated with smoking."]
    assert len(completing(ranked, question, 2)) == 2
    assert completing([], question, 3) == []


def test_only_so_many_are_compared() -> None:
    """Encoding costs time; those with most of the words are among them."""
    many = Source("", " ".join(f"Sentence number {n} is about nothing much." for n in range(100)))
    found = candidates_of("What reverses heparin?", [many, HEPARIN])
    assert found.num_found == 102 and len(found.sentences) == MAX_COMPARED
    assert any("Protamine" in one.sentence.text for one in found.sentences)


def test_vectors_count_where_they_are_calibrated() -> None:
    """Those of another encoder, and a cross-encoder, order the sentences and pass no bar."""
    candidates = candidates_of("Which drug antagonises it?", [HEPARIN]).sentences
    near = tuple(0.9 if "Protamine" in one.sentence.text else 0.0 for one in candidates)
    known = scored(candidates, SentenceScores(encoder="minilm", cosines=near))
    assert "Protamine" in known[0].line and known[0].score > known[1].score
    for scores in (SentenceScores(encoder="another", cosines=near), SentenceScores(cross=near)):
        ranked = scored(candidates, scores)
        assert "Protamine" in ranked[0].line and chosen(ranked, 3, bar_for(scores)) == []
    assert bar_for(SentenceScores(encoder="another")) == CALIBRATIONS[""].bar


@pytest.mark.parametrize(
    ("stem", "choices", "place"),
    [
        ("Which drug reverses heparin?", ("warfarin", "protamine", "vitamin K"), 1),
        ("Which drug reverses heparin?", ("warfarin", "vitamin K"), -1),
        ("Which drug does not reverse heparin?", ("warfarin", "protamine"), -1),
        ("Which drug reverses heparin?", ("protamine", "protamine sulfate"), 1),
        ("Which drug reverses heparin?", ("protamine", "sulfate"), -1),
    ],
)
def test_a_choice_is_named_alone(stem: str, choices: tuple[str, ...], place: int) -> None:
    """The longer of two names that stand in the same words counts; a negated question is not decided."""
    ranked = scored(candidates_of(stem, [HEPARIN, OTHER]).sentences, WORDS_ONLY)
    support = supported_choice(stem, choices, ranked, bar_for(WORDS_ONLY))
    assert support.place == place and bool(support.sentence) == (place >= 0)
