"""Follow-ups become questions that stand alone, by what the user named before; other questions stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.methods.shared.conversation.follow_ups import entity_of, standalone

SYMBOL = "What is the official gene symbol of LMP10?"


@pytest.mark.parametrize(
    ("before", "question", "alone"),
    [
        (SYMBOL, "And on which chromosome is it?", "On which chromosome is LMP10?"),
        (SYMBOL, "and its location?", "What is the location of LMP10?"),
        (SYMBOL, "what about TP53?", "What is the official gene symbol of TP53?"),
        (SYMBOL, "is it protein-coding?", "Is LMP10 protein-coding?"),
        (SYMBOL, "And what is the location of that gene?", "What is the location of LMP10?"),
        ("Which chromosome is BRCA1 on?", "und in der Maus?", "Which chromosome is BRCA1 on in der Maus?"),
        ("Which chromosome is BRCA1 on in the mouse?", "and in humans?", "Which chromosome is BRCA1 on in humans?"),
        ("Is BRCA1 protein-coding?", "which chromosome?", "On which chromosome is BRCA1?"),
        ("What is TP53?", "aliases?", "What are the aliases of TP53?"),
        ("What is TP53?", "Does it interact with MDM2?", "Does TP53 interact with MDM2?"),
        ("Which gene is rs7412 in?", "What about rs429358?", "Which gene is rs429358 in?"),
        ("Welche Funktion hat TP53?", "Und wo liegt es?", "Wo liegt TP53?"),
        ("What are the symptoms of cystic fibrosis?", "which gene causes it?", "Which gene causes cystic fibrosis?"),
        (
            "What are the symptoms of cystic fibrosis?",
            "And of Marfan syndrome?",
            "What are the symptoms of Marfan syndrome?",
        ),
        ("Which drugs treat Parkinson disease?", "And Alzheimer's disease?", "Which drugs treat Alzheimer's disease?"),
        ("Is aspirin safe in pregnancy?", "What about ibuprofen?", "Is ibuprofen safe in pregnancy?"),
        ("How does warfarin act?", "What reverses it quickly?", "What reverses warfarin quickly?"),
        ("What is asthma?", "how is it treated?", "How is asthma treated?"),
    ],
)
def test_a_follow_up_takes_the_entity_of_the_turn_before(before: str, question: str, alone: str) -> None:
    """By pronoun, by another name or place, or by what it omits."""
    assert standalone([before, question]) == alone


@pytest.mark.parametrize(
    ("before", "question", "alone"),
    [
        (
            "Which gene causes cystic fibrosis?",
            "On which chromosome is it?",
            "On which chromosome is the gene that causes cystic fibrosis?",
        ),
        ("Which gene causes cystic fibrosis?", "and its symptoms?", "What are the symptoms of cystic fibrosis?"),
        (
            "Which drug reverses heparin?",
            "what are its side effects?",
            "What are the side effects of the drug that reverses heparin?",
        ),
        ("Which drug reverses heparin?", "what about warfarin?", "Which drug reverses warfarin?"),
        (
            "Which genes are associated with Parkinson's disease?",
            "Which drugs treat it?",
            "Which drugs treat Parkinson's disease?",
        ),
    ],
)
def test_it_may_mean_the_answer_which_the_question_describes(before: str, question: str, alone: str) -> None:
    """Where the earlier question asked for one thing, that thing is meant: not the name in that question."""
    assert standalone([before, question]) == alone


@pytest.mark.parametrize(
    "question",
    [
        "What is asthma?",
        "What is a gene?",
        "Does aspirin cause bleeding and is it safe?",
        "Is it true that BRCA1 causes cancer?",
        "And what are the symptoms of asthma?",
        "So which drug reverses heparin?",
        "Which gene causes cystic fibrosis?",
        "why?",
        "Tell me more",
        "What disease do they cause?",
        "Which of these is it?\nA. TP53\nB. BRCA1",
    ],
)
def test_a_question_of_its_own_stays(question: str) -> None:
    """As do those for which nothing can be carried over."""
    assert standalone(["What are the genes for Marfan syndrome?", question]) == question


def test_a_chain_of_follow_ups_is_resolved_turn_by_turn() -> None:
    """Small talk and emergencies in between carry nothing."""
    turns = [SYMBOL, "what about TP53?", "thanks", "I have crushing chest pain", "and on which chromosome is it?"]
    assert standalone(turns) == "On which chromosome is TP53?"


def test_without_an_earlier_question_nothing_is_carried() -> None:
    """The first question of a conversation is sent as it is."""
    assert standalone(["is it protein-coding?"]) == "is it protein-coding?"
    assert standalone(["hello", "is it protein-coding?"]) == "is it protein-coding?"


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        (SYMBOL, "LMP10"),
        ("What are the symptoms of sickle cell anaemia?", "sickle cell anaemia"),
        ("Which genes are associated with Parkinson's disease?", "Parkinson's disease"),
        ("Where is it?", ""),
    ],
)
def test_the_entity_is_written_as_the_question_writes_it(question: str, entity: str) -> None:
    """An identifier first, then names, then what the question ends with."""
    assert entity_of(question) == entity


@given(st.lists(st.text(max_size=120), max_size=4))
def test_any_conversation_is_resolved(turns: list[str]) -> None:
    """Without failing."""
    standalone(turns)
