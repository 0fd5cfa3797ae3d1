"""Which sentences are judged, and how each is read."""

from __future__ import annotations

from server.methods.shared.reading.evidence import MOST_JUDGED, EvidenceText, nearest, sentences_of


def test_each_sentence_is_read_behind_the_title_of_its_text() -> None:
    """A short title is its subject, where the sentence does not name it itself."""
    (own, named), (long,) = (
        sentences_of([EvidenceText("Heparin", "It is reversed by protamine. Heparin is given by vein.")]),
        sentences_of([EvidenceText("A trial of heparin in many people of our town", "Nobody bled at all.")]),
    )
    assert own.in_context == "Heparin. It is reversed by protamine." and own.subject == "Heparin"
    assert named.in_context == "Heparin. Heparin is given by vein." and named.subject == ""
    assert long.subject == "" and long.in_context.startswith("A trial of heparin")


def test_a_sentence_of_two_texts_is_there_once() -> None:
    text = EvidenceText("", "Protamine reverses heparin.")
    assert len(sentences_of([text, text])) == 1


def test_of_many_sentences_those_near_the_question_are_judged() -> None:
    """By its rarer words and by the rank of their texts; of a few, all are."""
    texts = [
        EvidenceText("", f"The patients of ward {n} slept well. Nothing more is told of ward {n}.") for n in range(40)
    ]
    texts.append(EvidenceText("", "Protamine reverses heparin."))
    sentences = sentences_of(texts)
    near = nearest("What reverses heparin?", sentences)
    assert len(near) == MOST_JUDGED and "Protamine reverses heparin." in [one.line for one in near]
    assert near[0].source == 0
    assert nearest("What?", sentences[:3]) == sentences[:3]
