"""Answers that say that their sources do not tell, in the words of many models."""

from __future__ import annotations

import time

import pytest

from server.methods.shared.outcomes import says_nothing


@pytest.mark.parametrize(
    "answer",
    [
        "The passages do not say.",
        "The passages do not say. [1]",
        "The statements do not say.",
        "I don't know.",
        "I don’t know what it is from these passages.",
        "The articles do not answer this question.",
        "The provided passages do not contain information on heparin.",
        "**The passages do not directly state the answer.** They do not mention heparin. Please consult a doctor.",
        "None of the passages mentions dabigatran [1, 2].",
        "No passage answers this question.",
        "There is no information in the passages about that.",
        "Although heparin is mentioned, the passages do not say what reverses it.",
        "The dose is not mentioned in the passages.",
        "The question cannot be answered from the passages.",
        "Sorry, I cannot answer this.",
        "- The context does not provide this.",
        "Answer: not stated",
        "Unknown.",
    ],
)
def test_an_answer_that_only_says_that_nothing_is_told(answer: str) -> None:
    """Whatever the model's words for it are, with marks of citations or without."""
    assert says_nothing(answer) == "whole"


@pytest.mark.parametrize(
    "answer",
    [
        "The passages do not say what reverses it, but protamine binds heparin [2].",
        "Protamine reverses heparin [2]. The passages do not give its dose.",
    ],
)
def test_a_part_that_is_not_told(answer: str) -> None:
    """Something else is stated beside it."""
    assert says_nothing(answer) == "part"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "---",
        "No.",
        "Protamine reverses heparin [2].",
        "It is not known to cause cancer.",
        "None of the drugs helped.",
        "The evidence does not support a benefit of surgery [1].",
        "The results do not show a difference between groups [1].",
        "There is no evidence that vaccines cause autism [1].",
        "The disease is not known in children.",
    ],
)
def test_a_finding_that_denies_something_is_an_answer(answer: str) -> None:
    """A negative result is no missing one."""
    assert says_nothing(answer) == "none"


@pytest.mark.parametrize("piece", ["as ", "although a", "the of given ", "is not ", "no no ", "x is not clearly "])
def test_long_text_takes_no_time(piece: str) -> None:
    """Text that nearly matches costs no backtracking without end."""
    began = time.process_time()
    says_nothing(piece * 20_000)
    assert time.process_time() - began < 1.0
