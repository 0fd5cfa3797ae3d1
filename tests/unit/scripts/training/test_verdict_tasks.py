"""Verdicts: sentences that are turned into questions, and answers that follow from what is said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scripts.training.tasks.bioasq import read_questions
from scripts.training.tasks.samples import Writer
from scripts.training.tasks.verdict_tasks import VerdictTasks, opposite_of, statement_of
from server.methods.medrag.chain_of_thought import Prompts


@pytest.mark.parametrize(
    ("sentence", "asked", "denied"),
    [
        (
            "Alpers disease is inherited in a dominant manner.",
            "Is alpers disease inherited in a dominant manner?",
            "Alpers disease is not inherited in a dominant manner.",
        ),
        ("SCN5A has been linked to the syndrome.", "Has SCN5A been linked to the syndrome?",
         "SCN5A has not been linked to the syndrome."),
        ("MiR-21 inhibits PTEN in these cells.", "Does miR-21 inhibit PTEN in these cells?",
         "MiR-21 does not inhibit PTEN in these cells."),
    ],
)  # fmt: skip
def test_a_sentence_becomes_a_question_and_its_negation(sentence: str, asked: str, denied: str) -> None:
    one = statement_of(sentence)

    assert one is not None and one.asked == asked
    assert one.said(denied=True) == denied and one.said(denied=False) == sentence


def test_a_sentence_that_is_denied_asks_without_the_negation() -> None:
    one = statement_of("Enlimomab is not an effective treatment for stroke.")

    assert one is not None and one.denied
    assert one.asked == "Is enlimomab an effective treatment for stroke?"


@pytest.mark.parametrize("sentence", ["We found that it is so in the liver.", "It is inherited in a dominant manner."])
def test_a_sentence_about_something_before_it_is_left_out(sentence: str) -> None:
    assert statement_of(sentence) is None


def test_opposites_are_whole_words() -> None:
    draw = random.Random(1)

    assert opposite_of("Levels were increased.", draw) == "Levels were decreased."
    assert opposite_of("Unsafety was seen.", draw) == ""


def test_without_questions_all_names_are_made_up_and_prompts_are_the_method_s(writer: Writer) -> None:
    samples = VerdictTasks(writer, []).group("a", generated=40)
    system = Prompts.load().parts["verdict_system"]

    for sample in samples:
        assert writer.tokenizer.fast.decode(sample.prompt) == (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{sample.context}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        assert sample.context.endswith(f"\n\n{sample.question}\nYes or No?")
    assert {sample.answer for sample in samples} == {"Yes", "No"}


@pytest.mark.shared_data
def test_verdicts_of_experts_are_drawn_in_equal_shares_from_questions_that_are_not_held_out(
    bioasq: Path, writer: Writer
) -> None:
    tasks = VerdictTasks(writer, read_questions(bioasq, held_out=False))
    held_out = {one.text for one in read_questions(bioasq, held_out=True)}
    asked = [one for seed in range(40) for one in tasks.group(str(seed), asked=4, turned=0, generated=0)]

    assert sum(one.answer == "No" for one in asked) == len(asked) / 2
    assert not held_out & {one.question for one in asked}
