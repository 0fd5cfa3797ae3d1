"""Verdicts: sentences that are turned into questions, and answers that follow from what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.training.tasks.bioasq import read_questions, read_texts
from scripts.training.tasks.samples import Writer
from scripts.training.tasks.verdict_tasks import VerdictTasks, verdict_frames
from server.methods.medrag.chain_of_thought import Prompts


def test_without_questions_all_names_are_made_up_and_prompts_are_the_method_s(writer: Writer) -> None:
    tasks = VerdictTasks(writer, [])
    samples = [sample for seed in range(10) for sample in tasks.group(str(seed))]
    system = Prompts.load().parts["verdict_system"]

    for sample in samples:
        assert writer.tokenizer.fast.decode(sample.prompt) == (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{sample.context}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        assert sample.context.endswith(f"\n\n{sample.question}\nYes or No?")
    assert {sample.answer for sample in samples} == {"Yes", "No"}


@pytest.mark.shared_data
def test_verdicts_are_drawn_in_about_equal_shares_from_questions_that_are_not_held_out(
    bioasq: Path, writer: Writer
) -> None:
    tasks = VerdictTasks(writer, read_questions(bioasq, held_out=False), read_texts(bioasq))
    held_out = {one.text for one in read_questions(bioasq, held_out=True)}
    samples = [one for seed in range(40) for one in tasks.group(str(seed))]

    assert 0.4 < sum(one.answer == "No" for one in samples) / len(samples) < 0.6
    assert not held_out & {one.question for one in samples}


@pytest.mark.shared_data
def test_names_that_question_and_sentence_share_are_replaced_in_both(bioasq: Path, writer: Writer) -> None:
    tasks = VerdictTasks(writer, read_questions(bioasq, held_out=False))
    known = {one.text for one in read_questions(bioasq, held_out=False)}
    samples = [one for seed in range(20) for one in tasks.group(str(seed))]
    experts = [one for one in samples if any(one.question.split()[-1] == text.split()[-1] for text in known)]

    assert any(one.question not in known for one in experts)


def test_each_sentence_of_a_frame_has_the_names_of_its_questions() -> None:
    for frame in verdict_frames():
        asked = {name for text in (*frame.asks, *frame.inverts) for name in re.findall(r"{(\w+)}", text)}
        for text in (*frame.states, *frame.denies, *frame.inverse):
            missing = asked - set(re.findall(r"{(\w+)}", text))
            assert len(missing) < len(asked), text
        assert frame.states and frame.asks
        assert not frame.inverts or frame.inverse
